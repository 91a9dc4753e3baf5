"""What is not settled, counted by endpoint and state."""

from __future__ import annotations

import pytest

from tests.fixtures.plans import play
from webhook_inbox.errors import SchemaVersionError
from webhook_inbox.model.count import Count
from webhook_inbox.model.endpoint_record import EndpointRecord
from webhook_inbox.model.instants import instant
from webhook_inbox.model.limit import Limit
from webhook_inbox.model.message import SendState
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol.status import (
    LATEST_EVENTS,
    STATEMENT_SECONDS_MAX,
    Backlog,
    EndpointBacklog,
    Unhandled,
    read_backlog,
)
from webhook_inbox.sql.migrations import migrations

APPLIED = [(step.version, step.name, step.serves_from) for step in migrations("a b")]
ROWS = [
    ("billing", "dead", 4, 900.0),
    ("billing", "retrying", 2, 30.0),
    ("billing", "waiting", 3, 50.0),
    ("other", "quarantined", 1, 70.0),
]
ENDPOINTS = [
    ("billing", "stripe", None, None, 0, "bob", 4, None, None),
    ("shop", "", 0, "ada", None, "", None, None, None),
]
UNHANDLED = [("billing", "invoice.paid", 12)]
HOUR = [("billing", "duplicate", "", 9), ("shop", "failed", "handler", 2), ("shop", "unavailable", "away", 1)]


def backlog(
    rows: list[tuple[object, ...]] | None = None, outbox: tuple[object, ...] = (5, 12.5, 4, 1, 6, 7)
) -> Backlog:
    """What is read of these rows."""
    counted = ROWS if rows is None else rows
    answers = [None, counted, outbox, (2, 3), ENDPOINTS, UNHANDLED, [], HOUR]
    played = play(read_backlog("a b"), [None, (True,), APPLIED, None, *answers])
    assert played.names[4:8] == ["begin", "status_backlog", "status_outbox", "stuck_messages"]
    assert played.names[8:] == [
        "list_endpoints",
        "status_unhandled",
        "list_reconciles",
        "status_counters",
        "rollback",
    ]
    assert played.params("status_unhandled") == [{"latest": LATEST_EVENTS, "limit": 10}]
    limit = STATEMENT_SECONDS_MAX * 1000
    assert played.params("begin") == [{"handler_ms": limit, "wait_ms": limit}]
    assert played.steps[4].seconds_max == STATEMENT_SECONDS_MAX
    assert '"a b".inbox' in played.steps[5].statement.text
    assert played.value is not None
    return played.value


def test_events_are_counted_by_endpoint_and_state() -> None:
    """The age is that of the oldest that is still to be processed, not of one that is dead."""
    assert backlog() == Backlog(
        endpoints=(
            EndpointBacklog(
                endpoint="billing",
                counts={State.DEAD: 4, State.RETRYING: 2, State.WAITING: 3},
                oldest_seconds=50.0,
            ),
            EndpointBacklog(endpoint="other", counts={State.QUARANTINED: 1}, oldest_seconds=None),
        ),
        outbox_unpublished=5,
        outbox_oldest_seconds=12.5,
        outbox_counts={
            SendState.WAITING: 4,
            SendState.RETRYING: 1,
            SendState.DEAD: 2,
            SendState.UNROUTED: 3,
        },
        reviews_open=6,
        conflicts=7,
        unhandled=(Unhandled("billing", "invoice.paid", 12),),
        paused=(EndpointRecord(name="shop", provider="", paused_at=instant(0), paused_by="ada"),),
        limited=(
            EndpointRecord(
                name="billing",
                provider="stripe",
                limit=Limit(concurrency=4),
                limited_at=instant(0),
                limited_by="bob",
            ),
        ),
        reconciles=(),
        last_hour=tuple(Count(*row) for row in HOUR),
    )


def test_counts_are_added_up() -> None:
    """Over states and endpoints; what is not there counts nothing."""
    found = backlog()
    assert found.count(State.WAITING, State.RETRYING) == 5
    assert found.count(State.DEAD, State.QUARANTINED) == 5
    assert found.count(State.LEASED) == 0
    assert found.endpoints[0].count(State.DEAD, State.LEASED) == 4
    assert found.unprocessed == 5
    assert found.hourly(Outcome.FAILED, Outcome.UNAVAILABLE) == 3
    assert found.hourly(Outcome.REJECTED) == 0


def test_where_everything_is_settled_there_is_nothing_to_tell() -> None:
    """No endpoint, no age."""
    empty = backlog([], (0, None, 0, 0, 0, 0))
    assert (empty.endpoints, empty.unprocessed, empty.outbox_oldest_seconds) == ((), 0, None)


def test_a_schema_that_cannot_be_served_is_not_counted() -> None:
    """It is refused first."""
    with pytest.raises(SchemaVersionError):
        raise play(read_backlog("a b"), [None, (False,)]).error or AssertionError
