"""Copies of one event at once: one effect, whoever comes first, and nobody else waits (P-DUP, P-ONCE, P-FLOW)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest

from tests.fixtures.programs import eventually
from tests.fixtures.receiving import Bench, books, plain_hmac, stripe_event
from tests.integration.conftest import OpenBench
from webhook_inbox import Inbox, Outcome, Receipt

Steps: TypeAlias = Generator[Any, Any, None]
COPIES = 8
SECONDS_MAX = 30.0


class Gate:
    """A handler that books its event and then stands at a gate, where a test says how it goes on."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.arrived = threading.Semaphore(0)
        self._open = threading.Event()
        self.fail = False

    def passes(self, tx: Any, event: Any) -> Steps:
        """Book; then wait for the gate, and fail where the test says so."""
        yield from books(tx, event)
        fail = self.fail  # those that come later may be told otherwise
        self.arrived.release()
        opened = yield asyncio.to_thread(self._wait) if self._bench.way == "loop" else self._wait()
        assert opened
        if fail:
            raise ValueError("told to fail")

    def _wait(self) -> bool:
        return self._open.wait(SECONDS_MAX)

    def await_arrival(self) -> None:
        """Wait until one more handler stands at the gate."""
        assert self.arrived.acquire(timeout=SECONDS_MAX)

    def open(self) -> None:
        """Let everybody through, from now on."""
        self._open.set()


@contextmanager
def senders(bench: Bench, gate: Gate | None = None) -> Iterator[Callable[..., Future[Receipt]]]:
    """Deliver from many threads at once; whatever happens, the gate is opened in the end."""
    with ThreadPoolExecutor(2 * COPIES) as threads:
        try:
            yield lambda *arguments, **more: threads.submit(bench.deliver, *arguments, **more)
        finally:
            if gate is not None:
                gate.open()


def outcomes(sent: list[Future[Receipt]]) -> Counter[Outcome]:
    """What became of every delivery."""
    return Counter(future.result(SECONDS_MAX).outcome for future in sent)


def test_of_eight_copies_at_once_one_is_processed(bench: Bench) -> None:
    """P-DUP: 1 processed, 7 duplicates of a processed event, one effect, one message, one record."""
    bench.on(bench.endpoint(), do=books)
    barrier = threading.Barrier(COPIES)

    def deliver() -> Receipt:
        barrier.wait(SECONDS_MAX)
        return bench.deliver("evt_1")

    with ThreadPoolExecutor(COPIES) as threads:
        sent = [threads.submit(deliver) for _ in range(COPIES)]
        assert outcomes(sent) == {Outcome.PROCESSED: 1, Outcome.DUPLICATE: COPIES - 1}
    states = {result.state for future in sent for result in future.result().results}
    assert states == {"processed"}
    assert (bench.effects(), len(bench.outbox()), bench.states()) == (["evt_1"], 1, {"evt_1": "processed"})
    bench.assert_idle()


def test_copies_of_a_slow_event_hold_no_connection_and_nobody_else(open_bench: OpenBench) -> None:
    """P-FLOW: while one runs and seven wait, other events go on, on no more connections than the pool was given."""
    bench = open_bench(connections_max=2, duplicate_wait_seconds=SECONDS_MAX)
    pools = 2 if bench.way == "loop and threads" else 1
    gate = Gate(bench)
    endpoint = bench.endpoint()
    bench.on(endpoint, "slow", do=gate.passes)
    bench.on(endpoint, "invoice.paid", do=books)
    slow = stripe_event("evt_slow", type_="slow")
    with senders(bench, gate) as send:
        copies = [send(slow)]
        gate.await_arrival()
        copies += [send(slow) for _ in range(COPIES - 1)]
        eventually(lambda: waiting(bench.inbox) == COPIES - 1, what="the others wait for the first")
        for number in range(10):
            assert bench.deliver(f"evt_{number}").outcome is Outcome.PROCESSED
            assert len(bench.sessions()) <= 2 * pools
        assert not any(copy.done() for copy in copies)
        gate.open()
        assert outcomes(copies) == {Outcome.PROCESSED: 1, Outcome.DUPLICATE: COPIES - 1}
    assert bench.effects().count("evt_slow") == 1
    assert waiting(bench.inbox) == 0


def waiting(inbox: Inbox) -> int:
    """How many deliveries wait at the gate of their key."""
    return sum(len(line) for line in inbox._service._gate._waiting.values())


def test_a_waiting_copy_is_processed_where_the_first_one_fails(open_bench: OpenBench) -> None:
    """P-DUP (C23): nobody is told "duplicate" of something that was rolled back; the next in line runs the handler."""
    bench = open_bench(duplicate_wait_seconds=SECONDS_MAX)
    gate = Gate(bench)
    gate.fail = True
    bench.on(bench.endpoint(), do=gate.passes)
    with senders(bench, gate) as send:
        first = send("evt_1")
        gate.await_arrival()
        gate.fail = False
        others = [send("evt_1") for _ in range(COPIES - 1)]
        eventually(lambda: waiting(bench.inbox) == COPIES - 1, what="the others wait")
        gate.open()
        assert first.result(SECONDS_MAX).status == 500
        assert outcomes(others) == {Outcome.PROCESSED: 1, Outcome.DUPLICATE: COPIES - 2}
    assert (bench.effects(), len(bench.outbox())) == (["evt_1"], 1)


