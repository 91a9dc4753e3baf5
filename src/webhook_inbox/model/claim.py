"""Describe an event that a worker has claimed, and what a run of it came to."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NewType

from webhook_inbox.model.event import Event
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.instants import instant
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import Origin

WorkerId = NewType("WorkerId", int)
Token = NewType("Token", int)
_SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    Hold one claimed event.

    Attributes:
        id: The row.
        token: The fencing token: every write that finishes this run names it (P-FENCE).
        worker_id: The incarnation that holds the lease.
        event: What handlers receive; its attempt is counted already (P-COUNT).
        crashes: How many workers have died under it.
        solitary: It runs alone: no batch, no neighbour.
        order_key: Events of one key run one at a time; None: no order.
        due_at: When it was due, in microseconds since 1970; server clock. 0 where it was born claimed.
    """

    id: int
    token: Token
    worker_id: WorkerId
    event: Event
    crashes: int
    solitary: bool
    order_key: str | None
    due_at: int = 0

    @classmethod
    def of(cls, row: Sequence[Any], worker_id: WorkerId) -> Claim:
        """Make a claim of a row of ``claim_events``."""
        event = Event(
            provider=row[2],
            endpoint=row[3],
            account=row[4],
            environment=row[5],
            id=row[6],
            type=row[7],
            origin=Origin(row[8]),
            created_at=None if row[9] is None else instant(row[9]),
            received_at=instant(row[10]),
            attempt=row[11],
            body=bytes(row[15]) if row[15] is not None else b"",
            headers=Headers((name, value) for name, value in json.loads(row[16] or "[]")),
        )
        return cls(
            id=row[0],
            token=Token(row[1]),
            worker_id=worker_id,
            event=event,
            crashes=row[12],
            solitary=row[13],
            order_key=row[14],
            due_at=row[17],
        )

    @property
    def fence(self) -> dict[str, object]:
        """Give the parameters that name this very claim."""
        return {"id": self.id, "token": self.token, "worker_id": self.worker_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """
    Say how failures are retried.

    Attributes:
        backoff_seconds_max: Upper bound of one delay.
        retry_seconds_max: From the first failure until the event is dead.
        attempts_max: Attempts until it is dead; 0: no limit but the time.
    """

    backoff_seconds_max: float
    retry_seconds_max: float
    attempts_max: int

    @classmethod
    def of(cls, settings: Settings) -> Retry:
        """Give what *settings* say."""
        return cls(
            backoff_seconds_max=settings.backoff_seconds_max,
            retry_seconds_max=settings.retry_hours * _SECONDS_AN_HOUR,
            attempts_max=settings.attempts_max,
        )

    def delay(self, attempt: int, chance: float | None = None) -> float:
        """
        Give the seconds to wait after attempt number *attempt* failed: full jitter, uniform(0, min(max, 2^attempt)).

        Source: AWS Architecture Blog, "Exponential Backoff And Jitter".
        """
        ceiling = min(self.backoff_seconds_max, 2.0 ** min(attempt, 64))
        return ceiling * (random.random() if chance is None else chance)  # noqa: S311 - jitter, not a secret
