"""Describe a message of the outbox on its way to one destination, and what came of sending it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """
    Hold one message as a destination is handed it.

    Attributes:
        id: The same each time it is sent, to every destination: whoever receives it twice can tell (P-OUT).
        destination: The name of the destination that it is for.
        event_type: What others know it by, for instance ``InvoicePaymentBooked``.
        aggregate_type: What kind of thing it is about; may be empty.
        aggregate_id: Which one; may be empty.
        payload: JSON, UTF-8.
        created_at: When its transaction began (aware, server clock).
        attempt: This send's number, from 1.
        headers: What travels along, by lower-case name: ``traceparent``, ``tracestate``, ``correlation-id``, or what
            the user gave. Printable ASCII.
    """

    id: UUID
    destination: str
    event_type: str
    aggregate_type: str = ""
    aggregate_id: str = ""
    payload: bytes = field(repr=False)
    created_at: datetime
    attempt: int = 1
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> str:
        """Give what messages share that must keep their order: ``Invoice/in_1``; empty where it is about nothing."""
        return f"{self.aggregate_type}/{self.aggregate_id}" if self.aggregate_id else ""

    @property
    def idempotency_key(self) -> str:
        """Give a key for a call to another API, the same each time the message is sent."""
        return str(self.id)


class SendState(StrEnum):
    """
    Say where a message stands on its way to one destination.

        (outbox) ──► waiting ──► leased ──► sent
           │            ▲          │
           ▼            │          ▼
        unrouted        └─────  retrying ──► dead
    """

    WAITING = "waiting"
    LEASED = "leased"
    RETRYING = "retrying"
    SENT = "sent"
    DEAD = "dead"
    UNROUTED = "unrouted"


class MessageState(StrEnum):
    """Say what routing came to for a message; whether it is published, ``published_at`` says."""

    WAITING = "waiting"
    ROUTED = "routed"
    UNROUTED = "unrouted"


@dataclass(frozen=True, slots=True)
class Sent:
    """Say that the destination has confirmed a message: it is its own from now on (P-OUT)."""


@dataclass(frozen=True, slots=True)
class Failed:
    """
    Say that a message is not known to have arrived.

    Attributes:
        reason: For an operator; never a secret, a payload or what the destination answered in its body (P-QUIET).
        permanent: No later attempt can succeed: the message is dead for this destination.
        retry_in_seconds: When the destination asked to be tried again; None: as the backoff says.
        stop: Nothing can be sent there for now. Where it is not permanent, it costs the message no attempt.
    """

    reason: str
    permanent: bool = False
    retry_in_seconds: float | None = None
    stop: bool = False


Verdict: TypeAlias = Sent | Failed
#: What was claimed and not tried: it costs nothing, and is due at once.
NOT_TRIED = Failed("", stop=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    Bound what a destination is handed.

    Attributes:
        batch_messages_max: Messages that are sent in one call.
        batches_max: Calls that are under way at once.
        send_seconds_max: Seconds that one call may take; past that the relay gives it up, and sends all of it again.
    """

    batch_messages_max: int = 100
    batches_max: int = 1
    send_seconds_max: float = 30.0
