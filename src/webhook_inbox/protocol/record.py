"""
Record events inline: the heart of the product, as plans.

    BEGIN
      record_event          no row back: the unique key's own verdict, a duplicate (P-DUP)
      the handlers          the user's tables, tx.emit, tx.review
      mark_processed        the last write; no row back: the handler ended the transaction it was given (P-ONCE)
    COMMIT                  and only now 2xx (P-ACK)

A failure anywhere raises out of the plan, and the driver rolls back: nothing is stored, the sender hears 5xx,
and its redelivery is the retry. A handler that raises Ignore or GiveUp rolls back too; its verdict and its
reviews are then recorded in a transaction of their own, which meets the unique key like any other.

The events of one body share one transaction, in the order of their keys so that two deliveries cannot
deadlock, each within a savepoint
of its own: one that fails is recorded as waiting for the worker, and never holds its mates (P-FLOW).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, assert_never

from webhook_inbox.errors import (
    HandlerError,
    HandlerNotYetError,
    KeyBusyError,
    StatementError,
    StoreUnavailableError,
    TransactionEndedError,
)
from webhook_inbox.model.arrival import Arrival
from webhook_inbox.model.event import Event
from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Origin, Outcome, State
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet, Steering
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.steps import (
    Begin,
    Commit,
    One,
    Plan,
    Release,
    Rollback,
    RollbackTo,
    Row,
    Run,
    Savepoint,
    Session,
)
from webhook_inbox.protocol.tx import Review, Tx, review_params
from webhook_inbox.sql.statements import Statements

_SETTLED_OUTCOMES = {
    State.IGNORED: Outcome.IGNORED,
    State.DEAD: Outcome.DEAD,
    State.QUARANTINED: Outcome.QUARANTINED,
    State.WAITING: Outcome.QUEUED,
}


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
        # The server's limit comes a second after ours, which can say better what happened.
        limit = self.handler_seconds_max + 1
        return Begin(self.sql.begin, {"handler_ms": round(limit * 1000)}, seconds_max=limit)

    def record(self, arrival: Arrival, *, lock_timeout: str, open_: bool) -> One:
        """Give the step that records *arrival*; *open_* where a handler will run before it is marked."""
        # lock_timeout 0 would mean "wait for ever".
        waits = {"wait_ms": max(1, round(self.wait_seconds * 1000)), "lock_timeout": lock_timeout}
        return One(self.sql.record_event, {**_record_params(arrival, open_=open_), **waits})


@dataclass(frozen=True, slots=True)
class Item:
    """
    Pair an arrival with the handlers that will run for it; none where it is settled already.

    Attributes:
        unhandled: Whether it is settled only because this release has no handler for its type.
    """

    arrival: Arrival
    handlers: tuple[Handler, ...] = ()
    unhandled: bool = False


def record_one(item: Item, to: Recording) -> Plan[EventResult]:
    """
    Record one event with its effect, in one transaction.

    Returns:
        The result to acknowledge: its transaction is committed, or the event was there before.

    Raises:
        HandlerError: The handler did not finish; nothing is stored.
        StoreError: The database did not do it, or the commit's fate is unknown.

    Concurrency: Waits for a rival that holds the same key, up to ``wait_seconds``; then KeyBusyError.
    Promises: P-ACK, P-DUP, P-ONCE, P-STATE.
    """
    before = yield to.begin
    recorded = yield to.record(item.arrival, lock_timeout=before[0], open_=bool(item.handlers))
    if recorded is None:
        return (yield from _duplicate(item.arrival, to))
    steering, reviews = yield from _run_handlers(item, recorded, to)
    if steering is not None:
        yield Rollback()
        return (yield from _settle(item, steering, reviews, to))
    yield from _mark(item, recorded[0], to)
    yield Commit()
    return _result(item.arrival)


def record_batch(items: Sequence[Item], to: Recording) -> Plan[tuple[EventResult, ...]]:
    """
    Record the events of one body in one transaction, each in a savepoint of its own.

    Returns:
        One result per item, in the order of *items*. ``unavailable`` where a rival holds that one's key: it
        is not stored, its mates are.

    Raises:
        StoreError: The database did not do it; nothing of the body is stored by this run.

    Promises: P-ACK, P-DUP, P-ONCE, P-STATE, P-FLOW.
    """
    results: dict[int, EventResult] = {}
    before = yield to.begin
    for position in sorted(range(len(items)), key=lambda position: _sort_key(items[position].arrival)):
        results[position] = yield from _record_within(items[position], before[0], to)
    yield Commit()
    return tuple(results[position] for position in range(len(items)))


def _record_within(item: Item, lock_timeout: str, to: Recording) -> Plan[EventResult]:
    yield Savepoint()
    try:
        recorded = yield to.record(item.arrival, lock_timeout=lock_timeout, open_=bool(item.handlers))
    except KeyBusyError:
        yield RollbackTo()
        return _unavailable(item.arrival, "the first copy is still in flight")
    if recorded is None:
        yield Release()
        return (yield from _duplicate_within(item.arrival, to))
    verdict: Steering | HandlerError
    try:
        steering, reviews = yield from _run_handlers(item, recorded, to)
        if steering is None:
            yield from _mark(item, recorded[0], to)
            yield Release()
            return _result(item.arrival)
        verdict = steering
    except TransactionEndedError:
        raise  # the savepoint is gone with the transaction: nothing of this body may be acknowledged
    except HandlerError as error:
        verdict, reviews = error, ()
    yield RollbackTo()
    return (yield from _record_settled(_settled(item.arrival, verdict), reviews, lock_timeout, to))


def _run_handlers(
    item: Item, recorded: Row, to: Recording
) -> Plan[tuple[Steering | None, tuple[Review, ...]]]:
    inbox_id, received_at = recorded[0], recorded[1]
    event = item.arrival.event(received_at=received_at, attempt=1)
    reviews: tuple[Review, ...] = ()
    for handler in item.handlers:
        tx_of = partial(Tx[Any], event=event, inbox_id=inbox_id, handler=handler.name, sql=to.sql)
        work = HandlerWork(handler, event, tx_of)
        steering = yield Run(handler.name, work, to.handler_seconds_max)
        reviews += work.reviews
        if steering is not None:
            return steering, reviews
    return None, reviews


class HandlerWork:
    """Call one handler with a Tx made of the driver's session, and remember the reviews it asked for."""

    __slots__ = ("_event", "_handler", "_tx", "_tx_of")

    def __init__(self, handler: Handler, event: Event, tx_of: partial[Tx[Any]]) -> None:
        self._handler = handler
        self._event = event
        self._tx_of = tx_of
        self._tx: Tx[Any] | None = None

    @property
    def reviews(self) -> tuple[Review, ...]:
        """Give what the handler asked a person to look at."""
        return () if self._tx is None else self._tx.reviews

    def __call__(self, session: Session) -> Any:  # noqa: ANN401 - None, or an awaitable with an async driver
        """Run the handler; with an async driver, give the awaitable that does."""
        tx = self._tx = self._tx_of(session)
        if self._handler.kind == "async":
            return self._awaited(tx)
        try:
            self._handler.function(tx, self._event)
        finally:
            tx.seal()
        tx.check_awaited()
        return None

    async def _awaited(self, tx: Tx[Any]) -> None:
        try:
            await self._handler.function(tx, self._event)
        finally:
            tx.seal()
        tx.check_awaited()


