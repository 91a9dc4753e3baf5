"""Say what became of a delivery, in a form that any HTTP stack can send back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Never

from webhook_inbox.model.states import Outcome, State


class _NotToBeSerialised:
    """
    Keep a framework from turning a receipt into JSON and sending that with 200 (P-ACK).

    FastAPI does so with whatever a route returns, by ``dataclasses.asdict``: a delivery that failed would be
    acknowledged, and lost.
    """

    __slots__ = ()

    def __deepcopy__(self, memo: object) -> Never:
        raise TypeError(
            "a receipt is not an answer: return Response(receipt.body, receipt.status, dict(receipt.headers))"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventResult:
    """
    Say what became of one event of a delivery.

    Attributes:
        outcome: What this delivery did to it.
        event_id: The provider's id; for a quarantined body the digest it is kept under.
        state: Where the event stands now; for a duplicate, where the first copy stands (P-STATE).
            None where nothing is stored.
        first_received_at: For a duplicate, when the first copy came (server clock).
        reason: Short code or sentence for logs; never a payload, a secret or an expected signature (P-QUIET).
        unhandled_type: The event's type where it was ignored because no handler is registered for that; else empty.
        conflicting: Whether it came with another body under an id that its signature does not cover; that body had no
            effect, and is kept as evidence.
    """

    outcome: Outcome
    event_id: str
    state: State | None = None
    first_received_at: datetime | None = None
    reason: str = ""
    unhandled_type: str = ""
    conflicting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """
    Carry the answer to one delivery; in a route, ``Response(receipt.body, receipt.status, dict(receipt.headers))``.

    Attributes:
        status: HTTP status; 2xx only after the database confirmed the COMMIT (P-ACK).
        headers: Pairs to send, names in lower case; content-length is left to the server.
        body: Bytes to send.
        outcome: Of the delivery as a whole: of its only event, or of the event that is least settled.
        results: One per event of the body, in the body's order; empty where none was read.
        reason: Stable short code of a rejection or failure, for logs and metrics; empty where all went well.
    """

    status: int
    outcome: Outcome
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    results: tuple[EventResult, ...] = ()
    reason: str = ""
    _guard: _NotToBeSerialised = field(default=_NotToBeSerialised(), init=False, repr=False, compare=False)

    def json(self) -> object:
        """Parse the answer's body, for tests and tools."""
        return json.loads(self.body)
