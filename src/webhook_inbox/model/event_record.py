"""Describe a recorded event as an operator sees it: where it stands, without its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from webhook_inbox.model.headers import Headers
from webhook_inbox.model.instants import instant
from webhook_inbox.model.states import Origin, State


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """
    Hold the row of one event.

    Attributes:
        row: Its surrogate key, in the order of arrival.
        available_at: When it is due; of a dead one, when it died.
        give_up_at: When retrying ends in dead; None before the first failure.
        attempts: Runs begun, less those given back.
        crashes: Workers that died under it.
        body_bytes: The size of its bytes, kept or not.
        body_sha256: In hexadecimal digits.
        last_error: What the last run met, or the reason of a verdict; no payload.
        holder: The worker that holds it now; None where none does.
    """

    row: int
    provider: str
    endpoint: str
    account: str
    environment: str
    event_id: str
    event_type: str
    state: State
    origin: Origin
    created_at: datetime | None
    received_at: datetime
    available_at: datetime
    processed_at: datetime | None
    give_up_at: datetime | None
    attempts: int
    crashes: int
    order_key: str | None
    secret_label: str
    body_bytes: int
    body_sha256: str
    last_error: str | None
    holder: str | None

    @property
    def identified(self) -> bool:
        """Say whether an event was found in the delivery; else it stands under its digest, and no handler is for it."""
        return bool(self.event_type) or not self.event_id.startswith("sha256:")

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Make one of a row of ``event_columns``."""
        row_id, provider, endpoint, account, environment, event_id, event_type, state, origin, *rest = row
        created_at, received_at, available_at, processed_at, give_up_at, *counts = rest
        attempts, crashes, order_key, secret_label, body_bytes, body_sha256, last_error, holder = counts
        return cls(
            row=row_id,
            provider=provider,
            endpoint=endpoint,
            account=account,
            environment=environment,
            event_id=event_id,
            event_type=event_type,
            state=State(state),
            origin=Origin(origin),
            created_at=_instant(created_at),
            received_at=instant(received_at),
            available_at=instant(available_at),
            processed_at=_instant(processed_at),
            give_up_at=_instant(give_up_at),
            attempts=attempts,
            crashes=crashes,
            order_key=order_key,
            secret_label=secret_label,
            body_bytes=body_bytes,
            body_sha256=body_sha256,
            last_error=last_error,
            holder=holder,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """
    Hold one run of an event that did not end in processed.

    Attributes:
        outcome: ``failed``, ``not_yet``, ``crashed`` or ``interrupted``.
        error: Type, SQLSTATE and place of what it met; no payload.
        traceback: Its frames, without source and without what the exception said.
    """

    attempt: int
    worker: str
    started_at: datetime
    seconds: float
    outcome: str
    error_type: str
    sqlstate: str
    error: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """
    Hold what an operator did to an event.

    Attributes:
        actor: Who.
        action: What: ``retry``, ``replay``, ``discard``, or ``resolve`` for a review of it.
        reason: Why; may be empty.
        before, after: The states that it led from and to; empty where it was not about the state.
    """

    at: datetime
    actor: str
    action: str
    reason: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDetails:
    """
    Hold all that is known of one event.

    Attributes:
        attempts: Its runs that failed, oldest first.
        audit: What operators did to it, oldest first.
        headers: As delivered, without those that carry credentials; None where they are not kept any more.
        body: Its exact bytes; None where they are not kept any more.
    """

    record: EventRecord
    attempts: tuple[AttemptRecord, ...]
    audit: tuple[AuditRecord, ...]
    headers: Headers | None
    body: bytes | None


def _instant(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else instant(microseconds)
