"""
Tell a worker to stop, whatever its handlers and its database are doing: it ends in time, and no attempt is burned.

The limits are those of ``stop_seconds_max``; what a busy machine may add is ``SLACK_SECONDS``.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.faults.invariants import one_row, until
from tests.faults.server import Death, Server
from tests.faults.test_worker_leases import delivered, state_of
from tests.faults.worker_app import KINDS
from tests.faults.worker_bench import WorkerBench
from webhook_inbox.embedded import EmbeddedPostgres

STOP_SECONDS_MAX = 2.0
SLACK_SECONDS = 4.0


def stopped(server: Server) -> tuple[Death, float]:
    """Tell *server* to stop; give how it ended and how long that took."""
    began = time.monotonic()
    death = server.stop()
    return death, time.monotonic() - began


def in_order(death: Death, seconds: float) -> bool:
    """Whether a worker ended by itself, within its limit."""
    return (death.signal, death.status) == (0, 0) and seconds < STOP_SECONDS_MAX + SLACK_SECONDS


@contextmanager
def silent(cluster: EmbeddedPostgres) -> Iterator[None]:
    """Stop every process of the server, so that it accepts connections and never answers."""
    pids = cluster.processes()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_that_is_told_to_stop_finishes_what_runs_and_gives_back_the_rest(
    kind: str, workers: WorkerBench
) -> None:
    """What is under way commits, what is not begun is given back at once: no attempt is burned (P-COUNT)."""
    bench = workers.on(
        f"one-{kind}", concurrency_max=1, batch_events_max=4, poll_seconds=0.1, stop_seconds_max=10.0
    )
    letters = [delivered(bench, f"evt_{n}", "test.pause_once", seconds=0.5) for n in range(8)]
    with bench.workers(drain=False) as (server,):
        bench.started(letters[0])
        death, seconds = stopped(server)
        assert (death.signal, death.status) == (0, 0)
        assert seconds < 8 * 0.5 + SLACK_SECONDS
    states = [state_of(bench, letter)[:2] for letter in letters]
    assert set(states) == {("processed", 1), ("waiting", 0)}
    assert one_row(bench.connection, "SELECT count(*) FROM webhooks.workers WHERE NOT stopped") == (0,)
    bench.drained()
    assert {state_of(bench, letter)[:2] for letter in letters} == {("processed", 1)}
    bench.check(again_in_one_claim=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_that_outlasts_the_grace_is_left_and_costs_no_attempt(
    kind: str, workers: WorkerBench
) -> None:
    """The worker ends in time; the next one runs the event as its first attempt, with no death on it (P-COUNT)."""
    bench = workers.on(f"one-{kind}", poll_seconds=0.1, stop_seconds_max=STOP_SECONDS_MAX)
    letter = delivered(bench, "evt_slow", "test.pause_once", seconds=60)
    with bench.workers(drain=False) as (server,):
        bench.started(letter)
        assert in_order(*stopped(server))
    until(lambda: _taken_up(bench, "evt_slow"), "the next worker takes it up, no lease awaited", 10)
    state, attempts, claims, crashes = state_of(bench, letter)
    assert (state, attempts, claims, crashes) == ("processed", 1, 2, 0)
    bench.check()


def test_a_second_signal_ends_a_worker_whose_loop_is_blocked_at_once(workers: WorkerBench) -> None:
    """The first SIGTERM finds a handler that blocks the loop, the second ends the process: taken back, one effect."""
    bench = workers.on("one-async", poll_seconds=0.1, stop_seconds_max=60.0)
    letter = delivered(bench, "evt_blocks", "test.wait_once")
    with bench.workers(drain=False) as (server,):
        bench.started(letter)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGTERM)
        began = time.monotonic()
        while server.heard.empty():  # signals that come at once are one
            assert time.monotonic() - began < SLACK_SECONDS
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGTERM)
            time.sleep(0.05)
        death = server.death()
        assert (death.signal, death.status) == (0, 128 + signal.SIGTERM)
    bench.work_off()
    assert state_of(bench, letter) == ("processed", 2, 2, 1)
    bench.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_that_never_answers_does_not_keep_a_worker_that_runs(
    kind: str, workers_apart: WorkerBench, cluster: EmbeddedPostgres
) -> None:
    """SIGTERM in the middle of a handler's statements, the server frozen: the process ends in time (F05)."""
    bench = workers_apart.on(f"one-{kind}", poll_seconds=0.1, stop_seconds_max=STOP_SECONDS_MAX)
    letter = delivered(bench, "evt_frozen", "test.pause_once", seconds=0.5)
    with bench.workers(drain=False) as (server,):
        bench.started(letter)
        with silent(cluster):
            assert in_order(*stopped(server))
    bench.work_off()
    assert state_of(bench, letter)[0] == "processed"
    bench.check()


def test_a_database_that_never_answers_does_not_keep_an_idle_worker(
    workers_apart: WorkerBench, cluster: EmbeddedPostgres
) -> None:
    """SIGTERM while the worker looks for work on a frozen server: the process ends in time (F05, C38)."""
    bench = workers_apart.on("one-async", poll_seconds=0.1, stop_seconds_max=STOP_SECONDS_MAX)
    with bench.workers(drain=False) as (server,):
        at_work = "SELECT count(*) FROM webhooks.workers"
        until(lambda: one_row(bench.connection, at_work) == (1,), "it is at work", 20)
        with silent(cluster):
            assert in_order(*stopped(server))


def _taken_up(bench: WorkerBench, event_id: str) -> bool:
    bench.drained()
    row = one_row(bench.connection, "SELECT state FROM webhooks.inbox WHERE event_id = %s", event_id)
    return bool(row == ("processed",))
