"""
Hold the handlers' common part: what one event's effect is, for every driver; standard library alone.

The statements are written once, in ``effect.sql``. ``BENCHMARK_EFFECT`` says what a handler does: ``business``, the
three statements in one transaction, or ``nothing``, only tell that it ran.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

EFFECT_VARIABLE = "BENCHMARK_EFFECT"
TALLY_VARIABLE = "BENCHMARK_TALLY"
#: A file of events, one a line, for the peers that cannot ask the harness for them.
EVENTS_VARIABLE = "BENCHMARK_EVENTS"
ACCOUNTS = 1000
_HERE = Path(__file__).parent


def _statements(name: str) -> tuple[str, ...]:
    lines = (_HERE / name).read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    return tuple(part.strip() for part in text.split(";") if part.strip())


TABLES = (_HERE / "tables.sql").read_text()
NUMBERED = _statements("effect.sql")
PERCENT = tuple(re.sub(r"\$\d", "%s", statement) for statement in NUMBERED)
PERCENT_SET = tuple(re.sub(r"\$\d", "%s", statement) for statement in _statements("effect_set.sql"))


class Booking(NamedTuple):
    """Hold what the business keeps of an event."""

    event_id: str
    account_id: int
    amount: int

    @classmethod
    def of(cls, event: dict[str, Any]) -> Booking:
        """Read it from a payload; the account is one of ``ACCOUNTS``, spread by a hash."""
        event_id = event["id"]
        return cls(event_id, zlib.crc32(event_id.encode()) % ACCOUNTS, event["data"]["object"]["amount"])

    @property
    def params(self) -> tuple[tuple[Any, ...], ...]:
        """Give the parameters of each of the three statements."""
        message = json.dumps({"account": self.account_id, "amount": self.amount})
        return (self.amount, self.account_id), tuple(self), (self.event_id, message)


def set_params(bookings: Sequence[Booking]) -> tuple[tuple[list[Any], ...], ...]:
    """Give the parameters of each of the three set-based statements: columns."""
    columns = tuple(list(column) for column in zip(*bookings, strict=True))
    return columns[1:], columns, columns


def does_business() -> bool:
    """Whether handlers write; else they tell that they ran, and nothing more."""
    return os.environ.get(EFFECT_VARIABLE, "business") == "business"


class Tally:
    """Count runs outside the database: one byte each, appended to the file that ``BENCHMARK_TALLY`` names."""

    def __init__(self) -> None:
        path = os.environ.get(TALLY_VARIABLE, os.devnull)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def count(self) -> None:
        """Tell that a handler ran."""
        os.write(self._file, b".")
