"""
Stop workers past their lease, starve them, poison them, and find every effect once.

The lease is short here (a second or two), so everything waits on files, rows and signals, never on guessed times.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.faults.invariants import one_row, until
from tests.faults.sender import Letter
from tests.faults.server import Server
from tests.faults.worker_app import KINDS
from tests.faults.worker_bench import WorkerBench

LEASE: dict[str, float] = {"lease_seconds": 1.0, "poll_seconds": 0.1}


def state_of(bench: WorkerBench, letter: Letter) -> tuple[str, int, int, int]:
    """State, attempts, claims and crashes of the event of *letter*."""
    row = one_row(
        bench.connection,
        "SELECT state, attempts, claims, crashes FROM webhooks.inbox WHERE event_id = %s",
        letter.event,
    )
    return (row[0], row[1], row[2], row[3])


def delivered(
    bench: WorkerBench, event_id: str, event_type: str, state: str = "processed", **data: object
) -> Letter:
    """Record one event on the first endpoint, and expect it to end in *state*."""
    letter = bench.letter(bench.endpoints[0], event_id, event_type, **data)
    bench.receive(letter)
    bench.expect(letter, state)
    return letter


def logged(bench: WorkerBench, server: Server, *texts: str) -> Callable[[], bool]:
    """Whether the worker has logged one of *texts*."""
    pid = server.pid
    assert pid is not None
    return lambda: any(text in bench.log_of(pid) for text in texts)


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_stopped_inside_the_transaction_past_its_lease_cannot_commit(
    kind: str, workers: WorkerBench
) -> None:
    """SIGSTOP in the handler, a second worker takes over, SIGCONT: one effect, two attempts, a log line (P-FENCE)."""
    bench = workers.on(f"one-{kind}", handler_seconds_max=1.0, stop_seconds_max=3.0, **LEASE)
    letter = delivered(bench, "evt_stopped", "test.wait_once")
    with bench.workers(2, drain=False) as (first, second):
        stopped, other = _stopped_when(bench, letter, first, second)
        until(lambda: state_of(bench, letter)[0] == "processed", "the other worker took over", 20)
        assert state_of(bench, letter) == ("processed", 2, 2, 1)
        said = logged(bench, stopped, '"evt_stopped"', "are given back")
        assert not said()
        bench.go(letter)
        assert stopped.pid is not None
        os.kill(stopped.pid, signal.SIGCONT)
        until(said, "the first worker says what became of its run", 20)
        assert logged(bench, other, 'on event "evt_stopped" expired')()
        assert (stopped.stop().status, other.stop().status) == (0, 0)
    assert state_of(bench, letter) == ("processed", 2, 2, 1)
    assert [run["attempt"] for run in bench.journal()] == [1, 2]
    bench.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_stopped_between_claim_and_process_past_its_lease_runs_nothing(
    kind: str, workers: WorkerBench
) -> None:
    """SIGSTOP after the claim's commit, SIGCONT after the take-over: its handler does not even begin (P-FENCE)."""
    bench = workers.on(f"one-{kind}", stop_seconds_max=3.0, **LEASE)
    letter = delivered(bench, "evt_between", "test.paid")
    first, second = bench.nursery.servers[:2]
    try:
        first.start(bench.setup(0, drain=False, hold_at="process.begin.before#1"))
        bench.await_file("witness-0.held")
        assert first.pid is not None
        os.kill(first.pid, signal.SIGSTOP)
        second.start(bench.setup(1, drain=False))
        until(lambda: state_of(bench, letter)[0] == "processed", "the second worker took over", 20)
        (bench.room / "witness-0.go").touch()
        os.kill(first.pid, signal.SIGCONT)
        lost = logged(bench, first, 'lost the claim on event "evt_between" (token 1)')
        until(lost, "the first worker says that it lost the claim", 20)
        assert (first.stop().status, second.stop().status) == (0, 0)
    finally:
        first.close()
        second.close()
    assert state_of(bench, letter) == ("processed", 2, 2, 1)
    assert [run["attempt"] for run in bench.journal()] == [2]
    bench.check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_that_outlives_the_lease_keeps_it_by_the_heartbeat(kind: str, workers: WorkerBench) -> None:
    """A handler that blocks for three leases, the event loop included, is not taken over: one run (P-FENCE)."""
    bench = workers.on(f"one-{kind}", stop_seconds_max=3.0, **LEASE)
    letter = delivered(bench, "evt_long", "test.block", seconds=3.5)
    with bench.workers(2, drain=False) as servers:
        bench.started(letter)
        until(lambda: state_of(bench, letter)[0] == "processed", "the long handler is done", 20)
        for server in servers:
            assert server.stop().status == 0
    assert state_of(bench, letter) == ("processed", 1, 1, 0)
    bench.check()


