"""
Keep what the sender was told, outside PostgreSQL: the database cannot be its own witness.

One line a delivery attempt, appended to a file and never changed. What was answered 2xx is acknowledged: from then on
the provider will not send it again, so it must be in the inbox, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Answer:
    """
    Hold what one attempt came to.

    Attributes:
        status: The HTTP status, or None where the connection ended without one.
        headers: In lower case.
        body: As received.
        error: What ended the connection, where there is no status.
    """

    status: int | None
    headers: dict[str, str]
    body: bytes
    error: str = ""

    @property
    def heard(self) -> bool:
        """Whether the sender may forget the delivery."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def outcome(self) -> str:
        """The receiver's word for it, empty where there is none."""
        return self._said("outcome")

    @property
    def reason(self) -> str:
        """The receiver's code for a refusal or failure, empty where there is none."""
        return self._said("reason")

    def _said(self, name: str) -> str:
        try:
            return str(json.loads(self.body)[name])
        except (ValueError, KeyError, TypeError):
            return ""


@dataclass(frozen=True, slots=True)
class Entry:
    """
    Hold one line of the ledger.

    Attributes:
        event: The sender's name for what it delivers; the event id where there is one.
        sha256: Hex, of the bytes sent.
        status: As answered; None: not answered.
    """

    event: str
    path: str
    sha256: str
    status: int | None
    outcome: str
    retry_after: str
    error: str


class Ledger:
    """
    Append one entry for each attempt, from any thread.

    Args:
        file: Where the entries are kept as lines of JSON.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.entries: list[Entry] = []

    def record(self, event: str, path: str, body: bytes, answer: Answer) -> None:
        """Append what was sent and what was heard."""
        entry = Entry(
            event=event,
            path=path,
            sha256=hashlib.sha256(body).hexdigest(),
            status=answer.status,
            outcome=answer.outcome,
            retry_after=answer.headers.get("retry-after", ""),
            error=answer.error,
        )
        with self._lock:
            self.entries.append(entry)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(entry)) + "\n")

    @property
    def acknowledged(self) -> dict[str, str]:
        """The SHA-256 of each event that was answered 2xx at least once, by its name."""
        return {entry.event: entry.sha256 for entry in self.entries if entry.status in range(200, 300)}

    @property
    def events(self) -> set[str]:
        """Every event that was sent at least once."""
        return {entry.event for entry in self.entries}

    def outcomes(self, event: str | None = None) -> Counter[str]:
        """How often each outcome was heard, of one event or of all; ``(none)`` where there was no answer."""
        chosen = [entry for entry in self.entries if event in {None, entry.event}]
        return Counter(entry.outcome or "(none)" for entry in chosen)