def _mark(item: Item, inbox_id: int, to: Recording) -> Plan[None]:
    if not item.handlers:
        return
    try:
        marked = yield One(to.sql.mark_processed, {"id": inbox_id})
    except StatementError as error:
        if error.sqlstate != "25P02":
            raise
        marked = None  # in_failed_sql_transaction: an error of the handler's own statement was swallowed
    if marked is None:
        names = ", ".join(handler.name for handler in item.handlers)
        raise TransactionEndedError(
            f"{names} committed, rolled back or left aborted the transaction it was given; nothing is applied. "
            "Leave COMMIT and ROLLBACK to webhook-inbox, and let a database error rise or contain it in a savepoint"
        )


def _duplicate(arrival: Arrival, to: Recording) -> Plan[EventResult]:
    result = yield from _duplicate_within(arrival, to)
    yield Commit()  # there is something to keep only where the body differs; a commit of nothing costs no write
    return result


def _duplicate_within(arrival: Arrival, to: Recording) -> Plan[EventResult]:
    first = yield One(to.sql.find_event, arrival.key.columns)
    if first is None:  # deleted between the two statements: the next redelivery starts afresh
        raise StoreUnavailableError("the first copy of the event vanished while it was looked at")
    inbox_id, state, received_at, digest = first
    if not arrival.signed_id and arrival.origin is Origin.DELIVERY and bytes(digest) != arrival.digest:
        yield One(to.sql.record_conflict, _conflict_params(arrival, inbox_id))
    return EventResult(
        outcome=Outcome.DUPLICATE,
        event_id=arrival.key.event_id,
        state=State(state),
        first_received_at=received_at,
        reason="" if bytes(digest) == arrival.digest else "another body came under this id before",
    )


