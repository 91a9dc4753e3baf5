"""One copy of an event at a time, in order of arrival, across threads and loops; nobody holds what nobody uses."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.arrivals import key
from tests.fixtures.programs import eventually
from webhook_inbox.runtime.gate import KeyGate

A, B, C = key("a"), key("b"), key("c")
SECONDS_MAX = 30.0


def waiting(gate: KeyGate) -> int:
    """How many stand in line."""
    return sum(len(line) for line in gate._waiting.values())


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Run *work* on a thread; what it gave."""
    given: list[Any] = []
    thread = threading.Thread(target=lambda: given.append(work()))
    thread.start()
    return thread, given


def on_loop(gate: KeyGate, keys: tuple[Any, ...], seconds: float) -> Any:
    """Hold *keys* on a loop of its own."""
    return asyncio.run(gate.hold_async(keys, seconds))


WAYS: list[Callable[..., Any]] = [KeyGate.hold, on_loop]
ways = pytest.mark.parametrize("hold", WAYS, ids=["thread", "loop"])


@ways
def test_a_key_that_is_free_is_held_at_once(hold: Callable[..., Any]) -> None:
    """Each by itself, and several together; a key that was given up is free again, and forgotten."""
    gate = KeyGate()
    assert hold(gate, (A, B), 0) == (A, B)
    assert hold(gate, (C,), 0) == (C,)
    gate.release((A, B))
    gate.release((C,))
    assert gate._waiting == {}
    assert hold(gate, (A,), 0) == (A,)


@ways
def test_a_key_that_is_held_is_waited_for_so_long_and_no_longer(hold: Callable[..., Any]) -> None:
    """What did not come free is left out, the others are held; nobody stands in line afterwards."""
    gate = KeyGate()
    gate.hold((A, C), 0)
    began = time.monotonic()
    assert hold(gate, (A, B, C), 0.2) == (B,)
    assert 0.2 <= time.monotonic() - began < 2
    assert hold(gate, (A,), 0) == ()
    gate.release((B,))
    gate.release((A, C))
    assert gate._waiting == {}


@ways
def test_who_waits_gets_the_key_when_it_is_given_up(hold: Callable[..., Any]) -> None:
    """Without asking again; it is held by one at a time."""
    gate = KeyGate()
    gate.hold((A,), 0)
    thread, given = in_thread(lambda: hold(gate, (A, B), SECONDS_MAX))
    eventually(lambda: waiting(gate) == 1, what="somebody waits")
    assert gate.hold((A,), 0) == ()
    gate.release((A,))
    thread.join(SECONDS_MAX)
    assert given == [(A, B)]
    assert gate.hold((A,), 0) == ()
    gate.release((A, B))
    assert gate._waiting == {}


def test_who_came_first_is_served_first() -> None:
    """In order of arrival, threads and loops alike; those who gave up are passed over."""
    gate = KeyGate()
    gate.hold((A,), 0)
    order: list[int] = []
    threads = []

    def take(number: int) -> None:
        assert (KeyGate.hold if number % 2 else on_loop)(gate, (A,), SECONDS_MAX) == (A,)
        order.append(number)
        gate.release((A,))

    for number in range(6):
        thread, _ = in_thread(lambda number=number: take(number))  # type: ignore[misc]
        threads.append(thread)
        eventually(lambda number=number: waiting(gate) == 2 * number + 1, what="it waits")  # type: ignore[misc]
        assert gate.hold((A,), 0) == ()  # and gives up
    gate.release((A,))
    for thread in threads:
        thread.join(SECONDS_MAX)
    assert order == list(range(6))
    assert gate._waiting == {}


def test_many_at_once_hold_a_key_one_at_a_time() -> None:
    """Whoever wins, nobody else is inside; and all get their turn."""
    gate = KeyGate()
    inside: list[int] = []
    most: list[int] = []

    def take(number: int) -> None:
        for _ in range(50):
            held = gate.hold((A, B), SECONDS_MAX)
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)
            gate.release(held)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS_MAX)
    assert (max(most), len(most), gate._waiting) == (1, 200, {})


def test_a_task_that_is_cancelled_while_it_waits_gives_everything_up() -> None:
    """P-FLOW: its place in line, and what it held already; or the event could not be delivered until a restart."""
    gate = KeyGate()
    gate.hold((B,), 0)

    async def cancelled() -> None:
        task = asyncio.create_task(gate.hold_async((A, B), SECONDS_MAX))
        while not waiting(gate):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert gate.hold((A,), 0) == (A,)
    gate.release((A,))
    gate.release((B,))
    assert gate._waiting == {}


def test_a_task_that_is_cancelled_as_its_turn_comes_passes_it_on() -> None:
    """P-FLOW: the key came in the very moment: it goes to the next in line."""
    gate = KeyGate()
    gate.hold((A,), 0)

    async def cancelled() -> None:
        task = asyncio.create_task(gate.hold_async((A,), SECONDS_MAX))
        while not waiting(gate):
            await asyncio.sleep(0)
        gate.release((A,))  # its turn has come, and it has not run yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert gate.hold((A,), 0) == (A,)


def test_a_thread_that_is_interrupted_while_it_waits_gives_everything_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-FLOW: Ctrl-C in one delivery of a program that goes on."""
    gate = KeyGate()
    gate.hold((B,), 0)

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("webhook_inbox.runtime.gate._came", interrupted)
        with pytest.raises(KeyboardInterrupt):
            gate.hold((A, B), SECONDS_MAX)
    assert gate.hold((A,), 0) == (A,)
    gate.release((A,))
    gate.release((B,))
    assert gate._waiting == {}