@pytest.mark.parametrize(("kind", "crashes_max"), [("sync", 3), ("async", 3), ("async", 2)])
def test_an_event_that_kills_its_process_is_counted_runs_alone_and_dies(
    kind: str, crashes_max: int, workers: WorkerBench
) -> None:
    """``os._exit`` in a handler: so many workers die, it is dead, its mates are applied once (P-COUNT, P-FLOW)."""
    bench = workers.on(f"batch-{kind}", stop_seconds_max=3.0, crashes_max=crashes_max, **LEASE)
    mates = [delivered(bench, f"evt_mate_{number}", "test.paid") for number in range(3)]
    poison = delivered(bench, "evt_poison", "test.exit", "dead")
    mates += [delivered(bench, f"evt_mate_{number}", "test.paid") for number in range(3, 6)]
    server = bench.nursery.servers[0]
    deaths = 0
    deadline = time.monotonic() + 60
    while bench.unsettled():
        assert time.monotonic() < deadline, f"{deaths} deaths, {bench.unsettled()} unsettled"
        bench.expire()
        _, death = bench.worker(0)
        assert (death.signal, death.status) in {(0, 3), (0, 0)}, bench.log_of(death.pid)
        deaths += death.status == 3
    assert server.pid is None
    state, attempts, _, crashes = state_of(bench, poison)
    assert (state, attempts, crashes, deaths) == ("dead", crashes_max, crashes_max, crashes_max)
    assert all(state_of(bench, mate)[0] == "processed" for mate in mates)
    # Its mates are suspects once, with the batch that died; from then on each runs alone, and only it is blamed.
    assert {run["attempt"] for run in bench.journal() if run["event"] == "evt_poison"} == {
        *range(1, crashes_max + 1)
    }
    assert max(state_of(bench, mate)[3] for mate in mates) == 1
    bench.check(again_in_one_claim=True)


def test_the_name_of_a_dead_worker_vouches_for_nobody(workers: WorkerBench) -> None:
    """A worker that comes back under the dead one's name holds nothing of what that held; no registry row is needed."""
    bench = workers.on("one-async", stop_seconds_max=3.0, **LEASE)
    letters = [delivered(bench, f"evt_{number}", "test.paid") for number in range(2)]
    for letter in letters:
        bench.worker(0, die_at="process.begin.before#1")
        assert state_of(bench, letter)[0] == "leased"
    bench.connection.execute("UPDATE webhooks.workers SET name = 'w-0'")
    bench.connection.execute("DELETE FROM webhooks.workers WHERE id = (SELECT min(id) FROM webhooks.workers)")
    bench.connection.execute("UPDATE webhooks.workers SET lease_ends_at = now() - interval '1 s'")
    bench.connection.execute(
        "INSERT INTO webhooks.workers (name, lease_ends_at) VALUES ('w-0', now() + interval '1 hour')"
    )
    bench.drained()
    assert [state_of(bench, letter)[:2] for letter in letters] == [("processed", 2)] * 2
    bench.check()


@pytest.mark.parametrize(("event_type", "state"), [("test.give_up", "dead"), ("test.fail", "retrying")])
def test_one_event_that_always_fails_among_a_thousand_stops_nobody(
    event_type: str, state: str, workers: WorkerBench, record_property: Callable[[str, object], None]
) -> None:
    """Two workers: 999 are applied once each within seconds, beside one that fails again and again (P-FLOW)."""
    bench = workers.on("one-async", backoff_seconds_max=0.05, poll_seconds=0.1, stop_seconds_max=3.0)
    for number in range(1000):
        bad = number == 500
        kind, ends = (event_type, state) if bad else ("test.paid", "processed")
        delivered(bench, f"evt_{number}", kind, ends)
    processed = "SELECT count(*) FROM webhooks.inbox WHERE state = 'processed'"
    began = time.monotonic()
    with bench.workers(2, drain=False) as servers:
        until(lambda: one_row(bench.connection, processed) == (999,), "999 are processed", 60)
        record_property("seconds", round(time.monotonic() - began, 1))
        until(
            lambda: state_of(bench, Letter("evt_500", "", b""))[1] >= (1 if state == "dead" else 3),
            "it failed",
        )
        for server in servers:
            assert server.stop().status == 0
    bench.check(again_in_one_claim=True)
    assert len({run["pid"] for run in bench.journal()}) == 2


def _stopped_when(bench: WorkerBench, letter: Letter, *servers: Server) -> tuple[Server, Server]:
    """Stop the worker that runs *letter*, inside its transaction; give it and the other one."""
    bench.started(letter)
    pid = bench.journal()[0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    first, second = servers
    return (first, second) if first.pid == pid else (second, first)
