"""Measure receivers: closed loop, 32 connections, 3 KB events, each with an id of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.events import SECRET
from benchmarks.harness.figures import Figures
from benchmarks.harness.processes import Program, free_port, program, wait_until_it_answers
from benchmarks.harness.requests import write_requests
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench, Subject, Suite
from benchmarks.harness.wrk import Answers, find_wrk, send
from benchmarks.receive.receivers import RECEIVERS, Receiver

CONNECTIONS = 32
WARM_UP_SECONDS = 1.0
WARM_UP_REQUESTS = 30_000
HEADROOM = 1.6  # a warm server is faster than one that warms up
_MEMORY = Path("/dev/shm")  # noqa: S108 - a temporary folder of our own in it: what waits there for the disk disturbs nobody's fsync


def measure(receiver: Receiver, bench: Bench) -> Figures:
    """Warm *receiver* up, load it, end it, and compare its rows with its answers."""
    find_wrk()
    with bench.server.database() as database, _folder() as folder:
        receiver.prepare(database)
        port = free_port()
        environment = {"DATABASE_URL": database.dsn, "STRIPE_WEBHOOK_SECRET": SECRET}
        with program(receiver.command(port), environment=environment) as running:
            wait_until_it_answers(running, port)
            warm_up = _load(folder, port, first=0, count=WARM_UP_REQUESTS, seconds=WARM_UP_SECONDS)
            count = int(warm_up.per_second * bench.seconds * HEADROOM) + 1000
            requests = write_requests(folder / "requests", first=WARM_UP_REQUESTS, count=count)
            before = _costs(bench, running, database)
            answers = send(requests, port, connections=CONNECTIONS, seconds=bench.seconds)
            after = _costs(bench, running, database)
            memory_mb = running.memory_mb()
            running.check()
        _check(receiver, database, warm_up, answers)
    spent = {name: (after[name] - before[name]) / answers.answers for name in before}
    return _figures(answers, spent, memory_mb)


def _load(folder: Path, port: int, *, first: int, count: int, seconds: float) -> Answers:
    requests = write_requests(folder / "requests", first=first, count=count)
    return send(requests, port, connections=CONNECTIONS, seconds=seconds)


def _costs(bench: Bench, running: Program, database: Database) -> dict[str, float]:
    return {
        "cpu_us": running.cpu_seconds() * 1e6,
        "postgres_cpu_us": bench.server.cpu_seconds() * 1e6,
        "wal_bytes": database.wal_bytes(),
    }


def _figures(answers: Answers, spent: dict[str, float], memory_mb: float) -> Figures:
    return {
        "per_second": answers.per_second,
        "p50_ms": answers.p50_ms,
        "p99_ms": answers.p99_ms,
        "p999_ms": answers.p999_ms,
        "max_ms": answers.max_ms,
        **spent,
        "memory_mb": memory_mb,
    }


def _check(receiver: Receiver, database: Database, *loads: Answers) -> None:
    """Compare: every 200 has its row, and no row is there that was neither answered nor under way at the end."""
    bad = sum(each.refused + each.broken for each in loads)
    if bad:
        raise InvariantError(f"{bad} requests were refused or broken")
    if receiver.count is None:
        return
    if any(each.wrapped for each in loads):
        raise InvariantError("the prepared requests ran out, so ids repeat; raise HEADROOM")
    answered = sum(each.answers for each in loads)
    rows = receiver.count(database)
    if not answered <= rows <= answered + CONNECTIONS * len(loads):
        raise InvariantError(f"{answered} requests were answered 200 and {rows} events are recorded")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="benchmarks-", dir=_MEMORY if _MEMORY.is_dir() else None) as made:
        yield Path(made)


SUITE = Suite(
    name="receive",
    about="HTTP to commit: 3 KB Stripe events, 32 connections in a closed loop, one process where nothing else is said",
    subjects=tuple(
        Subject(
            name=each.name,
            group=each.group,
            title=each.title,
            setting=each.setting,
            measure=partial(measure, each),
        )
        for each in RECEIVERS
    ),
    reference="http_limit",
    seconds=5.0,
)
