"""
Time claims, and records, in a table that holds many events that are done, and under a snapshot that nobody lets go.

An open transaction keeps the server from forgetting what was changed since it began. An hour of it is made by working
off as many events as come in an hour, while the snapshot is held.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

import psycopg

from benchmarks.growth.backlog import ENDPOINT, receive, work_off
from benchmarks.harness.errors import InvariantError
from benchmarks.harness.figures import Figures
from benchmarks.harness.ours import migrate
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench
from webhook_inbox.drivers.psycopg_sync import PsycopgDriver
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.lease import Wanted, claim, register
from webhook_inbox.protocol.migrate import DEFAULT_SCHEMA
from webhook_inbox.sql.statements import Statements

HOUR_EVENTS = 36_000  # ten a second
CLAIMS = 300
EVENTS_A_CLAIM = 20
QUICK_PART = 50
QUICK_CLAIMS = 20
_WARM_UP_CLAIMS = 5  # the first ones prepare the statement
_FIRST_HELD, _FIRST_DUE = 1_000_000_000, 2_000_000_000
_FILL = """
    INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, received_at, available_at,
                                processed_at, attempts, claims, body_sha256, body_bytes)
    SELECT 'stripe', 'stripe', 'evt_' || lpad(n::text, 24, '0'), 'charge.succeeded', 'processed', at, at, at,
           1, 1, sha256(int8send(n)), 3417
    FROM generate_series(1, %(rows)s) n, LATERAL (SELECT now() - (%(rows)s - n) * interval '1 second' AS at) moment
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """
    Hold the state that claims are timed in.

    Attributes:
        rows: Processed events that are there; their bodies have aged out.
        held: Whether a snapshot is held while an hour's events are worked off.
    """

    rows: int
    held: bool = False


def measure(table: Table, bench: Bench) -> Figures:
    """Make one run: every claim takes as many events as it asks for, and no event twice."""
    part = QUICK_PART if bench.quick else 1
    rows, hour, claims = table.rows // part, HOUR_EVENTS // part, max(CLAIMS // part, QUICK_CLAIMS)
    template = bench.server.template(f"processed_{rows}", partial(_fill, rows=rows))
    with bench.server.database(template) as database, _snapshot(database) if table.held else nullcontext():
        if table.held:
            receive(database.dsn, first=_FIRST_HELD, count=hour)
            work_off(database.dsn, expected=hour)
        receive(database.dsn, first=_FIRST_DUE, count=claims * EVENTS_A_CLAIM)
        return _figures(_claim(database, claims))


def _fill(database: Database, *, rows: int) -> None:
    migrate(database)
    database.execute(_FILL, {"rows": rows})
    database.vacuum()


@contextmanager
def _snapshot(database: Database) -> Iterator[None]:
    with psycopg.connect(database.dsn) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("SELECT count(*) FROM webhooks.endpoints")
        yield


def _claim(database: Database, claims: int) -> list[float]:
    """Claim all that is due; give the milliseconds that each claim took, commit included."""
    driver = PsycopgDriver(database.dsn, settings=Settings(prepared_statements=True))
    statements = Statements.of(DEFAULT_SCHEMA)
    wanted = [Wanted(endpoint=ENDPOINT, limit=EVENTS_A_CLAIM, hold_seconds=0.0)]
    try:
        worker = driver.run(lambda: register("benchmark", 600.0, statements))
        claimed = set[str]()

        def once() -> None:
            claimed.update(each.event.id for each in driver.run(lambda: claim(wanted, worker, statements)))

        taken = [_timed_ms(once) for _ in range(claims)][_WARM_UP_CLAIMS:]
    finally:
        driver.close()
    if len(claimed) != claims * EVENTS_A_CLAIM:
        raise InvariantError(f"{claims * EVENTS_A_CLAIM} events were due, and {len(claimed)} were claimed")
    return taken


def _timed_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def _figures(taken: list[float]) -> Figures:
    percentiles = statistics.quantiles(taken, n=100, method="inclusive")
    return {"claim_p50_ms": percentiles[49], "claim_p99_ms": percentiles[98]}
