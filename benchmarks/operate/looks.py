"""
Time what an operator reads, in an inbox with few events and in one with many; what is not settled is the same in both.

Each look is the plan that the command line runs, on a connection that is open already: what differs is the database.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.figures import Figures
from benchmarks.harness.ours import migrate
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench
from webhook_inbox.drivers.psycopg_sync import PsycopgDriver
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import State
from webhook_inbox.protocol.look import count_events, find_events, list_events
from webhook_inbox.protocol.migrate import DEFAULT_SCHEMA
from webhook_inbox.protocol.prune import Pruned, Retention, prune
from webhook_inbox.protocol.status import read_backlog
from webhook_inbox.protocol.steps import Plan

QUICK_PART = 100
LOOKS, QUICK_LOOKS = 9, 2
PAGE = 50
#: Of 100 days; what nobody has dealt with is as much in a small inbox as in a large one.
UNSETTLED = {"waiting": 500, "retrying": 200, "dead": 1000, "quarantined": 50}
DAYS, KEY_DAYS, PAYLOAD_DAYS = 100, 99.9, 30
_FILL = """
    INSERT INTO webhooks.inbox (provider, endpoint, environment, event_id, event_type, state, received_at, available_at,
                                processed_at, attempts, claims, last_error, body_sha256, body_bytes)
    SELECT 'stripe', 'endpoint_' || n %% 3, 'live', 'evt_' || lpad(n::text, 24, '0'), 'type.' || n %% 20, state, at, at,
           CASE WHEN state = 'processed' THEN at END, 1, 1,
           CASE WHEN state IN ('dead', 'retrying') THEN 'KeyError at billing.py:21 book'
                WHEN state = 'ignored' THEN 'no handler for type.' || n %% 20 END,
           sha256(int8send(n)), 3417
    FROM generate_series(1, %(rows)s) n,
    LATERAL (SELECT now() - (%(rows)s - n) * interval '1 day' * %(days)s / %(rows)s AS at) moment,
    LATERAL (SELECT CASE WHEN n > %(rows)s - %(waiting)s THEN 'waiting'
                         WHEN n %% (%(rows)s / %(dead)s) = 7 THEN 'dead'
                         WHEN n %% (%(rows)s / %(retrying)s) = 9 THEN 'retrying'
                         WHEN n %% (%(rows)s / %(quarantined)s) = 4 THEN 'quarantined'
                         WHEN n %% 100 = 3 THEN 'ignored'
                         ELSE 'processed' END AS state) settled
"""


def measure(rows: int, bench: Bench) -> Figures:
    """Make one run; every look finds something."""
    rows = max(rows // (QUICK_PART if bench.quick else 1), 10_000)
    template = bench.server.template(f"looks_{rows}", partial(_fill, rows=rows))
    with bench.server.database(template) as database:
        driver = PsycopgDriver(database.dsn, settings=Settings(connections_max=1))
        try:
            count = QUICK_LOOKS if bench.quick else LOOKS
            return {name: _median_ms(name, driver, plan, count) for name, plan in _looks(rows).items()}
        finally:
            driver.close()


def _fill(database: Database, *, rows: int) -> None:
    migrate(database)
    database.execute(_FILL, {"rows": rows, "days": DAYS, **UNSETTLED})
    database.vacuum()


def _looks(rows: int) -> dict[str, Callable[[], Plan[object]]]:
    """Give what is looked at, by the name of its figure."""

    def page(meant: EventFilter) -> Callable[[], Plan[object]]:
        return lambda: list_events(meant, DEFAULT_SCHEMA, limit=PAGE)

    middle = f"evt_{rows // 2:024}"
    retentions = [Retention(f"endpoint_{n}", PAYLOAD_DAYS, KEY_DAYS) for n in range(3)]
    dead = EventFilter(states=(State.DEAD,), endpoint="endpoint_1", error="KeyError")
    day = EventFilter(since=timedelta(days=50), until=timedelta(days=49), endpoint="endpoint_1")
    return {
        "status_ms": lambda: read_backlog(DEFAULT_SCHEMA),
        "list_ms": page(EventFilter()),
        "list_dead_error_ms": page(dead),
        "list_ignored_type_ms": page(EventFilter(states=(State.IGNORED,), event_type="type.3")),
        "list_endpoint_types_ms": page(EventFilter(endpoint="endpoint_2", event_type="type.1*")),
        "list_hour_ms": page(EventFilter(since=timedelta(hours=1))),
        "list_day_ms": page(day),
        "list_id_ms": page(EventFilter(event_id=middle)),
        "show_ms": lambda: find_events(middle, DEFAULT_SCHEMA),
        "retry_dry_run_ms": lambda: count_events(dead, DEFAULT_SCHEMA),
        "prune_dry_run_ms": lambda: prune(retentions, DEFAULT_SCHEMA, dry_run=True),
    }


def _median_ms(name: str, driver: PsycopgDriver, plan: Callable[[], Plan[object]], count: int) -> float:
    # It does not count: what the server has to read from disk the first time is the disk's.
    if driver.run(plan) in ((), {}, Pruned()):
        raise InvariantError(f"{name}: nothing was found")
    return statistics.median(_timed_ms(partial(driver.run, plan)) for _ in range(count))


def _timed_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3
