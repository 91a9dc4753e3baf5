"""The receive path and the status cost the same whether the inbox has one event or many: each reads an index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.fixtures.arrivals import SCHEMA, arrival, key, recording
from tests.fixtures.postgres import PostgresServer
from tests.plans.explain import Node, explain, indexes, sequential
from webhook_inbox.protocol.steps import One
from webhook_inbox.sql.statements import Statement, Statements
from webhook_inbox.testing.databases import apply_migrations

SQL = Statements.of(SCHEMA)
EVENTS = 50_000
#: How many events are in each state that is not settled.
UNSETTLED = {"waiting": 40, "retrying": 30, "leased": 10, "dead": 15, "quarantined": 5}
UNPUBLISHED = OPEN_REVIEWS = 25
#: How often the inbox was read from end to end in this transaction, and how many rows were fetched by an index.
READS = """
    SELECT seq_scan, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = 'webhooks.inbox'::regclass
"""
SEED = f"""
    INSERT INTO webhooks.inbox (provider, endpoint, environment, event_id, event_type, state, received_at, processed_at,
                                body_sha256, body_bytes)
    SELECT 'stripe', 'billing', 'test', 'evt_' || md5(n::text), 'invoice.paid', 'processed', now() - n * interval '1 s',
           now(), sha256(n::text::bytea), 3000
    FROM generate_series(1, {EVENTS}) n;
    INSERT INTO webhooks.bodies (received_at, id, body, headers)
    SELECT received_at, id, sha256(event_id::bytea), '[]' FROM webhooks.inbox;
    INSERT INTO webhooks.outbox (event_type, payload, published_at, inbox_id)
    SELECT 'Booked', '{{}}', CASE WHEN n > {UNPUBLISHED} THEN now() END, n FROM generate_series(1, {EVENTS}) n;
    INSERT INTO webhooks.reviews (inbox_id, endpoint, event_id, summary, details, resolved_at)
    SELECT n, 'billing', 'evt', 'look', '{{}}', CASE WHEN n > {OPEN_REVIEWS} THEN now() END
    FROM generate_series(1, {EVENTS}) n;
"""


@pytest.fixture(scope="module")
def conn(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection to an inbox with many processed events and few others; statistics are up to date."""
    name = postgres.create()
    apply_migrations(postgres.dsn_of(name))
    with psycopg.connect(postgres.dsn_of(name), autocommit=True) as conn:
        conn.execute(SEED.encode())
        for state, number in UNSETTLED.items():
            conn.execute(
                "UPDATE webhooks.inbox SET state = %s, processed_at = NULL WHERE id IN "
                "(SELECT id FROM webhooks.inbox WHERE state = 'processed' ORDER BY md5(id::text) LIMIT %s)",
                [state, number],
            )
        conn.execute("VACUUM (ANALYZE)")
        conn.execute("SET webhook_inbox.lock_timeout = '0'")  # as begin.sql leaves it
        yield conn
    postgres.drop(name)


def known(conn: psycopg.Connection[Any]) -> str:
    """The id of an event in the middle of the table."""
    row = conn.execute("SELECT event_id FROM webhooks.inbox ORDER BY id OFFSET 25000 LIMIT 1").fetchone()
    assert row is not None
    return str(row[0])


def test_the_first_copy_is_found_by_the_event_key(conn: psycopg.Connection[Any]) -> None:
    """``find_event`` reads one row, by the very index that says what a duplicate is (P-DUP)."""
    nodes = explain(conn, SQL.find_event, key(known(conn)).columns)
    assert indexes(nodes) == {"inbox_event_key"}
    assert sequential(nodes) == set()
    assert read(nodes, "inbox") == 1


@pytest.mark.parametrize("new", [True, False])
def test_the_conflict_is_checked_by_the_event_key(conn: psycopg.Connection[Any], new: bool) -> None:
    """``record_event`` arbitrates on ``inbox_event_key`` alone, and reads no table."""
    step = recording().record(arrival("evt_new" if new else known(conn)), effect=True)
    assert isinstance(step, One)
    nodes = explain(conn, step.statement, step.params)
    (insert,) = [node for node in nodes if node.facts.get("Conflict Resolution")]
    assert (insert.relation, insert.facts["Conflict Resolution"]) == ("inbox", "NOTHING")
    assert insert.facts["Conflict Arbiter Indexes"] == ["inbox_event_key"]
    assert insert.facts["Conflicting Tuples"] == (0 if new else 1)
    assert sequential(nodes) == set()


