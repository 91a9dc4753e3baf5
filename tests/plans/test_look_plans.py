"""A page of events costs the same whether the inbox has few events or many: it is read by an index."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.fixtures.arrivals import SCHEMA
from tests.fixtures.postgres import PostgresServer
from tests.plans.explain import Node, explain, indexes, sequential
from tests.plans.test_receive_plans import EVENTS, SEED, UNSETTLED
from webhook_inbox.cli.database import run_plan
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol.look import filter_params
from webhook_inbox.protocol.status import reading
from webhook_inbox.protocol.steps import Plan, Rollback
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.databases import apply_migrations

SQL = Statements.of(SCHEMA)
PAGE = 20
#: The binary search reads a row a turn.
TURNS_MAX = 40


@pytest.fixture(scope="module")
def conn(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection to an inbox with many processed events, received over a day, and few others."""
    name = postgres.create()
    apply_migrations(postgres.dsn_of(name))
    with psycopg.connect(postgres.dsn_of(name), autocommit=True, prepare_threshold=None) as conn:
        # In the order of arrival, one a second; the account is one of a few hundred.
        conn.execute(SEED.replace("now() - n *", f"now() - ({EVENTS} - n) *").encode())
        conn.execute("UPDATE webhooks.inbox SET account = 'acct_' || id % 300")
        for state, number in UNSETTLED.items():
            conn.execute(
                "UPDATE webhooks.inbox SET state = %s, processed_at = NULL, last_error = 'KeyError' WHERE id IN "
                "(SELECT id FROM webhooks.inbox WHERE state = 'processed' ORDER BY md5(id::text) LIMIT %s)",
                [state, number],
            )
        conn.execute("VACUUM (ANALYZE)")
        yield conn
    postgres.drop(name)


def meant_by(conn: psycopg.Connection[Any], meant: EventFilter) -> dict[str, Any]:
    """The parameters of what *meant* means."""

    def params() -> Plan[dict[str, Any]]:
        yield reading(SQL)
        found = yield from filter_params(meant, SQL)
        yield Rollback()
        return found

    return run_plan(conn.info.dsn, params)


def asked(conn: psycopg.Connection[Any], meant: EventFilter, **more: Any) -> list[Node]:
    """How a page of what *meant* means is read."""
    return explain(conn, SQL.list_newest_events, {**meant_by(conn, meant), "limit": PAGE, **more})


def read(nodes: list[Node]) -> int:
    """How many rows of the inbox were looked at."""
    return sum(node.rows_read for node in nodes if node.relation == "inbox")


@pytest.mark.parametrize(
    ("meant", "rows_max"),
    [
        (EventFilter(), PAGE),
        (EventFilter(endpoint="billing", event_type="invoice.*"), PAGE * 2),
        (EventFilter(states=(State.DEAD, State.QUARANTINED), error="key"), 2 * UNSETTLED["dead"]),
        (
            EventFilter(states=(State.DEAD,), endpoint="billing", event_type="invoice.*"),
            2 * UNSETTLED["dead"],
        ),
        (EventFilter(states=(State.RETRYING,)), 3 * UNSETTLED["retrying"]),
        (EventFilter(states=(State.RETRYING,), since=timedelta(hours=20)), 3 * UNSETTLED["retrying"]),
        (EventFilter(rows=(5, 6, 7)), PAGE),
        # An hour of disorder is allowed for, so it reads an hour and a minute.
        (EventFilter(since=timedelta(minutes=1), event_type="nobody's"), 3_800),
        (EventFilter(until=timedelta(hours=10), since=timedelta(hours=11)), 3_800),
    ],
    ids=["all", "usual", "dead", "dead type", "retrying", "retrying since", "rows", "since", "until"],
)
def test_a_page_reads_what_it_shows(conn: psycopg.Connection[Any], meant: EventFilter, rows_max: int) -> None:
    """By an index, and never the whole table."""
    nodes = asked(conn, meant)
    assert not sequential(nodes)
    assert 0 < read(nodes) <= rows_max


