"""
Hang up on the receiver at every moment: what was begun is finished, and no session is left inside a transaction.

A client that is gone, or a request that is cancelled by the framework around us, must neither undo a commit nor leave
one half done: the event is there once, and the redelivery is told so.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.faults import asgi
from tests.faults.app import KINDS, make_inbox
from tests.faults.bench import Bench
from tests.faults.gate import gate_closed, waiting_at_the_gate
from tests.faults.invariants import await_no_transaction, until
from tests.faults.ledger import Answer
from tests.faults.paths import applied, stripe_letter
from tests.faults.receiver import stored
from tests.faults.sender import Address, Letter
from webhook_inbox.testing.points import Passing, PointRecorder

#: How a client may leave: politely, or by a reset.
LEAVES = {"close": b"", "reset": struct.pack("ii", 1, 0)}


@contextlib.contextmanager
def connected(address: Address, linger: bytes) -> Iterator[socket.socket]:
    """A connection that ends with the block, as *linger* says."""
    with socket.create_connection(address) as connection:
        if linger:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        yield connection


def request(letter: Letter) -> tuple[bytes, bytes]:
    """Head and body of *letter*, as they are sent."""
    headers = {
        "host": "receiver.example.test",
        "content-length": str(len(letter.body)),
        **letter.sign(letter.body),
    }
    lines = [f"POST {letter.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode(), letter.body


@pytest.mark.parametrize("leave", LEAVES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_hangs_up_before_its_body_is_complete_leaves_nothing(
    kind: str, leave: str, bench: Bench
) -> None:
    """In the head, before the body, amid the body: no row; the resend is processed (P-RAW)."""
    letters = []
    with bench.servers() as (server,):
        for number, part in enumerate(("amid the head", "before the body", "amid the body")):
            letter = stripe_letter(f"evt_cut_{number}", "test.paid", kind)
            letters.append(letter)
            head, body = request(letter)
            sent = {"amid the head": head[:40], "before the body": head, "amid the body": head + body[:-5]}[
                part
            ]
            with connected(server.address, LEAVES[leave]) as connection:
                connection.sendall(sent)
            # The next delivery is the witness: the server has seen the hang-up before it, or lives with it.
            assert bench.sender(server).attempt(stripe_letter(f"evt_ok_{number}", "test.paid", kind)).heard
            letters.append(stripe_letter(f"evt_ok_{number}", "test.paid", kind))
            assert not stored(bench.dsn, letter.event)
            assert bench.sender(server).attempt(letter).outcome == "processed"
        assert server.stop().status == 0
    bench.check(map(applied, letters))


@pytest.mark.parametrize("leave", LEAVES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_hangs_up_before_the_answer_undoes_nothing(kind: str, leave: str, bench: Bench) -> None:
    """While the handler runs: it runs to its end, the commit stays, the resend is a duplicate (P-ONCE, P-DUP)."""
    letter = stripe_letter("evt_gone", "test.gate", kind)
    with bench.servers() as (server,), psycopg.connect(bench.dsn) as witness:
        with gate_closed(bench.dsn) as keeper:
            with connected(server.address, LEAVES[leave]) as connection:
                connection.sendall(b"".join(request(letter)))
                until(lambda: waiting_at_the_gate(keeper) == 1, "the handler runs")
            assert not stored(bench.dsn, letter.event)
        until(lambda: stored(bench.dsn, letter.event), "the event is committed though nobody waits for it")
        await_no_transaction(witness)
        assert bench.sender(server).attempt(letter).outcome == "duplicate"
        assert server.stop().status == 0
    bench.check([applied(letter)])


class Canceller:
    """Cancel a request when its delivery passes a fault point; a probe."""

    def __init__(self) -> None:
        self.recorder = PointRecorder()
        self._at: Passing | None = None
        self._cancel: Callable[[], object] = lambda: None

    def __call__(self, point: str) -> None:
        self.recorder(point)
        if self.recorder.passings[-1] == self._at:
            self._cancel()

    async def cancelled_at(self, passing: Passing, request: Coroutine[Any, Any, Answer]) -> bool:
        """Make the request; whether it was cancelled before its answer."""
        loop, task = asyncio.get_running_loop(), asyncio.create_task(request)
        self.recorder.take()
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        self._at = passing
        await asyncio.wait({task})
        self._at = None
        return task.cancelled()


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_that_is_cancelled_at_any_point_undoes_nothing(
    kind: str, bench: Bench, tally: Counter[str]
) -> None:
    """For every fault point: cancel the request there; its event is committed all the same, once (P-ONCE)."""
    letters = [stripe_letter(f"evt_cancelled_{number}", "test.paid", kind) for number in range(100)]

    async def story() -> int:
        canceller, unused, cancelled = Canceller(), iter(letters), 0
        inbox = make_inbox(bench.dsn, probe=canceller)
        app = inbox.asgi()
        async with inbox.running():
            for _ in range(2):  # the first look at the schema is a way of its own
                canceller.recorder.take()
                assert (await asgi.deliver(app, next(unused))).heard
            passings = canceller.recorder.take()
            for passing, letter in zip(passings, unused, strict=False):
                cancelled += await canceller.cancelled_at(passing, asgi.deliver(app, letter))
                committed = partial(stored, bench.dsn, letter.event)
                await asyncio.to_thread(
                    until, committed, f"the event is committed, though cancelled at {passing}"
                )
                assert (await asgi.deliver(app, letter)).outcome == "duplicate"
        del letters[2 + len(passings) :]
        return cancelled

    tally["cancelled requests"] += (cancelled := asyncio.run(story()))
    assert cancelled > 10
    bench.check(map(applied, letters))
