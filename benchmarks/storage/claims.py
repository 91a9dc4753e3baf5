"""Ask what a claim reads and how long it takes: in a fresh table, under an old snapshot, beside many that are done."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.figures import Figures
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench
from benchmarks.storage.drive import CLAIMED_TOGETHER, GATHERED, Driver, driving
from benchmarks.storage.layouts import Layout

#: How many processed events lie beside those that are due; set the variable to measure with more.
PROCESSED = int(os.environ.get("STORAGE_PROCESSED_EVENTS", "200000"))
SETTLED_UNDER_SNAPSHOT = 25 * GATHERED
QUICK_PART = 25
_CLAIMS = 25  # of each kind
_FIRST_HELD, _FIRST_DUE = 1_000_000_000, 2_000_000_000
_FILL = """
    INSERT INTO webhooks.inbox (provider, endpoint, environment, event_id, event_type, state, received_at, processed_at,
                                attempts, body_sha256, body_bytes)
    SELECT 'stripe', 'stripe', 'live', 'evt_' || lpad(n::text, 24, '0'), 'charge.succeeded', 'processed', at, at,
           1, sha256(int8send(n)), 3417
    FROM generate_series(1, %(rows)s) n, LATERAL (SELECT now() - (%(rows)s - n) * interval '1 second' AS at) moment
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """
    Hold what the tables have been through before the claims.

    Attributes:
        rows: Processed events that are there, vacuumed; their bodies have aged out.
        settled: Events that are worked off while somebody holds a snapshot from before them.
    """

    name: str
    title: str
    rows: int = 0
    settled: int = 0


STATES = (
    State(name="fresh", title="nothing else there"),
    State(
        name="held",
        title=f"a snapshot open while {SETTLED_UNDER_SNAPSHOT:,} were settled",
        settled=SETTLED_UNDER_SNAPSHOT,
    ),
    State(name="processed", title=f"{PROCESSED:,} processed", rows=PROCESSED),
)


@dataclass(frozen=True, slots=True)
class Explained:
    """Hold what one claim took the server, planning and commit not counted, and the pages and rows that it read."""

    ms: float
    pages: int
    rows: int


def measure(layout: Layout, state: State, bench: Bench) -> Figures:
    """Claim from the oldest event on, as a worker does now and then, and from its last claim on, as it does between."""
    part = QUICK_PART if bench.quick else 1
    fill = partial(_fill, layout=layout, rows=state.rows // part)
    template = bench.server.template(f"{layout.name}_{state.name}", fill)
    with (
        bench.server.database(template) as database,
        driving(database.dsn, layout) as driver,
        _snapshot(database) if state.settled else nullcontext(),
    ):
        driver.cycle(_FIRST_HELD, state.settled // part)
        return _figures(driver, database)


def _fill(database: Database, *, layout: Layout, rows: int) -> None:
    layout.make(database)
    database.execute(_FILL, {"rows": rows})
    database.vacuum()


@contextmanager
def _snapshot(database: Database) -> Iterator[None]:
    with psycopg.connect(database.dsn) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.execute("SELECT count(*) FROM webhooks.endpoints")
        yield


def _figures(driver: Driver, database: Database) -> Figures:
    since = int(database.value("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
    driver.record(_FIRST_DUE, 4 * GATHERED)
    pairs = [(explained(driver, 0), explained(driver, since)) for _ in range(_CLAIMS)]
    everything, narrowed = (list(each) for each in zip(*pairs, strict=True))
    return {**_medians("claim", everything), **_medians("narrowed", narrowed)}


def _medians(kind: str, claims: list[Explained]) -> Figures:
    return {
        f"{kind}_ms": statistics.median(each.ms for each in claims),
        f"{kind}_pages": statistics.median(each.pages for each in claims),
        f"{kind}_rows": statistics.median(each.rows for each in claims),
    }


def explained(driver: Driver, since: int) -> Explained:
    """Make a claim of what is due from *since* on, and give what the server says of it."""
    asked = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {driver.layout.claim}"
    with driver.session.transaction(), psycopg.ClientCursor(driver.session) as cursor:
        row = cursor.execute(asked.encode(), driver.wanted(since)).fetchone()
    found: Mapping[str, Any] = row[0][0] if row else {}
    plan = found["Plan"]
    if int(plan["Actual Rows"]) != CLAIMED_TOGETHER:
        raise InvariantError(f"{CLAIMED_TOGETHER} events were due, and {plan['Actual Rows']} were claimed")
    pages = int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    return Explained(float(found["Execution Time"]), pages, sum(map(_rows_read, _nodes(plan))))


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


def _rows_read(node: Mapping[str, Any]) -> int:
    """Count the rows that a scan of a table looked at, those it filtered away included."""
    if "Relation Name" not in node or "Scan" not in node["Node Type"]:
        return 0
    found = float(node["Actual Rows"]) + float(node.get("Rows Removed by Filter", 0))
    return round(found * float(node["Actual Loops"]))
