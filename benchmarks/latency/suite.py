"""
Send one event at a time, and look until its effect is committed.

The unit is one commit: how long one client, alone, takes to insert a row and commit it on the same server. An effect
is seen by whoever asks for it again and again, so a latency is too long by at most one such question and the rest
before it, never too short. Who asked without rest would take the processors that receiver, worker and server need.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import psycopg

from benchmarks.harness.environments import project_python
from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.events import event_body
from benchmarks.harness.figures import Figures
from benchmarks.harness.open_loop import Connection
from benchmarks.harness.ours import migrate
from benchmarks.harness.processes import Program, free_port, program, wait_until_it_answers
from benchmarks.harness.requests import request
from benchmarks.harness.suite import Bench, Subject, Suite
from benchmarks.process.business import TABLES

EVENTS, QUICK_EVENTS = 300, 50
WARM_UP_EVENTS = 20
PAUSE_SECONDS = (0.03, 0.12)  # longer than any effect takes: the worker has gone back to waiting
REST_SECONDS = 0.0002
EFFECT_SECONDS_MAX = 10.0
_APP = "benchmarks.process.peers.ours:inbox"
_OPTIONS = ("--log-level", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """
    Hold one way to run receiver and worker.

    Attributes:
        serve: The receiver's command line behind ``webhook-inbox``, but for the port.
        worker: The worker's, where it is a program of its own.
    """

    name: str
    title: str
    serve: tuple[str, ...]
    worker: tuple[str, ...] = ()


WAYS = (
    Way(
        name="apart",
        title="receiver and worker in two processes",
        serve=("serve", _APP, *_OPTIONS),
        worker=("worker", _APP, *_OPTIONS),
    ),
    Way(
        name="together",
        title="receiver and worker in one process",
        serve=("serve", _APP, "--with-worker", *_OPTIONS),
    ),
)


def measure(way: Way, bench: Bench) -> Figures:
    """Make one run, and compare effects with answers."""
    count = QUICK_EVENTS if bench.quick else EVENTS
    with bench.server.database() as database, ExitStack() as held:
        migrate(database)
        database.execute(TABLES)
        port = free_port()

        def start(arguments: tuple[str, ...]) -> Program:
            command = [str(project_python()), "-m", "webhook_inbox", *arguments]
            return held.enter_context(program(command, environment={"DATABASE_URL": database.dsn}))

        running = start((*way.serve, "--port", str(port)))
        if way.worker:
            start(way.worker)
        wait_until_it_answers(running, port)
        conn = held.enter_context(psycopg.connect(database.dsn, autocommit=True))
        sender = Connection(port)
        held.callback(sender.close)
        measured = [_one(sender, number, conn) for number in range(WARM_UP_EVENTS + count)]
        commit_ms = _commit_ms(conn, count)
        effects = database.value("SELECT count(DISTINCT event_id) FROM ledger")
        if effects != len(measured):
            raise InvariantError(f"{len(measured)} events were answered 200, and {effects} have their effect")
    return _figures(measured[WARM_UP_EVENTS:], commit_ms)


def _one(sender: Connection, number: int, conn: psycopg.Connection[tuple[int]]) -> float:
    """Deliver one event; give the milliseconds from its 200 until its effect is there for others to see."""
    time.sleep(random.uniform(*PAUSE_SECONDS))  # noqa: S311 - chance keeps us out of step with the worker's own clock
    sender.ask(request(event_body(number), int(time.time())), 0.0)
    if (status := sender.wait()) != 200:  # noqa: PLR2004 - the answer that means recorded
        raise BenchmarkError(f"event {number} was answered {status}")
    answered_at = time.perf_counter()
    while True:
        row = conn.execute("SELECT count(*) FROM ledger", prepare=True).fetchone()
        now = time.perf_counter()
        if row is not None and row[0] > number:
            return (now - answered_at) * 1e3
        if now - answered_at > EFFECT_SECONDS_MAX:
            raise BenchmarkError(f"event {number} had no effect within {EFFECT_SECONDS_MAX:g} s")
        time.sleep(REST_SECONDS)


def _commit_ms(conn: psycopg.Connection[tuple[int]], count: int) -> float:
    """Give the median milliseconds that one client's insert and commit take."""
    conn.execute("CREATE TABLE probe (number integer)")
    return statistics.median(
        _timed_ms(partial(conn.execute, "INSERT INTO probe VALUES (%s)", (number,)))
        for number in range(count)
    )


def _timed_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def _figures(latencies: list[float], commit_ms: float) -> Figures:
    percentiles = statistics.quantiles(latencies, n=100, method="inclusive")
    p50, p99 = percentiles[49], percentiles[98]
    return {
        "p50_commits": p50 / commit_ms,
        "p99_commits": p99 / commit_ms,
        "p50_ms": p50,
        "p99_ms": p99,
        "max_ms": max(latencies),
        "commit_ms": commit_ms,
    }


SUITE = Suite(
    name="latency",
    about="from the 200 to the effect, one event at a time, in commits of the same server: less is better",
    subjects=tuple(
        Subject(
            name=each.name,
            group="ours",
            title=each.title,
            setting="webhook-inbox serve and worker with their defaults, async handler of three statements",
            measure=partial(measure, each),
            headline="p50_commits",
        )
        for each in WAYS
    ),
    reference="apart",
    seconds=0.0,
)
