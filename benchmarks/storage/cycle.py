"""Count what one event costs the server from its arrival to its mark."""

from __future__ import annotations

import time

from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.figures import Figures
from benchmarks.harness.processes import cpu_seconds
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench
from benchmarks.storage.drive import GATHERED, driving
from benchmarks.storage.layouts import Layout

EVENTS, QUICK_EVENTS = 12 * GATHERED, GATHERED
_WARM_UP = GATHERED  # the first ones prepare the statements and extend the tables
_SECONDS_MAX = 10.0
_POLL_SECONDS = 0.02
_COUNTED = """
    SELECT ARRAY[sum(n_tup_upd + n_tup_del), sum(n_tup_hot_upd)]::bigint[]
    FROM pg_stat_user_tables WHERE schemaname = 'webhooks' AND relname <> 'workers'
"""
_OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_BYTES = """
    SELECT sum(pg_total_relation_size(oid))::bigint
    FROM pg_class WHERE relnamespace = 'webhooks'::regnamespace AND relkind = 'r'
"""


def measure(layout: Layout, bench: Bench) -> Figures:
    """Make one run: every event is recorded once, and marked once where the layout marks."""
    count = QUICK_EVENTS if bench.quick else EVENTS
    with bench.server.database() as database:
        layout.make(database)
        with driving(database.dsn, layout) as driver:
            pid = driver.session.info.backend_pid
            driver.cycle(0, _WARM_UP)
            driver.seconds = dict.fromkeys(driver.seconds, 0.0)
            driver.wal_bytes = dict.fromkeys(driver.wal_bytes, 0)
            began = cpu_seconds(pid)
            driver.cycle(_WARM_UP, count)
            spent = cpu_seconds(pid) - began
        _check(database, layout, _WARM_UP + count)
        figures = {
            "per_second": count / sum(driver.seconds.values()),
            "wal_bytes": sum(driver.wal_bytes.values()) / count,
            **{f"{name}_wal_bytes": total / count for name, total in driver.wal_bytes.items()},
            **{f"{name}_us": total * 1e6 / count for name, total in driver.seconds.items()},
            "server_cpu_us": spent * 1e6 / count,
        }
        return {**figures, **_left_behind(database, _WARM_UP + count)}


def _left_behind(database: Database, events: int) -> dict[str, float]:
    """Count dead row versions, what VACUUM writes to remove them, and what the events take on disk after it."""
    _wait_until_told(database)
    dead, same_page = database.value(_COUNTED)
    began = database.wal_bytes()
    database.vacuum()
    return {
        "dead_rows": dead / events,
        "hot_updates": same_page / events,
        "vacuum_wal_bytes": (database.wal_bytes() - began) / events,
        "disk_bytes": database.value(_BYTES) / events,
    }


def _wait_until_told(database: Database) -> None:
    """Wait for a session's end: before it a session keeps its last second's counts to itself."""
    deadline = time.monotonic() + _SECONDS_MAX
    while database.value(_OTHERS):
        if time.monotonic() > deadline:
            raise BenchmarkError(f"the session did not end within {_SECONDS_MAX:g} s")
        time.sleep(_POLL_SECONDS)


def _check(database: Database, layout: Layout, events: int) -> None:
    found = database.value(layout.settled)
    if found != events:
        raise InvariantError(f"{events} events were sent, and {found} are there as they should be")
