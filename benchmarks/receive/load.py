"""
Load one receiver on one new database, and compare its rows with its answers when it has ended.

    warm-up ──► closed loop, measured ──► open loops, one a rate ──► end ──► rows equal answers
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.events import SECRET, event_body
from benchmarks.harness.figures import Figures
from benchmarks.harness.open_loop import send_at
from benchmarks.harness.processes import Program, free_port, program, wait_until_it_answers
from benchmarks.harness.requests import Requests, write_requests
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench
from benchmarks.harness.wrk import Answers, find_wrk, send
from benchmarks.receive.receivers import Receiver

WARM_UP_SECONDS = 1.0
HEADROOM = 2.5  # a warm server is faster than one that warms up, and the machine may have been busy meanwhile
PER_SECOND_MIN = 2_000
PACED_SECONDS_MAX = 3.0
SPARE = 0.7  # a receiver is asked for at most this part of what it can do: beyond, latency measures the queue
_WARM_UP_REQUESTS = 30_000
_WARM_UP_BYTES_MAX = 256 << 20
_BYTES_MAX = 1 << 30
_MEMORY = Path("/dev/shm")  # noqa: S108 - what waits there for the disk disturbs nobody's fsync


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """
    Hold what is sent.

    Attributes:
        connections: Of the closed loop.
        body: Writes the event of a number; all of the same length.
        rates: Of the open loops, per second; those that the receiver cannot serve are left out.
    """

    connections: int = 32
    body: Callable[[int], bytes] = event_body
    rates: tuple[int, ...] = ()


class _Load:
    """Send one receiver its loads, and keep count of what was sent, answered, and under way when a load ended."""

    def __init__(self, traffic: Traffic, folder: Path, port: int) -> None:
        self._traffic = traffic
        self._file = folder / "requests"
        self._port = port
        self._next = 0
        self._answered = 0
        self._under_way = 0
        self._repeated = False

    def closed(self, count: int, seconds: float) -> Answers:
        """Send for *seconds* as fast as it answers, each of *count* requests once, if they last."""
        connections = self._traffic.connections
        answers = send(self._requests(count), self._port, connections=connections, seconds=seconds)
        if bad := answers.refused + answers.broken:
            raise InvariantError(f"{bad} of {answers.answers} requests were refused or broken")
        self._repeated |= answers.wrapped > 0
        self._answered += answers.answers
        self._under_way += connections
        return answers

    def paced(self, per_second: int, seconds: float) -> Figures:
        """Send *per_second* for *seconds*, whatever it answers."""
        paced = send_at(self._requests(int(per_second * seconds)), self._port, per_second=per_second)
        if bad := paced.refused + paced.unanswered:
            raise InvariantError(f"at {per_second}/s {bad} requests were refused or not answered")
        self._answered += paced.answers
        return {f"at_{per_second}_p50_ms": paced.p50_ms, f"at_{per_second}_p99_ms": paced.p99_ms}

    def check(self, rows: int) -> None:
        """Compare: every 200 has its row, and no row is there that was neither answered nor under way at an end."""
        if self._repeated:
            raise BenchmarkError("the prepared requests ran out, so ids repeated; raise HEADROOM")
        if not self._answered <= rows <= self._answered + self._under_way:
            raise InvariantError(
                f"{self._answered} requests were answered 200, at most {self._under_way} were under way, "
                f"and {rows} events are recorded"
            )

    def _requests(self, count: int) -> Requests:
        count = min(count, _BYTES_MAX // len(self._traffic.body(0)))
        first, self._next = self._next, self._next + count
        return write_requests(self._file, self._traffic.body, first=first, count=count)


def measure(receiver: Receiver, traffic: Traffic, bench: Bench) -> Figures:
    """
    Make one run.

    Returns:
        Rate and latencies of the closed loop; processor time and write-ahead log for each of its requests; the most
        memory that the receiver's processes held; latencies at each rate.
    """
    find_wrk()
    with bench.server.database() as database, _folder() as folder:
        receiver.prepare(database)
        port = free_port()
        load = _Load(traffic, folder, port)
        environment = {
            "DATABASE_URL": database.dsn,
            "STRIPE_WEBHOOK_SECRET": SECRET,
            **receiver.environment,
        }
        with program(receiver.command(port), environment=environment) as running:
            wait_until_it_answers(running, port)
            warm_up = min(_WARM_UP_REQUESTS, _WARM_UP_BYTES_MAX // len(traffic.body(0)))
            expected = max(load.closed(warm_up, WARM_UP_SECONDS).per_second, PER_SECOND_MIN)
            before = _costs(running, database, bench)
            answers = load.closed(int(expected * bench.seconds * HEADROOM) + 1000, bench.seconds)
            after = _costs(running, database, bench)
            figures = _closed_figures(answers) | {
                name: (after[name] - before[name]) / answers.answers for name in before
            }
            for rate in traffic.rates:
                if rate <= answers.per_second * SPARE:
                    figures |= load.paced(rate, min(bench.seconds, PACED_SECONDS_MAX))
            figures["memory_mb"] = running.memory_mb()
            running.check()
        if receiver.count is not None:
            load.check(receiver.count(database))
    return figures


def _costs(running: Program, database: Database, bench: Bench) -> dict[str, float]:
    wal_bytes = database.wal_bytes()
    cpu_us, postgres_cpu_us = running.cpu_seconds() * 1e6, bench.server.cpu_seconds() * 1e6
    return {"cpu_us": cpu_us, "postgres_cpu_us": postgres_cpu_us, "wal_bytes": wal_bytes}


def _closed_figures(answers: Answers) -> dict[str, float]:
    return {
        "per_second": answers.per_second,
        "p50_ms": answers.p50_ms,
        "p99_ms": answers.p99_ms,
        "p999_ms": answers.p999_ms,
    }


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="benchmarks-", dir=_MEMORY if _MEMORY.is_dir() else None) as made:
        yield Path(made)