def test_a_later_page_costs_what_the_first_one_does(conn: psycopg.Connection[Any]) -> None:
    """It begins behind the row that the page before ended with, and reads none of those before."""
    nodes = asked(conn, EventFilter(), last_row=EVENTS // 2)
    assert indexes(nodes) == {"inbox_pkey"}
    assert read(nodes) == PAGE


def test_what_a_dry_run_counts_is_counted_by_its_index(conn: psycopg.Connection[Any]) -> None:
    """The number that an operator is told before anything happens, of all that a filter means."""
    nodes = explain(conn, SQL.count_events, meant_by(conn, EventFilter(states=(State.DEAD,), error="key")))
    assert not sequential(nodes)
    assert indexes(nodes) == {"inbox_attention"}
    assert read(nodes) <= 2 * UNSETTLED["dead"]


def test_an_event_id_is_found_by_the_event_key(conn: psycopg.Connection[Any]) -> None:
    """Although the id is its last column: one probe for each prefix that there is, of 300 accounts here."""
    (event_id,) = conn.execute("SELECT event_id FROM webhooks.inbox WHERE id = 25000").fetchone() or ("",)
    nodes = asked(conn, EventFilter(event_id=event_id))
    assert not sequential(nodes)
    assert "inbox_event_key" in indexes(nodes)
    assert read(nodes) < 3 * 300 + PAGE


def test_a_time_is_found_by_halves(conn: psycopg.Connection[Any]) -> None:
    """Without an index on the time, which each event would pay for."""
    nodes = explain(conn, SQL.find_row_at, {"at": 3_600_000_000, "ago": True})
    assert not sequential(nodes)
    assert read(nodes) <= TURNS_MAX


def test_an_action_reads_the_rows_that_it_is_for(conn: psycopg.Connection[Any]) -> None:
    """By the primary key, whatever state they are in."""
    given = {
        "rows": list(range(1000, 1020)),
        "to_state": "waiting",
        "with_body": True,
        "origin": "",
        "last_error": "",
        "first_due_seconds": 0.0,
        "every_seconds": 0.0,
        "actor": "ada",
        "action": "replay",
        "reason": "",
    }
    locking = {"rows": given["rows"], "from_states": ["dead", "processed"]}
    for statement, parameters in ((SQL.lock_events, locking), (SQL.operate_events, given)):
        nodes = explain(conn, statement, parameters)
        assert not sequential(nodes)
        assert 0 < read(nodes) <= 3 * len(range(1000, 1020))


def test_a_step_of_forgetting_reads_a_batch(conn: psycopg.Connection[Any]) -> None:
    """From where the walk has come to, not from the beginning."""
    policy = {"endpoints": ["billing"], "days": [0.2], "limit": 100, "dry_run": False}
    nodes = explain(conn, SQL.prune_events, {**policy, "after_row": 20_000})
    assert not sequential(nodes) - {"attempts", "conflicts"}  # there are none
    assert read(nodes) <= 4 * 100
    (at,) = conn.execute(
        "SELECT (extract(epoch FROM received_at) * 1000000)::bigint FROM webhooks.inbox WHERE id = 20000"
    ).fetchone() or (0,)
    nodes = explain(conn, SQL.prune_bodies, {**policy, "after_at": at, "after_row": 20_000})
    assert not sequential(nodes)
    assert read(nodes) <= 4 * 100


def test_a_step_of_forgetting_reads_nothing_behind_what_has_come_of_age(
    conn: psycopg.Connection[Any],
) -> None:
    """However much is old enough for some other endpoint."""
    policy = {"endpoints": ["billing", "shop"], "days": [300.0, 0.01], "limit": 1000, "dry_run": False}
    begin, end = conn.execute(
        "SELECT (extract(epoch FROM min(received_at)) * 1000000)::bigint, "
        "(extract(epoch FROM max(received_at)) * 1000000)::bigint "
        "FROM webhooks.inbox WHERE id BETWEEN 20000 AND 20050"
    ).fetchone() or (0, 0)
    nodes = explain(conn, SQL.prune_events, {**policy, "after_row": 19_999, "until": end})
    assert read(nodes) <= 1000
    bodies = explain(conn, SQL.prune_bodies, {**policy, "after_at": begin, "after_row": 0, "until": end})
    assert sum(node.rows_read for node in bodies if node.relation.startswith("bodies")) <= 51
