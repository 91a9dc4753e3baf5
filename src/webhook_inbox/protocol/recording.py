"""Say what is recorded of an event, and within which limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from webhook_inbox.model.arrival import Arrival
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol.bounds import handling, lock_ms
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.steps import Begin, One
from webhook_inbox.sql.statements import Statements

_OUTCOMES = {
    State.WAITING: Outcome.QUEUED,
    State.LEASED: Outcome.QUEUED,
    State.RETRYING: Outcome.QUEUED,
    State.PROCESSED: Outcome.PROCESSED,
    State.IGNORED: Outcome.IGNORED,
    State.DEAD: Outcome.DEAD,
    State.QUARANTINED: Outcome.QUARANTINED,
}


@dataclass(frozen=True, slots=True)
class Item:
    """
    Pair an arrival with the handlers that will run for it; none where it is settled already.

    Attributes:
        prepared: What each handler's prepare stage gave, None where it has none.
    """

    arrival: Arrival
    handlers: tuple[Handler, ...] = ()
    prepared: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """
    Hold what every plan of one endpoint needs.

    Attributes:
        sql: The statements, rendered for the inbox's schema.
        wait_seconds: How long to wait for another transaction that holds the same event key.
        handler_seconds_max: How long one handler may take.
    """

    sql: Statements
    wait_seconds: float
    handler_seconds_max: float

    @property
    def begin(self) -> Begin:
        """Give the step that opens a transaction under these limits."""
        return handling(
            self.sql, handler_seconds_max=self.handler_seconds_max, wait_seconds=self.wait_seconds
        )

    def record(self, arrival: Arrival, *, effect: bool) -> One:
        """Give the step that records *arrival*; *effect*: marked processed, as its handlers run in this transaction."""
        return One(self.sql.record_event, {**record_params(arrival, effect=effect), "wait_ms": self.wait_ms})

    @property
    def wait_ms(self) -> int:
        """Give the lock timeout."""
        return lock_ms(self.wait_seconds)

    def conflict(self, arrival: Arrival, *, inbox_id: int) -> One:
        """Give the step that keeps *arrival* as evidence of another body under a known id."""
        params = {
            "inbox_id": inbox_id,
            "body_sha256": arrival.digest,
            "body": arrival.body,
            "headers": arrival.headers_json,
        }
        return One(self.sql.record_conflict, params)


def record_params(arrival: Arrival, *, effect: bool) -> dict[str, object]:
    """Give the parameters that every statement which records one event has."""
    return {
        **arrival.key.columns,
        "event_type": arrival.event_type,
        "state": State.PROCESSED if effect else arrival.settled or State.WAITING,
        "origin": arrival.origin,
        "created_at": arrival.created_at,
        "secret_label": arrival.secret_label,
        "body_sha256": arrival.digest,
        "body_bytes": len(arrival.body),
        "kept": arrival.kept,
        "last_error": arrival.reason or None,
        "attempts": 1 if effect else arrival.attempts,
        "body": arrival.body,
        "headers": arrival.headers_json,
        "keep_body": arrival.keep_body or not effect,
    }


def recorded_result(arrival: Arrival) -> EventResult:
    """Say what became of an event that this run has recorded."""
    if arrival.settled is None:
        return EventResult(outcome=Outcome.PROCESSED, event_id=arrival.key.event_id, state=State.PROCESSED)
    return settled_result(arrival, arrival.settled)


def settled_result(arrival: Arrival, state: State | None) -> EventResult:
    """Say that an event is left in *state*, and why; ignored where it is not recorded at all."""
    return EventResult(
        outcome=Outcome.IGNORED if state is None else outcome_of(state),
        event_id=arrival.key.event_id,
        state=state,
        reason=arrival.reason,
        unhandled_type=arrival.event_type if arrival.unhandled else "",
    )


def outcome_of(state: State) -> Outcome:
    """Give what a delivery that left its event in *state* came to."""
    return _OUTCOMES[state]


def unavailable_result(arrival: Arrival, reason: str) -> EventResult:
    """Say that an event is not stored and shall come again."""
    return EventResult(outcome=Outcome.UNAVAILABLE, event_id=arrival.key.event_id, reason=reason)


def sort_key(arrival: Arrival) -> tuple[str, ...]:
    """Give the order in which every delivery takes its keys, so that no two wait for each other."""
    return tuple(arrival.key.columns.values())
