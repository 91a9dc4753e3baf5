"""
Record events inline: the heart of the product, as plans.

    BEGIN
      record_event          with its mark; no row back: the unique key's own verdict, a duplicate (P-DUP)
      the handlers          the user's tables, tx.emit, tx.review
      seal_effect           fails where a handler ended the transaction it was given (P-ONCE)
    COMMIT                  refused by the server unless sealed; and only now 2xx (P-ACK)

A failure anywhere raises out of the plan, and the driver rolls back: nothing is stored, the sender hears 5xx,
and its redelivery is the retry. A handler that raises Ignore or GiveUp rolls back too; its verdict and its
reviews are then recorded in a transaction of their own, which meets the unique key like any other.

The events of one body share one transaction, in the order of their keys so that two deliveries cannot deadlock,
each within a savepoint of its own: one that fails is recorded as waiting for the worker, and never holds its
mates (P-FLOW). A handler can take the whole transaction with it (it commits, its session is ended, a deferred
constraint fails at the end): then the flow records the events one by one, and that one is set aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from webhook_inbox.errors import (
    HandlerError,
    HandlerNotYetError,
    KeyBusyError,
    StatementError,
    StoreError,
    TransactionEndedError,
)
from webhook_inbox.model.arrival import Arrival, kept_reason
from webhook_inbox.model.failure import describe
from webhook_inbox.model.instants import instant
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Origin, Outcome, State
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet, Steering
from webhook_inbox.protocol.recording import (
    Item,
    Recording,
    recorded_result,
    sort_key,
    unavailable_result,
)
from webhook_inbox.protocol.steps import (
    Commit,
    One,
    Plan,
    Release,
    Rollback,
    RollbackTo,
    Row,
    Savepoint,
    Together,
)
from webhook_inbox.protocol.tx import Review, review_params
from webhook_inbox.protocol.work import Seal, Subject, commit_effect, names, not_yet, run_handlers

# After one key of a body was busy, its mates are held by the same rival, most likely.
_NEXT_WAIT_SECONDS_MAX = 0.05


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
    _, recorded = yield Together((to.begin, to.record(item.arrival, effect=bool(item.handlers))))
    if recorded is None:
        result = yield from duplicate_of(item.arrival, to)
        yield Commit()  # there is something to keep only where the body differs; a commit of nothing costs no write
        return result
    steering, reviews = yield from _run(item, recorded, to)
    if steering is not None:
        yield Rollback()
        return (yield from _settle(item, steering, reviews, to))
    seal = Seal(transaction=recorded[2], events=[recorded[0]]) if item.handlers else None
    yield from commit_effect(seal, item.handlers, to.sql)
    return recorded_result(item.arrival)


def record_batch(items: Sequence[Item], to: Recording) -> Plan[tuple[EventResult, ...]]:
    """
    Record the events of one body in one transaction, each in a savepoint of its own.

    Returns:
        One result per item, in the order of *items*. ``unavailable`` where a rival holds that one's key, or where
        its row cannot be stored: it is not stored, its mates are.

    Raises:
        HandlerError: A handler took the whole transaction with it; nothing of the body is stored by this run.
        StoreError: The database did not do it; nothing of the body is stored by this run.

    Promises: P-ACK, P-DUP, P-ONCE, P-STATE, P-FLOW.
    """
    results: dict[int, EventResult] = {}
    marked: dict[int, str] = {}
    next_to = replace(to, wait_seconds=min(to.wait_seconds, _NEXT_WAIT_SECONDS_MAX))
    yield to.begin
    for position in sorted(range(len(items)), key=lambda position: sort_key(items[position].arrival)):
        results[position] = yield from _record_within(items[position], marked, to)
        if results[position].outcome is Outcome.UNAVAILABLE:
            to = next_to
    seal = Seal(transaction=next(iter(marked.values())), events=list(marked)) if marked else None
    yield from commit_effect(seal, [handler for item in items for handler in item.handlers], to.sql)
    return tuple(results[position] for position in range(len(items)))


def set_aside(item: Item, error: HandlerError | StatementError) -> Item:
    """Give *item* as it is recorded, waiting for the worker, after its handler failed with *error*."""
    return Item(settled_by(item.arrival, error))


def _record_within(item: Item, marked: dict[int, str], to: Recording) -> Plan[EventResult]:
    try:
        record = to.record(item.arrival, effect=bool(item.handlers))
        _, recorded = yield Together((Savepoint(), record))
    except (KeyBusyError, StatementError) as error:
        yield RollbackTo()
        return unavailable_result(item.arrival, str(error))
    if recorded is None:
        yield Release()
        return (yield from duplicate_of(item.arrival, to))
    verdict: Steering | HandlerError
    try:
        steering, reviews = yield from _run(item, recorded, to)
        if steering is None:
            yield from _keep(item)
            if item.handlers:
                marked[recorded[0]] = recorded[2]
            return recorded_result(item.arrival)
        verdict = steering
    except TransactionEndedError:
        raise  # the savepoint is gone with the transaction: nothing of this body may be acknowledged
    except HandlerError as error:
        verdict, reviews = error, ()
    yield from _undo(item, verdict)
    return (yield from _settle_within(settled_by(item.arrival, verdict), reviews, to))


def _run(item: Item, recorded: Row, to: Recording) -> Plan[tuple[Steering | None, tuple[Review, ...]]]:
    event = item.arrival.event(received_at=instant(recorded[1]), attempt=1)
    work = Subject(event=event, inbox_id=recorded[0], handlers=item.handlers, prepared=item.prepared)
    return (yield from run_handlers(work, seconds_max=to.handler_seconds_max, sql=to.sql))


def _keep(item: Item) -> Plan[None]:
    try:
        yield Release()
    except StatementError as error:
        raise TransactionEndedError(f"{names(item.handlers)} ended the savepoint around it") from error


def _undo(item: Item, verdict: Steering | HandlerError) -> Plan[None]:
    try:
        yield RollbackTo()
    except StoreError as error:
        if isinstance(verdict, HandlerError):
            raise verdict from verdict.__cause__  # the session ended with it
        if isinstance(error, StatementError):
            raise TransactionEndedError(f"{names(item.handlers)} ended the savepoint around it") from error
        raise


def duplicate_of(arrival: Arrival, to: Recording) -> Plan[EventResult]:
    """
    Say what became of the first copy (P-STATE); another body under an unsigned id is kept as evidence.

    The caller commits.
    """
    first = yield One(to.sql.find_event, arrival.key.columns)
    if first is None:  # deleted between the two statements: the next redelivery starts afresh
        raise KeyBusyError("the first copy of the event vanished while it was looked at")
    inbox_id, state, received_at, digest, origin, *_ = first
    same = bytes(digest) == arrival.digest
    conflicting = not same and not arrival.signed_id and arrival.origin == origin == Origin.DELIVERY
    if conflicting:
        yield to.conflict(arrival, inbox_id=inbox_id)
    return EventResult(
        outcome=Outcome.DUPLICATE,
        event_id=arrival.key.event_id,
        state=State(state),
        first_received_at=instant(received_at),
        reason="" if same else "another body came under this id before",
        conflicting=conflicting,
    )


def _settle(item: Item, steering: Steering, reviews: tuple[Review, ...], to: Recording) -> Plan[EventResult]:
    if isinstance(steering, NotYet):
        raise not_yet(steering)
    yield to.begin
    result = yield from _record_settled(settled_by(item.arrival, steering), reviews, to)
    yield Commit()
    return result


def _settle_within(arrival: Arrival, reviews: tuple[Review, ...], to: Recording) -> Plan[EventResult]:
    yield Savepoint()
    try:
        result = yield from _record_settled(arrival, reviews, to)
    except KeyBusyError as error:
        # With our savepoint we gave up the key, and a rival that was waiting for it runs its handler now.
        yield RollbackTo()
        return unavailable_result(arrival, str(error))
    yield Release()
    return result


def _record_settled(arrival: Arrival, reviews: tuple[Review, ...], to: Recording) -> Plan[EventResult]:
    recorded = yield to.record(arrival, effect=False)
    if recorded is None:
        return (yield from duplicate_of(arrival, to))
    event = arrival.event(received_at=instant(recorded[1]), attempt=1)
    for review in reviews:
        yield One(to.sql.insert_review, review_params(review, event, recorded[0]))
    return recorded_result(arrival)


def settled_by(arrival: Arrival, verdict: Steering | HandlerError | StatementError) -> Arrival:
    """Give *arrival* as it is to be recorded after *verdict*: without an effect."""
    match verdict:
        case Ignore():
            return _as(arrival, State.IGNORED, verdict.reason, attempts=1)
        case GiveUp():
            return _as(arrival, State.DEAD, verdict.reason, attempts=1)
        case NotYet():
            return _as(arrival, State.WAITING, verdict.reason, attempts=0)
        case HandlerNotYetError():
            return _as(arrival, State.WAITING, str(verdict), attempts=0)
        case HandlerError() | StatementError():
            return _as(arrival, State.WAITING, str(describe(verdict)), attempts=1)
        case _:
            assert_never(verdict)


def _as(arrival: Arrival, state: State, reason: object, *, attempts: int) -> Arrival:
    return replace(arrival, settled=state, reason=kept_reason(reason), attempts=attempts)