def test_a_copy_that_waits_too_long_is_asked_to_come_again(open_bench: OpenBench) -> None:
    """P-ACK: 503 with ``Retry-After`` after ``duplicate_wait_seconds``; the resend is a duplicate."""
    bench = open_bench(duplicate_wait_seconds=0.3)
    gate = Gate(bench)
    bench.on(bench.endpoint(), do=gate.passes)
    with senders(bench, gate) as send:
        first = send("evt_1")
        gate.await_arrival()
        began = time.monotonic()
        second = bench.deliver("evt_1")
        assert 0.3 <= time.monotonic() - began < 5
        assert (second.status, second.outcome, second.reason) == (503, Outcome.UNAVAILABLE, "key_busy")
        assert "retry-after" in dict(second.headers)
        gate.open()
        assert first.result(SECONDS_MAX).outcome is Outcome.PROCESSED
    assert bench.deliver("evt_1").outcome is Outcome.DUPLICATE
    assert bench.effects() == ["evt_1"]


@pytest.mark.parametrize("fails", [False, True])
def test_two_processes_with_the_same_event_have_one_effect(open_bench: OpenBench, fails: bool) -> None:
    """P-DUP (C23): the second waits at the database; the first one's fate decides what it hears and does."""
    bench = open_bench(duplicate_wait_seconds=SECONDS_MAX)
    other = bench.open()
    gate = Gate(bench)
    gate.fail = fails
    for inbox in (bench.inbox, other):
        bench.on(bench.endpoint(inbox=inbox), do=gate.passes)
    with senders(bench, gate) as send:
        first = send("evt_1")
        gate.await_arrival()
        gate.fail = False
        second = send("evt_1", inbox=other)
        eventually(lambda: waits_for_a_lock(bench), what="the second process waits for the first")
        assert not second.done()
        gate.open()
        assert first.result(SECONDS_MAX).outcome is (Outcome.FAILED if fails else Outcome.PROCESSED)
        assert second.result(SECONDS_MAX).outcome is (Outcome.PROCESSED if fails else Outcome.DUPLICATE)
    assert (bench.effects(), len(bench.outbox())) == (["evt_1"], 1)
    bench.assert_idle()


def waits_for_a_lock(bench: Bench) -> bool:
    """Whether a session of ours waits for a lock."""
    return any(session["wait_event_type"] == "Lock" for session in bench.sessions())


def test_two_processes_give_up_waiting_for_each_other(open_bench: OpenBench) -> None:
    """P-ACK: the second process hears 503 after ``duplicate_wait_seconds``, and a duplicate later."""
    bench = open_bench(duplicate_wait_seconds=0.3)
    other = bench.open()
    gate = Gate(bench)
    for inbox in (bench.inbox, other):
        bench.on(bench.endpoint(inbox=inbox), do=gate.passes)
    with senders(bench, gate) as send:
        first = send("evt_1")
        gate.await_arrival()
        began = time.monotonic()
        second = bench.deliver("evt_1", inbox=other)
        assert 0.3 <= time.monotonic() - began < 5
        assert (second.status, second.reason) == (503, "key_busy")
        gate.open()
        assert first.result(SECONDS_MAX).outcome is Outcome.PROCESSED
    assert bench.deliver("evt_1", inbox=other).outcome is Outcome.DUPLICATE


def test_many_events_at_once_from_two_processes_are_each_processed_once(open_bench: OpenBench) -> None:
    """P-DUP, P-ONCE: twenty events, four copies each, to two processes in random order; one effect each."""
    bench = open_bench(duplicate_wait_seconds=SECONDS_MAX, connection_wait_seconds=SECONDS_MAX)
    other = bench.open()
    for inbox in (bench.inbox, other):
        bench.on(bench.endpoint(inbox=inbox), do=books)
    ids = [f"evt_{number:02}" for number in range(20)]
    with senders(bench) as send:
        sent = [send(event_id, inbox=inbox) for inbox in (bench.inbox, other) * 2 for event_id in ids]
        assert outcomes(sent) == {Outcome.PROCESSED: 20, Outcome.DUPLICATE: 60}
    assert bench.effects() == ids
    assert len(bench.outbox()) == 20


def test_one_id_in_two_places_is_two_events(bench: Bench) -> None:
    """C25, C26: another endpoint, provider, account or mode is another event; each is deduplicated by itself."""
    for name in ("app-a", "app-b"):
        bench.on(bench.endpoint(name), do=books)
    bench.on(bench.endpoint("acme", plain_hmac(account="$.account")), do=books)
    deliveries: list[Callable[[], Receipt]] = [
        lambda: bench.deliver(stripe_event("evt_1", object="event"), to="app-a"),
        lambda: bench.deliver(stripe_event("evt_1"), to="app-b"),
        lambda: bench.deliver(stripe_event("evt_1", account="acct_1"), to="app-a"),
        lambda: bench.deliver(stripe_event("evt_1", livemode=True), to="app-a"),
        lambda: bench.deliver_hmac(stripe_event("evt_1")),
        lambda: bench.deliver_hmac(stripe_event("EVT_1")),
        lambda: bench.deliver_hmac(stripe_event(" evt_1 ")),
        lambda: bench.deliver_hmac(stripe_event("evt_1", account="acct_2")),
    ]
    assert [deliver().outcome for deliver in deliveries] == [Outcome.PROCESSED] * 8
    assert [deliver().outcome for deliver in deliveries] == [Outcome.DUPLICATE] * 8
    assert len(bench.effects()) == 8
    keys = [
        (e["provider"], e["endpoint"], e["account"], e["environment"], e["event_id"]) for e in bench.events()
    ]
    assert len(set(keys)) == 8
