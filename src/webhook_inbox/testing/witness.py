"""Read what the inbox has recorded, as a test wants to see it, and move what is due, in place of waiting."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.instants import instant
from webhook_inbox.model.states import Origin, State
from webhook_inbox.protocol.migrate import migrate
from webhook_inbox.protocol.steps import All, Begin, Commit, One, Plan, Rollback
from webhook_inbox.sql.statements import Statement, Statements

# pytest shows the test's own line, and none of ours, where something is used wrongly.
__tracebackhide__ = True

_SECONDS_MAX = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """
    Tell of one event as it stands in the database; times are the server's, aware and in UTC.

    Attributes:
        state: ``waiting``, ``retrying``, ``processed``, ``ignored``, ``dead``, ``quarantined``.
        attempts: Runs begun by a worker; 0 where an inline handler has settled it.
        last_error: Why it is not processed, without what the exception said.
        due_at: When the next attempt is due.
        processed_at: None where it is not processed.
    """

    endpoint: str
    id: str
    type: str
    state: State
    attempts: int
    last_error: str
    provider: str
    account: str
    environment: str
    origin: Origin = field(repr=False)
    received_at: datetime = field(repr=False)
    due_at: datetime
    processed_at: datetime | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessage:
    """
    Tell of one message that a handler wrote with ``tx.emit``, and that committed with its effect.

    Attributes:
        destination: The one that it names; empty: wherever its type is routed to.
        event_id: The provider's id of the event that it came from; empty: of none.
        published_at: None where it is not sent yet.
    """

    id: str = field(repr=False)
    event_type: str
    payload: Any
    headers: dict[str, Any] = field(repr=False)
    aggregate_type: str
    aggregate_id: str
    destination: str
    event_id: str
    published_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Tell of one thing that a handler asked a person to look at with ``tx.review``."""

    endpoint: str
    event_id: str
    summary: str
    details: Any
    resolved: bool


def read_events(sql: Statements) -> Plan[list[RecordedEvent]]:
    """Read every event, oldest first."""
    rows = yield from _read(sql, sql.witness_events)
    return [
        RecordedEvent(
            provider=provider,
            endpoint=endpoint,
            account=account,
            environment=environment,
            id=event_id,
            type=event_type,
            state=State(state),
            origin=Origin(origin),
            attempts=attempts,
            last_error=last_error,
            received_at=instant(received),
            due_at=instant(due),
            processed_at=None if processed is None else instant(processed),
        )
        for (
            provider,
            endpoint,
            account,
            environment,
            event_id,
            event_type,
            state,
            origin,
            attempts,
            last_error,
            received,
            due,
            processed,
        ) in rows
    ]


def read_outbox(sql: Statements) -> Plan[list[OutboxMessage]]:
    """Read every message, in the order in which they were written."""
    rows = yield from _read(sql, sql.witness_outbox)
    return [
        OutboxMessage(
            id=message_id,
            event_type=event_type,
            payload=json.loads(payload),
            headers=json.loads(headers),
            aggregate_type=aggregate_type,
            aggregate_id=aggregate_id,
            destination=destination,
            event_id=event_id,
            published_at=None if published is None else instant(published),
        )
        for (
            message_id,
            event_type,
            payload,
            headers,
            aggregate_type,
            aggregate_id,
            destination,
            event_id,
            published,
        ) in rows
    ]


def read_reviews(sql: Statements) -> Plan[list[Review]]:
    """Read every review, oldest first."""
    rows = yield from _read(sql, sql.witness_reviews)
    return [
        Review(
            endpoint=endpoint,
            event_id=event_id,
            summary=summary,
            details=json.loads(details),
            resolved=resolved,
        )
        for endpoint, event_id, summary, details, resolved in rows
    ]


def bring_forward(seconds: float, sql: Statements) -> Plan[int]:
    """Have everything that is to happen at some time happen *seconds* earlier; gives how many events are due then."""
    yield _begin(sql)
    row = yield One(sql.bring_forward, {"seconds": seconds})
    yield Commit()
    due: int = row[0]
    return due


def start_afresh(schema: str) -> Plan[None]:
    """
    Bring *schema* up where it is not, and empty its tables.

    Raises:
        ConfigurationError: The name of the database does not say that it is for tests.
    """
    sql = Statements.of(schema)
    (name, _) = yield _begin(sql, sql.which_database)
    yield Rollback()
    if not is_for_tests(name):
        raise ConfigurationError(
            f"the inbox leads to the database {name!r}, which is not named as one for tests (test_shop, shop_test): "
            "its events would be deleted"
        )
    yield from migrate(schema)
    yield _begin(sql)
    yield One(sql.empty_tables)
    yield Commit()


def is_for_tests(database: str) -> bool:
    """Say whether the name of a database has the word ``test`` in it: ``shop_test`` has, ``latest`` has not."""
    return re.search(r"(?<![a-z])tests?(?![a-z])", database.lower()) is not None


def named(event_id: str, events: Iterable[RecordedEvent]) -> RecordedEvent:
    """
    Give the one of *events* that has this id.

    Raises:
        AssertionError: There is none, or there are several; says which there are.
    """
    events = list(events)
    found = [event for event in events if event.id == event_id]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{event.id} ({event.endpoint}: {event.state})" for event in events) or "none at all"
    several = "; say which endpoint" if found else ""
    raise AssertionError(f"{len(found)} events {event_id!r} are recorded; there are {there}{several}")


def _read(sql: Statements, statement: Statement) -> Plan[list[tuple[Any, ...]]]:
    yield _begin(sql)
    rows: list[tuple[Any, ...]] = yield All(statement)
    yield Rollback()
    return rows


def _begin(sql: Statements, statement: Statement | None = None) -> Begin:
    limits = {"handler_ms": _SECONDS_MAX * 1000, "wait_ms": _SECONDS_MAX * 1000}
    return Begin(statement or sql.begin, {} if statement else limits, seconds_max=_SECONDS_MAX)