def _settle(item: Item, steering: Steering, reviews: tuple[Review, ...], to: Recording) -> Plan[EventResult]:
    if isinstance(steering, NotYet):
        raise HandlerNotYetError(
            "the handler asked to be run again", retry_in_seconds=steering.retry_in_seconds
        )
    before = yield to.begin
    result = yield from _record_settled(_settled(item.arrival, steering), reviews, before[0], to)
    yield Commit()
    return result


def _record_settled(
    arrival: Arrival, reviews: tuple[Review, ...], lock_timeout: str, to: Recording
) -> Plan[EventResult]:
    recorded = yield to.record(arrival, lock_timeout=lock_timeout, open_=False)
    if recorded is None:
        return (yield from _duplicate_within(arrival, to))
    event = arrival.event(received_at=recorded[1], attempt=1)
    for review in reviews:
        yield One(to.sql.insert_review, review_params(review, event, recorded[0]))
    return _result(arrival)


def _settled(arrival: Arrival, verdict: Steering | HandlerError) -> Arrival:
    match verdict:
        case Ignore():
            return replace(arrival, settled=State.IGNORED, reason=verdict.reason)
        case GiveUp():
            return replace(arrival, settled=State.DEAD, reason=verdict.reason)
        case NotYet():
            return replace(arrival, settled=State.WAITING, reason=verdict.reason)
        case HandlerError():
            return replace(arrival, settled=State.WAITING, reason=str(describe(verdict)))
        case _:
            assert_never(verdict)


def _result(arrival: Arrival) -> EventResult:
    if arrival.settled is None:
        return EventResult(outcome=Outcome.PROCESSED, event_id=arrival.key.event_id, state=State.PROCESSED)
    outcome = _SETTLED_OUTCOMES[arrival.settled]
    return EventResult(
        outcome=outcome, event_id=arrival.key.event_id, state=arrival.settled, reason=arrival.reason
    )


def _unavailable(arrival: Arrival, reason: str) -> EventResult:
    return EventResult(outcome=Outcome.UNAVAILABLE, event_id=arrival.key.event_id, reason=reason)


def _sort_key(arrival: Arrival) -> tuple[str, ...]:
    return tuple(arrival.key.columns.values())


def _record_params(arrival: Arrival, *, open_: bool) -> dict[str, object]:
    return {
        **arrival.key.columns,
        "event_type": arrival.event_type,
        "state": arrival.settled or State.WAITING,
        "origin": arrival.origin,
        "created_at": arrival.created_at,
        "secret_label": arrival.secret_label,
        "body_sha256": arrival.digest,
        "body_bytes": len(arrival.body),
        "kept": arrival.kept,
        "last_error": arrival.reason or None,
        "attempts": 0 if open_ or arrival.settled in {None, State.IGNORED, State.QUARANTINED} else 1,
        "open": open_,
        "body": arrival.body,
        "headers": arrival.headers_json,
        "keep_body": arrival.keep_body or not open_,
    }


def _conflict_params(arrival: Arrival, inbox_id: int) -> dict[str, object]:
    return {
        "inbox_id": inbox_id,
        "body_sha256": arrival.digest,
        "body": arrival.body,
        "headers": arrival.headers_json,
    }
