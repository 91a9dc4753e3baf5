"""What a list of the provider's is compared with costs a probe for each event of it, however many events there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.fixtures.arrivals import SCHEMA
from tests.fixtures.postgres import PostgresServer
from tests.plans.explain import explain, indexes, sequential
from tests.plans.test_receive_plans import SEED
from webhook_inbox.protocol.reconcile import PART_EVENTS
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.databases import apply_migrations

SQL = Statements.of(SCHEMA)


@pytest.fixture(scope="module")
def conn(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection to an inbox with many processed events."""
    name = postgres.create()
    apply_migrations(postgres.dsn_of(name))
    with psycopg.connect(postgres.dsn_of(name), autocommit=True, prepare_threshold=None) as conn:
        conn.execute(SEED.encode())
        conn.execute("VACUUM (ANALYZE)")
        yield conn
    postgres.drop(name)


@pytest.mark.parametrize("known", [0, PART_EVENTS])
def test_each_event_of_a_list_is_one_probe_of_the_event_key(
    conn: psycopg.Connection[Any], known: int
) -> None:
    """P-FIND: whether it is here or not."""
    rows = conn.execute(
        "SELECT provider, endpoint, account, environment, event_id FROM webhooks.inbox ORDER BY id LIMIT %s",
        [PART_EVENTS],
    ).fetchall()
    prefix = "" if known else "missing_"
    given = {
        "provider": rows[0][0],
        "endpoint": rows[0][1],
        "accounts": [row[2] for row in rows],
        "environments": [row[3] for row in rows],
        "event_ids": [prefix + row[4] for row in rows],
    }
    nodes = explain(conn, SQL.find_known, given)
    assert not sequential(nodes)
    assert "inbox_event_key" in indexes(nodes)
    assert sum(node.rows_read for node in nodes if node.relation == "inbox") == known
