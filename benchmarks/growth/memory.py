"""Ask how much memory one process of each kind has held at most: a receiver that waits, a worker that has worked."""

from __future__ import annotations

import time

from benchmarks.growth.backlog import receive
from benchmarks.harness.environments import project_python
from benchmarks.harness.errors import BenchmarkError
from benchmarks.harness.figures import Figures
from benchmarks.harness.ours import migrate
from benchmarks.harness.processes import free_port, program, wait_until_it_answers
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench
from benchmarks.process.business import TABLES

EVENTS, QUICK_EVENTS = 5_000, 200
SECONDS_MAX = 120.0
_POLL_SECONDS = 0.2
_APP = "benchmarks.process.peers.ours:inbox"
_COMMAND = ("-m", "webhook_inbox")


def measure(bench: Bench) -> Figures:
    """Make one run."""
    with bench.server.database() as database:
        migrate(database)
        database.execute(TABLES)
        count = QUICK_EVENTS if bench.quick else EVENTS
        receive(database.dsn, first=0, count=count)
        return {"receiver_mb": _receiver_mb(database), "worker_mb": _worker_mb(database, count)}


def _receiver_mb(database: Database) -> float:
    port = free_port()
    command = [str(project_python()), *_COMMAND, "serve", _APP, "--port", str(port), "--log-level", "error"]
    with program(command, environment={"DATABASE_URL": database.dsn}) as running:
        wait_until_it_answers(running, port)
        return running.memory_mb()


def _worker_mb(database: Database, count: int) -> float:
    command = [str(project_python()), *_COMMAND, "worker", _APP, "--log-level", "error"]
    deadline = time.monotonic() + SECONDS_MAX
    with program(command, environment={"DATABASE_URL": database.dsn}) as running:
        while database.value("SELECT count(*) FROM ledger") < count:
            running.check()
            if time.monotonic() > deadline:
                raise BenchmarkError(f"the worker did not work {count} events off: {running.said()}")
            time.sleep(_POLL_SECONDS)
        return running.memory_mb()
