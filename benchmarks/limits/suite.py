"""Let pgbench do what a receiver and a worker have PostgreSQL do, on our own tables."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.events import event_body
from benchmarks.harness.figures import Figures
from benchmarks.harness.ours import migrate
from benchmarks.harness.processes import run
from benchmarks.harness.server import Database, Server
from benchmarks.harness.suite import Bench, Subject, Suite
from benchmarks.process.business import TABLES

QUICK_PART = 10
_HERE = Path(__file__).parent
_RATE = re.compile(r"^tps = ([\d.]+) \(without", re.MULTILINE)
_SECONDS_MAX = 120.0
_FILL = """
    INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes)
    SELECT 'stripe', 'stripe', 'evt_' || lpad(n::text, 24, '0'), 'charge.succeeded', 'waiting', '\\x00',
           length(%(body)s)
    FROM generate_series(1, %(count)s) n;
"""
_FILL_BODIES = """
    INSERT INTO webhooks.bodies (received_at, id, body, headers)
    SELECT received_at, id, %(body)s, '{}' FROM webhooks.inbox
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """
    Hold one script and how it is driven.

    Attributes:
        script: The file's name without ``.sql``.
        rows: Events a commit.
        events: What one run comes to; a backlog of as many is made beforehand where the script works one off.
    """

    name: str
    title: str
    script: str
    clients: int
    rows: int
    events: int

    @property
    def processes(self) -> bool:
        """Say whether the script works a backlog off."""
        return self.script.startswith("process")


LIMITS = (
    Limit(
        name="insert_1",
        title="record, 1 row a commit, 1 client",
        script="insert",
        clients=1,
        rows=1,
        events=10_000,
    ),
    Limit(
        name="insert_8",
        title="record, 1 row a commit, 8 clients",
        script="insert",
        clients=8,
        rows=1,
        events=40_000,
    ),
    Limit(
        name="insert_32",
        title="record, 1 row a commit, 32 clients",
        script="insert",
        clients=32,
        rows=1,
        events=64_000,
    ),
    Limit(
        name="insert_50_rows",
        title="record, 50 rows a commit, 1 client",
        script="insert_many",
        clients=1,
        rows=50,
        events=100_000,
    ),
    Limit(
        name="process_1",
        title="process, 1 event a commit, 1 client",
        script="process",
        clients=1,
        rows=1,
        events=8_000,
    ),
    Limit(
        name="process_8",
        title="process, 1 event a commit, 8 clients",
        script="process",
        clients=8,
        rows=1,
        events=16_000,
    ),
    Limit(
        name="process_100_rows",
        title="process, 100 events a commit as sets, 1 client",
        script="process_many",
        clients=1,
        rows=100,
        events=50_000,
    ),
)


def measure(limit: Limit, bench: Bench) -> Figures:
    """Make one run, and compare what is in the tables with what pgbench was asked to do."""
    events = limit.events // QUICK_PART if bench.quick else limit.events
    with bench.server.database() as database:
        migrate(database)
        database.execute(TABLES)
        database.execute("CREATE SEQUENCE event_numbers CACHE 100")
        if limit.processes:
            _fill(database, events)
        before = _costs(bench, database)
        per_second = _run(limit, bench.server, database, events) * limit.rows
        spent = {name: (value - before[name]) / events for name, value in _costs(bench, database).items()}
        _check(limit, database, events)
    return {"per_second": per_second, **spent}


def _fill(database: Database, events: int) -> None:
    database.execute(_FILL, {"body": event_body(0), "count": events})
    database.execute(_FILL_BODIES, {"body": event_body(0)})
    database.vacuum()


def _run(limit: Limit, server: Server, database: Database, events: int) -> float:
    """Give the transactions per second."""
    command = [
        _pgbench(server), "--no-vacuum", "--protocol=prepared", f"--client={limit.clients}",
        f"--transactions={events // limit.rows // limit.clients}", f"--file={_HERE / limit.script}.sql",
        f"--define=rows={limit.rows}", f"--define=body={event_body(0).decode()}", database.dsn,
    ]  # fmt: skip
    said = run(command, environment={}, seconds_max=_SECONDS_MAX)
    if (rate := _RATE.search(said)) is None:
        raise BenchmarkError(f"pgbench gave no rate: {said[-500:]}")
    return float(rate[1])


def _pgbench(server: Server) -> str:
    beside = server.programs / "pgbench"
    if found := str(beside) if beside.exists() else shutil.which("pgbench"):
        return found
    raise BenchmarkError(
        "the database's limits are pgbench's, and it is not installed; on Debian: postgresql-contrib"
    )


def _costs(bench: Bench, database: Database) -> dict[str, float]:
    return {"postgres_cpu_us": bench.server.cpu_seconds() * 1e6, "wal_bytes": database.wal_bytes()}


def _check(limit: Limit, database: Database, events: int) -> None:
    query = (
        "SELECT count(*) FROM webhooks.inbox JOIN webhooks.bodies USING (received_at, id) WHERE state = '%s'"
    )
    recorded = database.value(query % ("processed" if limit.processes else "waiting"))
    effects = database.value("SELECT count(DISTINCT event_id) FROM ledger")
    if recorded != events or effects != (events if limit.processes else 0):
        raise InvariantError(f"{events} were asked for; {recorded} are recorded, with {effects} effects")


SUITE = Suite(
    name="limits",
    about="what pgbench makes of the same tables and statements: events per second",
    subjects=tuple(
        Subject(
            name=each.name,
            group="limits",
            title=each.title,
            setting=f"`limits/{each.script}.sql`, {each.events:,} events",
            measure=partial(measure, each),
        )
        for each in LIMITS
    ),
    reference="insert_32",
    seconds=0.0,
)
