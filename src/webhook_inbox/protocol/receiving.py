"""Hold what all deliveries to one inbox share, and say what made one of them fail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from webhook_inbox.errors import HandlerError, HandlerNotYetError, InboxError, KeyBusyError
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.event import EventKey
from webhook_inbox.model.failure import describe
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.process import Processing
from webhook_inbox.protocol.run import Running
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry import events


class LeaseHolder(Protocol):
    """
    Keep one incarnation's lease alive.

    Attributes:
        name: The process's name.
        seconds: How long a lease lasts without renewal.
        held: The incarnation whose lease can be trusted right now, or None.
        former: The incarnation that was held before and is not ended yet; it is renewed no more.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def held(self) -> WorkerId | None: ...  # noqa: D102
    @property
    def former(self) -> WorkerId | None: ...  # noqa: D102
    def began(self, worker_id: WorkerId, began_at: float) -> WorkerId:
        """
        Hold a lease whose registration was begun at *began_at* (monotonic seconds), and renew it from now on, unless
        another one came first; give the one that is held.
        """
        ...

    def distrust(self, worker_id: WorkerId) -> None:
        """Hold *worker_id* no longer, and end it soon: nobody knows all that it has claimed."""
        ...

    def give_back_later(self, claim: Claim, to: Processing) -> None:
        """Give *claim*, whose run ended without a verdict, back as soon as the database lets us."""
        ...


@dataclass(slots=True, kw_only=True)
class Receiving:
    """
    Hold what all deliveries to one inbox share.

    Attributes:
        schema: The schema's name.
        sql: The statements, rendered for it.
        running: What the runs of hybrid endpoints share; also told of each exception that made a delivery fail.
        lease: Under which this process runs the events of hybrid endpoints.
        schema_served: Whether this process has seen a schema that it can serve.
    """

    schema: str
    sql: Statements
    running: Running
    lease: LeaseHolder
    schema_served: bool = False


def report(endpoint: EndpointPlan, keys: tuple[EventKey, ...], error: InboxError, inbox: Receiving) -> None:
    """Log what went wrong, once, without what the exception says, and tell the user's hook (P-QUIET)."""
    where, facts = where_of(endpoint, keys), facts_of(endpoint, keys)
    match error:
        case HandlerNotYetError():
            events.NOT_YET.log(where, error.retry_in_seconds, **facts)
            return
        case KeyBusyError():
            events.EVENT_IN_FLIGHT.log(where, endpoint.settings.duplicate_wait_seconds, **facts)
            return
        case HandlerError() if error.__cause__ is not None:
            failure = describe(error)
            events.HANDLER_FAILED.log(where, error.code, failure, "\n  ".join(failure.frames), **facts)
        case _:
            events.DELIVERY_FAILED.log(where, error.code, error, **facts)
    inbox.running.report(endpoint.name, error.__cause__ or error)


def where_of(endpoint: EndpointPlan, keys: Sequence[EventKey]) -> str:
    """Name the endpoint and the event, or how many, for a log line."""
    if not keys:
        return f"endpoint {endpoint.name}"
    shown = json.dumps(keys[0].event_id) if len(keys) == 1 else f"one of {len(keys)}"
    return f"endpoint {endpoint.name}, event {shown}"


def facts_of(endpoint: EndpointPlan, keys: Sequence[EventKey]) -> dict[str, str]:
    """Give what ``where_of`` says as attributes of a record; no event where there are several."""
    return {"endpoint": endpoint.name} | ({"event_id": keys[0].event_id} if len(keys) == 1 else {})
