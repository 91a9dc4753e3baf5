"""
Look at recorded events, as an operator does; nothing here changes or locks anything.

A page costs what it shows, however many events there are, where the filter names what an index knows: rows, an event
id, a time, a state that is not settled. What it names beside is looked for among these; by itself (a type that is rare,
say) it is looked for among all, within ``STATEMENT_SECONDS_MAX``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.event_record import AttemptRecord, AuditRecord, EventDetails, EventRecord
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.instants import instant, microseconds
from webhook_inbox.model.states import State
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.status import STATEMENT_SECONDS_MAX, reading
from webhook_inbox.protocol.steps import All, One, Plan, Rollback, Row
from webhook_inbox.sql.statements import Statements

PAGE_EVENTS_MAX = 1000
_ROW_MAX = 2**63 - 1
_OUT_OF_TIME = "57014"
_INDEXED = frozenset(State) - {State.PROCESSED, State.IGNORED}
# Row ids follow the order of arrival but for transactions that take long, and a server's clock that is set back.
_DISORDER_MICROSECONDS = 3_600_000_000


def list_events(
    meant: EventFilter, schema: str, *, limit: int, after: int | None = None, oldest_first: bool = False
) -> Plan[tuple[EventRecord, ...]]:
    """
    List the events that *meant* means, a page.

    Args:
        limit: How many at most, 1 to ``PAGE_EVENTS_MAX``.
        after: The row that the page before ended with; None: from the beginning.
        oldest_first: Oldest first in place of newest first.

    Raises:
        SchemaVersionError: As ``check_schema``.
        StoreUnavailableError: It took too long: the filter names nothing that an index knows.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield reading(sql)
    params = yield from filter_params(meant, sql)
    if after is not None and oldest_first:
        params["first_row"] = max(params["first_row"], after + 1)
    elif after is not None:
        params["last_row"] = min(params["last_row"], after - 1)
    statement = sql.list_oldest_events if oldest_first else sql.list_newest_events
    rows = yield from _found(All(statement, {**params, "limit": limit}))
    yield Rollback()
    return records_of(rows)


def count_events(meant: EventFilter, schema: str) -> Plan[dict[State, int]]:
    """Count the events that *meant* means, by state; a state that none is in is left out. Raises as ``list_events``."""
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield reading(sql)
    params = yield from filter_params(meant, sql)
    rows = yield from _found(All(sql.count_events, params))
    yield Rollback()
    return {State(state): count for state, count in rows}


def _found(step: All) -> Plan[list[Row]]:
    """Look for what a filter means; where that takes too long, say what would be quick."""
    try:
        rows: list[Row] = yield step
    except StoreUnavailableError as error:
        if error.sqlstate != _OUT_OF_TIME:
            raise
        raise StoreUnavailableError(
            f"looking for these events took more than {STATEMENT_SECONDS_MAX} s; name a time or an id too, or a state "
            "other than processed and ignored: those are found by an index",
            sqlstate=error.sqlstate,
        ) from error
    return rows


def find_events(name: str, schema: str, *, endpoint: str = "") -> Plan[tuple[EventRecord, ...]]:
    """
    Find the events that *name* may mean: the row of that number, and those with that event id.

    Args:
        endpoint: Only of this one; empty: of any.

    Raises:
        SchemaVersionError: As ``check_schema``.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield reading(sql)
    filters = [EventFilter(event_id=name, endpoint=endpoint)] if name else []
    if name.isascii() and name.isdigit() and 0 < int(name) <= _ROW_MAX:
        filters.append(EventFilter(rows=(int(name),), endpoint=endpoint))
    found: dict[int, EventRecord] = {}
    for each in filters:
        params = yield from filter_params(each, sql)
        rows = yield All(sql.list_oldest_events, {**params, "limit": PAGE_EVENTS_MAX})
        found |= {record.row: record for record in records_of(rows)}
    yield Rollback()
    return tuple(found.values())


def show_event(record: EventRecord, schema: str) -> Plan[EventDetails]:
    """Read all that is kept of the event of *record*: its runs that failed, what operators did, its bytes."""
    sql = Statements.of(schema)
    yield reading(sql)
    attempts: list[Row] = yield All(sql.list_attempts, {"row_id": record.row})
    audit: list[Row] = yield All(sql.list_audit, {"row_id": record.row})
    body: Row | None = yield One(sql.show_body, {"row_id": record.row})
    yield Rollback()
    return EventDetails(
        record=record,
        attempts=tuple(_attempt(row) for row in attempts),
        audit=tuple(_action(row) for row in audit),
        headers=None if body is None else Headers((name, value) for name, value in json.loads(body[1])),
        body=None if body is None else bytes(body[0]),
    )


def filter_params(meant: EventFilter, sql: Statements) -> Plan[dict[str, Any]]:
    """
    Give the parameters of ``meant_events``, in an open transaction.

    A time is looked up on the server's clock (P-CLOCK). Where nothing else leads to few rows, so is where it lies in
    the order of arrival: that is as good as the server's clock, within an hour.
    """
    leads = meant.rows or meant.event_id or (meant.states and _INDEXED.issuperset(meant.states))
    since, first_row = yield from _moment(meant.since, sql, -_DISORDER_MICROSECONDS)
    until, last_row = yield from _moment(meant.until, sql, _DISORDER_MICROSECONDS)
    return {
        "rows": list(meant.rows),
        "states": [str(state) for state in meant.states],
        "endpoint": meant.endpoint,
        "event_type": meant.event_type,
        "event_id": meant.event_id,
        "error": meant.error,
        "kept": meant.kept,
        "identified": meant.identified,
        "since": since,
        "until": until,
        "first_row": 0 if leads else first_row,
        "last_row": _ROW_MAX if leads or meant.until is None else last_row,
    }


def _moment(when: datetime | timedelta | None, sql: Statements, allowance: int) -> Plan[tuple[int, int]]:
    """Give *when* in microseconds since 1970, and the row before which all came before it, by *allowance* later."""
    if when is None:
        return 0, 0
    ago = isinstance(when, timedelta)
    at = when // timedelta(microseconds=1) if isinstance(when, timedelta) else microseconds(when)
    time, _ = yield One(sql.find_row_at, {"at": at, "ago": ago})
    _, row = yield One(sql.find_row_at, {"at": time + allowance, "ago": False})
    return time or 1, row  # 0 asks for nothing, and would mean every event


def records_of(rows: Sequence[Row]) -> tuple[EventRecord, ...]:
    """Give what ``list_newest_events`` and ``list_oldest_events`` returned."""
    return tuple(EventRecord.of(row) for row in rows)


def _attempt(row: Row) -> AttemptRecord:
    attempt, worker, started_at, seconds, outcome, error_type, sqlstate, error, traceback = row
    return AttemptRecord(
        attempt=attempt,
        worker=worker,
        started_at=instant(started_at),
        seconds=seconds,
        outcome=outcome,
        error_type=error_type,
        sqlstate=sqlstate,
        error=error,
        traceback=traceback,
    )


def _action(row: Row) -> AuditRecord:
    at, actor, action, reason, before, after = row
    return AuditRecord(
        at=instant(at), actor=actor, action=action, reason=reason, before=before or "", after=after or ""
    )