@pytest.mark.parametrize("number", [1, 20])
def test_claimed_events_are_settled_by_their_ids(conn: psycopg.Connection[Any], number: int) -> None:
    """``settle_claimed`` and ``settle_set`` read the rows that they settle and no other, by the primary key."""
    ids = [n * 1000 for n in range(1, number + 1)]
    claimed = {"token": 0, "worker_id": 1, "state": "processed", "wait_ms": 1000}
    nodes = explain(conn, SQL.settle_claimed, {"id": ids[0], **claimed})
    nodes += explain(conn, SQL.settle_set, {"ids": ids, "tokens": [0] * number, **claimed})
    assert indexes(nodes) == {"inbox_pkey"}
    assert sequential(nodes) == set()
    assert read(nodes, "inbox") <= 1 + number


def test_an_effect_is_sealed_by_the_ids_of_its_events(conn: psycopg.Connection[Any]) -> None:
    """``seal_effect`` reads the rows that were marked and no other, also once its plan is a generic one."""
    ids = [n * 1000 for n in range(1, 21)]
    with conn.transaction(force_rollback=True):
        (transaction,) = row_of(conn, "SELECT pg_current_xact_id()::text")
        conn.execute(
            "UPDATE webhooks.inbox SET state = 'processed', processed_at = now(), "
            "effect_transaction = pg_current_xact_id() WHERE id = ANY (%s)",
            [ids],
        )
        marks = {"transaction": transaction, "events": ids, "undone": [], "worker_id": None}
        before = row_of(conn, READS)
        for _ in range(10):
            conn.execute(SQL.seal_effect.text.encode(), marks)
        after = row_of(conn, READS)
    assert after[0] == before[0], "no table is read from end to end"
    assert 10 * len(ids) <= after[1] - before[1] <= 20 * len(ids), "each row, and at most its older version"


def row_of(conn: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    """The one row of a query."""
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return tuple(row)


def test_evidence_is_kept_without_reading_a_table(conn: psycopg.Connection[Any]) -> None:
    """``record_conflict`` arbitrates on its primary key."""
    step = recording().conflict(arrival(), inbox_id=1)
    nodes = explain(conn, step.statement, step.params)
    (insert,) = [node for node in nodes if node.facts.get("Conflict Resolution")]
    assert insert.facts["Conflict Arbiter Indexes"] == ["conflicts_pkey"]
    assert sequential(nodes) == set()


def test_the_backlog_is_counted_from_its_partial_indexes(conn: psycopg.Connection[Any]) -> None:
    """``status_backlog`` reads what is not settled and nothing of what is, however much that has become."""
    nodes = explain(conn, SQL.status_backlog)
    assert sequential(nodes) == set()
    assert indexes(nodes) <= {"inbox_unfinished", "inbox_attention", "inbox_due", "inbox_leased"}
    assert read(nodes, "inbox") == sum(UNSETTLED.values())


def test_the_outbox_is_counted_from_its_partial_indexes(conn: psycopg.Connection[Any]) -> None:
    """``status_outbox`` reads what is unpublished or retrying, which reviews are open and all evidence, and no more."""
    nodes = explain(conn, SQL.status_outbox)
    assert sequential(nodes) <= {"conflicts", "sends"}  # both are empty here
    assert indexes(nodes) == {"outbox_unpublished", "reviews_open"}
    # Twice what is unpublished at most: once counted, once for the oldest.
    assert read(nodes, "outbox") <= 2 * UNPUBLISHED
    assert read(nodes, "reviews") == OPEN_REVIEWS


def test_what_nobody_handled_is_looked_for_among_the_latest(conn: psycopg.Connection[Any]) -> None:
    """``status_unhandled`` reads as many events as it is told to, from the newest on."""
    nodes = explain(conn, SQL.status_unhandled, {"latest": 50, "limit": 10})
    assert sequential(nodes) == set()
    assert indexes(nodes) == {"inbox_pkey"}
    assert read(nodes, "inbox") == 50


def test_an_event_with_its_bytes_is_found_in_one_partition(conn: psycopg.Connection[Any]) -> None:
    """The operators' view reads one body of one day, by the body's own key."""
    view = Statement(
        "view",
        "SELECT body, payload FROM webhooks.events WHERE provider = %(provider)s AND endpoint = %(endpoint)s "
        "AND account = %(account)s AND environment = %(environment)s AND event_id = %(event_id)s",
        tuple(key().columns),
    )
    nodes = explain(conn, view, key(known(conn)).columns)
    assert sequential(nodes) == set()
    bodies = [node for node in nodes if node.relation.startswith("bodies")]
    assert [(node.kind, node.rows_read) for node in bodies] == [("Index Scan", 1)]


def read(nodes: list[Node], relation: str) -> int:
    """How many rows of *relation* were looked at."""
    return sum(node.rows_read for node in nodes if node.relation == relation and "Scan" in node.kind)
