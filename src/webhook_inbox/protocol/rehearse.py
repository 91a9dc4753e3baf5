"""
Run the handlers of a recorded event in a transaction that is rolled back, and see what they would change.

    BEGIN
      rehearse_event       locked, so that no worker claims it; marked, so that the server refuses a COMMIT (P-ONCE)
      SAVEPOINT
        the handlers       on this very transaction, as in a run
        rehearse_commit    what COMMIT would check: the seal, deferred constraints
        rows_written, messages_written
      ROLLBACK TO
      rows_written         what they had replaced or deleted, which is there again
    ROLLBACK

Nothing stays but what no rollback undoes: a sequence goes on, and what a handler does outside of its transaction is
done. A handler that ends the transaction is refused by name, as in a run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from webhook_inbox.errors import HandlerError, HandlerNotYetError, StoreError, StoreUnavailableError
from webhook_inbox.model.event import Event
from webhook_inbox.model.event_record import EventDetails, EventRecord
from webhook_inbox.model.failure import describe
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.rehearsed import End, MessageDraft, Rehearsed, ReviewDraft, RowChange
from webhook_inbox.model.states import Origin, State
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet, Steering
from webhook_inbox.protocol.bounds import handling
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Flow, Transact, prepare, transact
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.look import show_event
from webhook_inbox.protocol.operate import held_by
from webhook_inbox.protocol.steps import (
    All,
    One,
    Params,
    Plan,
    Rollback,
    RollbackTo,
    Row,
    Savepoint,
    Together,
)
from webhook_inbox.protocol.tx import Review
from webhook_inbox.protocol.work import Subject, run_handlers, uncommitted
from webhook_inbox.sql.statements import Statements

#: Of each table, at most.
ROWS_MAX = 1000
_WAIT_SECONDS = 5.0
_TOO_LONG = "57014"
_ENDS: tuple[tuple[type[Exception], End], ...] = (
    (Ignore, "ignored"),
    (GiveUp, "dead"),
    (NotYet, "not_yet"),
    (HandlerNotYetError, "not_yet"),
)
Wrap = Callable[[Handler], Handler]


def rehearse(
    record: EventRecord, endpoint: EndpointPlan, schema: str, *, wrap: Wrap = lambda handler: handler
) -> Flow[Rehearsed]:
    """
    Rehearse the event of *record* at *endpoint*.

    Args:
        wrap: Gives the handler to be run for each that is registered.

    Raises:
        StoreError: The database did not do it; nothing is changed.

    Concurrency: Workers pass the event by meanwhile; whoever wants a row that its handlers lock waits.
    Promises: P-ONCE, P-FENCE.
    """
    details: EventDetails = yield Transact(lambda: show_event(record, schema), None)
    if reason := _refusal(details):
        return Rehearsed(event=record, end="refused", reason=reason)
    handlers = tuple(wrap(each) for each in endpoint.handlers.matching(record.event_type))
    if not handlers:
        return Rehearsed(event=record, end="ignored", reason=f"no handler for {record.event_type}")
    event = _event(details)
    try:
        prepared = yield from prepare(handlers, event, endpoint.settings.handler_seconds_max)
        if isinstance(prepared, Steering):
            return _steered(record, prepared, ())
        subject = Subject(event=event, inbox_id=record.row, handlers=handlers, prepared=prepared)
        rehearsed: Rehearsed = yield from transact(
            lambda: _rehearse(record, subject, endpoint, Statements.of(schema)), handlers[0].kind
        )
    except HandlerError as error:
        failure = describe(error)
        return Rehearsed(event=record, end="failed", reason=str(failure), failure=failure)
    return rehearsed


def _refusal(details: EventDetails) -> str:
    record = details.record
    if record.state is State.LEASED:
        return held_by(record)
    if record.state is State.QUARANTINED or not record.identified:
        return "no event was found in it, so there is nothing to run; events replay reads it again by its id"
    if details.body is None:
        return "its bytes are not kept any more, so there is nothing to run"
    return ""


def _event(details: EventDetails) -> Event:
    record = details.record
    return Event(
        provider=record.provider,
        endpoint=record.endpoint,
        id=record.event_id,
        type=record.event_type,
        account=record.account,
        environment=record.environment,
        body=details.body or b"",
        headers=details.headers or Headers(),
        created_at=record.created_at,
        received_at=record.received_at,
        attempt=record.attempts + 1,
        origin=Origin.REPLAY if record.state in {State.IGNORED, State.PROCESSED} else record.origin,
    )


def _rehearse(
    record: EventRecord, subject: Subject, endpoint: EndpointPlan, sql: Statements
) -> Plan[Rehearsed]:
    seconds = endpoint.settings.handler_seconds_max
    begin = handling(sql, handler_seconds_max=seconds, wait_seconds=_WAIT_SECONDS)
    _, marked = yield Together((begin, One(sql.rehearse_event, {"row_id": record.row})))
    if marked is None:
        yield Rollback()
        return Rehearsed(event=record, end="refused", reason="somebody else is at it; look at it again")
    transaction, multixact_from, _ = marked
    yield Savepoint()
    steering, reviews = yield from run_handlers(subject, seconds_max=seconds, sql=sql)
    if steering is not None:
        yield Rollback()
        return _steered(record, steering, reviews)
    try:
        yield One(sql.rehearse_commit, {"transaction": transaction, "row_id": record.row})
    except StoreError as error:
        raise uncommitted(error, subject.handlers) from error.__cause__ or error
    messages: list[Row] = yield All(sql.messages_written)
    params = {"row_id": record.row, "transaction": transaction, "multixact_from": multixact_from}
    rows, whole = yield from _rows(params, sql)
    yield Rollback()
    return Rehearsed(
        event=record,
        end="processed",
        rows=paired(rows),
        unread=tuple(dict.fromkeys(table for table, _, _, _, content in rows if content is None)),
        messages=tuple(_message(row) for row in messages),
        reviews=_drafts(reviews),
        whole=whole,
    )


def _rows(marked: Params, sql: Statements) -> Plan[tuple[list[Row], bool]]:
    """Give what was written and what it has replaced, and whether that is all; leaves the savepoint undone."""
    params = {**marked, "rows_max": ROWS_MAX}
    rows: list[Row] = []
    try:
        rows += yield All(sql.rows_written, {**params, "undone": False})
        yield RollbackTo()
        rows += yield All(sql.rows_written, {**params, "undone": True})
    except StoreUnavailableError as error:
        if error.sqlstate != _TOO_LONG:
            raise
        return [], False
    counts = Counter((table, written) for table, _, _, written, content in rows if content)
    return rows, max(counts.values(), default=0) < ROWS_MAX


def paired(rows: Iterable[Row]) -> tuple[RowChange, ...]:
    """
    Give what has changed, of what ``rows_written`` told before and after the rollback.

    A row that was only locked has not; one that was replaced is known again by its primary key, where there is one.
    """
    told = [(table, tuple(key), place, written, content) for table, key, place, written, content in rows]
    locked = {(table, place) for table, _, place, _, content in told if content == ""}
    after = [(table, key, _row(content)) for table, key, _, written, content in told if written and content]
    before = {
        (table, place): (key, _row(content))
        for table, key, place, written, content in told
        if not written and content and (table, place) not in locked
    }
    changes = []
    for table, key, row in after:
        same = (
            place for place, (_, old) in before.items() if place[0] == table and key and _same(old, row, key)
        )
        found = next(same, None)
        old = None if found is None else before.pop(found)[1]
        if old != row:
            changes.append(RowChange(table=table, before=old, after=row))
    changes += [RowChange(table=table, before=row, after=None) for (table, _), (_, row) in before.items()]
    return tuple(sorted(changes, key=lambda change: change.table))


def _same(old: dict[str, Any], new: dict[str, Any], key: tuple[str, ...]) -> bool:
    return all(old[column] == new[column] for column in key)


def _row(content: str) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(content, parse_float=Decimal)
    return row


def _steered(record: EventRecord, steering: Steering, reviews: Iterable[Review]) -> Rehearsed:
    end = next(end for kind, end in _ENDS if isinstance(steering, kind))
    kept = () if end == "not_yet" else _drafts(reviews)
    return Rehearsed(event=record, end=end, reason=str(steering.reason), reviews=kept)


def _drafts(reviews: Iterable[Review]) -> tuple[ReviewDraft, ...]:
    return tuple(ReviewDraft(summary=each.summary, details=json.loads(each.details)) for each in reviews)


def _message(row: Row) -> MessageDraft:
    event_type, aggregate_type, aggregate_id, destination, payload = row
    return MessageDraft(
        event_type=event_type,
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        destination=destination,
        payload=json.loads(payload),
    )
