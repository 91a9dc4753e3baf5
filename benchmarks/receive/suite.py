"""
Measure receivers: 3 KB events, each with an id of its own, first as fast as they answer, then at rates of our own.

One run is one receiver on one new database: warm-up, closed loop, open loops, end, and then its rows are compared with
its answers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.events import SECRET
from benchmarks.harness.figures import Figures
from benchmarks.harness.open_loop import send_at
from benchmarks.harness.processes import free_port, program, wait_until_it_answers
from benchmarks.harness.requests import Requests, write_requests
from benchmarks.harness.suite import Bench, Subject, Suite
from benchmarks.harness.wrk import Answers, find_wrk, send
from benchmarks.receive.receivers import RECEIVERS, Receiver

CONNECTIONS = 32
WARM_UP_SECONDS = 1.0
WARM_UP_REQUESTS = 30_000
HEADROOM = 1.6  # a warm server is faster than one that warms up
RATES = (300, 2_000)  # the first is within everybody's reach
SPARE = 0.7  # a receiver is asked for at most this part of what it can do: beyond, latency measures the queue
_MEMORY = Path("/dev/shm")  # noqa: S108 - what waits there for the disk disturbs nobody's fsync


class _Load:
    """Send one receiver its loads, and keep count of what was sent, answered, and under way when a load ended."""

    def __init__(self, folder: Path, port: int) -> None:
        self._file = folder / "requests"
        self._port = port
        self._next = 0
        self.answered = 0
        self.under_way = 0

    def closed(self, count: int, seconds: float, *, may_repeat: bool) -> Answers:
        """Send for *seconds* as fast as it answers, at most *count* requests."""
        answers = send(self._requests(count), self._port, connections=CONNECTIONS, seconds=seconds)
        if bad := answers.refused + answers.broken:
            raise InvariantError(f"{bad} of {answers.answers} requests were refused or broken")
        if answers.wrapped and not may_repeat:
            raise BenchmarkError("the prepared requests ran out, so ids repeat; raise HEADROOM")
        self.answered += answers.answers
        self.under_way += CONNECTIONS
        return answers

    def paced(self, per_second: int, seconds: float) -> Figures:
        """Send *per_second* for *seconds*, whatever it answers."""
        paced = send_at(self._requests(int(per_second * seconds)), self._port, per_second=per_second)
        if paced.refused or paced.unanswered:
            raise InvariantError(
                f"at {per_second}/s {paced.refused} were refused, {paced.unanswered} not answered"
            )
        self.answered += paced.answers
        return {f"at_{per_second}_p50_ms": paced.p50_ms, f"at_{per_second}_p99_ms": paced.p99_ms}

    def _requests(self, count: int) -> Requests:
        first, self._next = self._next, self._next + count
        return write_requests(self._file, first=first, count=count)


def measure(receiver: Receiver, bench: Bench) -> Figures:
    """Make one run of *receiver*."""
    find_wrk()
    with bench.server.database() as database, _folder() as folder:
        receiver.prepare(database)
        port = free_port()
        environment = {"DATABASE_URL": database.dsn, "STRIPE_WEBHOOK_SECRET": SECRET}
        may_repeat = receiver.count is None
        with program(receiver.command(port), environment=environment) as running:
            wait_until_it_answers(running, port)
            load = _Load(folder, port)
            expected = load.closed(WARM_UP_REQUESTS, WARM_UP_SECONDS, may_repeat=may_repeat).per_second

            def costs() -> dict[str, float]:
                cpu, postgres_cpu = running.cpu_seconds() * 1e6, bench.server.cpu_seconds() * 1e6
                return {"cpu_us": cpu, "postgres_cpu_us": postgres_cpu, "wal_bytes": database.wal_bytes()}

            count = int(expected * bench.seconds * HEADROOM) + 1000
            before = costs()
            answers = load.closed(count, bench.seconds, may_repeat=may_repeat)
            spent = {name: (value - before[name]) / answers.answers for name, value in costs().items()}
            rates = [rate for rate in RATES if rate <= answers.per_second * SPARE]
            paced = [load.paced(rate, bench.seconds) for rate in rates]
            memory_mb = running.memory_mb()
            running.check()
        if receiver.count is not None:
            _check(load, receiver.count(database))
    figures = {name: getattr(answers, name) for name in ("per_second", "p50_ms", "p99_ms", "p999_ms")}
    return (
        figures
        | spent
        | {"memory_mb": memory_mb}
        | {name: value for each in paced for name, value in each.items()}
    )


def _check(load: _Load, rows: int) -> None:
    """Compare: every 200 has its row, and no row is there that was neither answered nor under way at the end."""
    if not load.answered <= rows <= load.answered + load.under_way:
        raise InvariantError(
            f"{load.answered} requests were answered 200, at most {load.under_way} were under way, "
            f"and {rows} events are recorded"
        )


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="benchmarks-", dir=_MEMORY if _MEMORY.is_dir() else None) as made:
        yield Path(made)


SUITE = Suite(
    name="receive",
    about="HTTP to commit: 3 KB Stripe events, 32 connections in a closed loop, one process unless named otherwise",
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
