"""Count what one event writes and leaves behind: write-ahead log, dead rows, bytes on disk."""

from __future__ import annotations

import psycopg

from benchmarks.growth.backlog import receive, work_off
from benchmarks.harness.events import event_body
from benchmarks.harness.figures import Figures
from benchmarks.harness.ours import migrate
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench

EVENTS, QUICK_EVENTS = 20_000, 2_000
_TOGETHER = 32
_ALONE = """
    CREATE TABLE bodies_alone (id bigint PRIMARY KEY, body bytea NOT NULL);
    ALTER TABLE bodies_alone ALTER COLUMN body SET COMPRESSION lz4;
"""
# Each update and each deletion leaves a dead row. A worker's heartbeat belongs to no event.
_DEAD = """
    SELECT sum(n_tup_upd + n_tup_del)::bigint FROM pg_stat_user_tables
    WHERE schemaname = 'webhooks' AND relname <> 'workers'
"""
_BYTES = """
    SELECT sum(pg_total_relation_size(c.oid))::bigint
    FROM pg_class c WHERE c.relnamespace = 'webhooks'::regnamespace AND c.relkind = 'r'
"""


def measure_event(bench: Bench) -> Figures:
    """Receive events and work them off with a handler that writes nothing: all that is written is ours."""
    count = QUICK_EVENTS if bench.quick else EVENTS
    with bench.server.database() as database:
        migrate(database)
        began = database.wal_bytes()
        receive(database.dsn, first=0, count=count)
        received = database.wal_bytes()
        work_off(database.dsn, expected=count)
        processed = database.wal_bytes()
        dead = database.value(_DEAD)
        database.vacuum()
        return {
            "wal_bytes": (processed - began) / count,
            "record_wal_bytes": (received - began) / count,
            "process_wal_bytes": (processed - received) / count,
            "dead_rows": dead / count,
            "disk_bytes": database.value(_BYTES) / count,
        }


def measure_bytes_alone(bench: Bench) -> Figures:
    """Insert the same bytes with a number beside them, as many a commit as a receiver gathers from 32 connections."""
    count = QUICK_EVENTS if bench.quick else EVENTS
    with bench.server.database() as database:
        database.execute(_ALONE)
        began = database.wal_bytes()
        _insert(database, count)
        wal_bytes = (database.wal_bytes() - began) / count
        database.vacuum()
        disk_bytes = database.value("SELECT pg_total_relation_size('bodies_alone')") / count
    return {"wal_bytes": wal_bytes, "record_wal_bytes": wal_bytes, "disk_bytes": disk_bytes}


def _insert(database: Database, count: int) -> None:
    with psycopg.connect(database.dsn) as conn:
        for first in range(0, count, _TOGETHER):
            numbers = range(first, min(first + _TOGETHER, count))
            conn.cursor().executemany(
                "INSERT INTO bodies_alone VALUES (%s, %s)", [(each, event_body(each)) for each in numbers]
            )
            conn.commit()
