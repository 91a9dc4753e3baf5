"""What the relay asks for costs what is due, not what was ever sent: each statement by the index that it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.fixtures.postgres import PostgresServer
from tests.plans.explain import explain, indexes, sequential
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.databases import apply_migrations

SQL = Statements.of("webhooks")
SENT, DUE = 20_000, 60
FILL = f"""
INSERT INTO webhooks.workers (name, lease_ends_at) VALUES ('relay', now() + interval '1 hour');
INSERT INTO webhooks.outbox (aggregate_id, event_type, payload, state, published_at)
SELECT n % 50, 'Paid', '{{}}', 'routed', now() - n * interval '1 min' FROM generate_series(1, {SENT}) n;
INSERT INTO webhooks.outbox (aggregate_id, event_type, payload, state)
SELECT n % 50, 'Paid', '{{}}', 'routed' FROM generate_series(1, {DUE}) n;
INSERT INTO webhooks.sends (message_id, destination, position, state, sent_at, order_key)
SELECT id, 'mail', position, CASE WHEN published_at IS NULL THEN 'waiting' ELSE 'sent' END, published_at,
       '/' || aggregate_id
FROM webhooks.outbox;
INSERT INTO webhooks.outbox (event_type, payload) SELECT 'Paid', '{{}}' FROM generate_series(1, {DUE}) n;
INSERT INTO webhooks.outbox (event_type, payload, state)
SELECT 'Odd', '{{}}', 'unrouted' FROM generate_series(1, {DUE}) n;
UPDATE webhooks.sends SET state = 'leased', worker_id = 99 WHERE position > {SENT + 40};
UPDATE webhooks.sends SET state = 'dead' WHERE position > {SENT + 50};
"""


@pytest.fixture(scope="module")
def filled(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection to an outbox that has sent much, and has little to do."""
    name = postgres.create()
    apply_migrations(postgres.direct_dsn_of(name))
    with psycopg.connect(postgres.direct_dsn_of(name), autocommit=True) as conn:
        conn.execute(FILL.encode())
        conn.execute("VACUUM ANALYZE webhooks.outbox, webhooks.sends, webhooks.workers")
        yield conn
    postgres.drop(name)


def ids(conn: psycopg.Connection[Any], state: str, count: int = 10) -> list[str]:
    """The ids of some messages whose sends are in *state*."""
    rows = conn.execute("SELECT message_id FROM webhooks.sends WHERE state = %s LIMIT %s", [state, count])
    return [str(row[0]) for row in rows]


ROUTING = {
    "patterns": ["%"],
    "targets": ["mail"],
    "destinations": ["mail"],
    "ordered": [True],
    "limit": 10,
}


@pytest.mark.parametrize(
    ("name", "parameters", "index"),
    [
        ("route_messages", ROUTING, "outbox_waiting"),
        ("reroute_messages", {**ROUTING, "patterns": ["O%"]}, "outbox_unrouted"),
        (
            "claim_messages",
            {"destination": "mail", "limit": 10, "worker_id": 1, "holding": True},
            "sends_due",
        ),
        (
            "return_sends",
            {"limit": 10, "blaming": True, "retry_seconds_max": 1.0, "backoff_seconds_max": 1.0},
            "sends_leased",
        ),
        ("prune_outbox", {"seconds": 600_000.0, "limit": 10}, "outbox_published"),
        (
            "retry_messages",
            {
                "state": "dead",
                "destination": "mail",
                "event_type": "",
                "message_id": "",
                "actor": "",
                "reason": "",
            },
            "sends_dead",
        ),
        ("status_outbox", {}, "outbox_unpublished"),
        ("stuck_messages", {}, "sends_dead"),
        ("outbox_lag", {"destinations": ["mail"]}, "sends_due"),
    ],
)
def test_what_was_sent_long_ago_is_not_read(
    filled: psycopg.Connection[Any], name: str, parameters: dict[str, Any], index: str
) -> None:
    """It walks its index to a bounded number of rows, and reads neither outbox nor sends from end to end."""
    nodes = explain(filled, getattr(SQL, name), parameters)
    assert index in indexes(nodes)
    assert not sequential(nodes) & {"outbox", "sends"}
    assert max(node.rows_read for node in nodes if node.relation in ("outbox", "sends")) <= 5 * DUE


@pytest.mark.parametrize("name", ["lock_messages", "settle_sent", "settle_unsent", "publish_messages"])
def test_what_is_settled_is_found_by_its_key(filled: psycopg.Connection[Any], name: str) -> None:
    """Ten messages are ten rows, however many the relay has settled since the oldest transaction began."""
    found = ids(filled, "leased")
    parameters = {
        "destination": "mail",
        "ids": found,
        "tokens": [0] * len(found),
        "worker_id": 99,
        "reasons": ["no"] * len(found),
        "retry_in_seconds": [1.0] * len(found),
        "permanent": [False] * len(found),
        "counted": [True] * len(found),
        "timed": [True] * len(found),
        "retry_seconds_max": 1.0,
        "attempts_max": 0,
    }
    nodes = explain(filled, getattr(SQL, name), parameters)
    assert indexes(nodes) <= {"outbox_pkey", "sends_pkey"}
    assert not sequential(nodes) & {"outbox", "sends"}
    assert max(node.rows_read for node in nodes if node.relation in ("outbox", "sends")) <= len(found)
