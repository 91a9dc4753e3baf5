"""
Cut the connection to the database wherever it can be cut, and find every effect once.

Between the receiver and a real server stands a proxy that understands frames. Whatever it does, the answer is true: 2xx
only where the event is committed, else 5xx, and the resend settles it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import psycopg
import pytest

from tests.faults import asgi
from tests.faults.app import KINDS, make_inbox
from tests.faults.bench import Bench
from tests.faults.conftest import KILLS
from tests.faults.invariants import await_no_transaction
from tests.faults.ledger import Answer
from tests.faults.paths import PATHS, Expected, applied, stripe_letter
from tests.faults.proxy import Fate, Proxy, at_commit, at_commit_reply, at_frame, black_hole
from tests.faults.sender import Letter

WAYS: dict[str, Callable[[Proxy], str]] = {
    "unix": lambda proxy: proxy.dsn,
    "tcp": lambda proxy: proxy.tcp_dsn,
}
#: The ways through the receiver that are cut at every frame, with one connection open already.
WARM = [
    *((name, kind, Fate.CUT_BEFORE) for name in ("processed", "dead", "conflicting body") for kind in KINDS),
    ("batch", "sync", Fate.CUT_BEFORE),
    ("processed", "sync", Fate.CUT_AMID),
    ("processed", "async", Fate.CUT_AFTER),
]
#: Limits so short that a test can wait for them.
IMPATIENT: dict[str, Any] = {
    "connections_max": 2,
    "connection_wait_seconds": 0.3,
    "duplicate_wait_seconds": 0.3,
    "handler_seconds_max": 0.5,
}
#: What those add up to, with the grace.
HANG_SECONDS_MAX = 7.0
#: More frames than any delivery takes; a loop over all of them ends where no frame was left to cut.
FRAMES_MAX = 300
SETTLE_SECONDS_MAX = 20.0


@pytest.fixture
def proxy(receiver_database: str) -> Iterator[Proxy]:
    """Stands before the test's database."""
    with Proxy(receiver_database) as standing:
        yield standing


class Receiver:
    """An inbox in this process, and a sender that keeps account."""

    def __init__(
        self, bench: Bench, dsn: str, kind: str, names: Iterator[int] | None = None, **settings: Any
    ) -> None:
        self._bench = bench
        self._inbox = make_inbox(dsn, **settings)
        self._app = self._inbox.asgi()
        self._kind = kind
        self._names = count(1) if names is None else names
        self.expected: list[Expected] = []

    def letter(self) -> Letter:
        """A new event that shall be processed."""
        letter = stripe_letter(f"evt_of_receiver_{next(self._names)}", "test.paid", self._kind)
        self.expected.append(applied(letter))
        return letter

    async def attempt(self, letter: Letter) -> Answer:
        """Deliver once."""
        answer = await asgi.deliver(self._app, letter)
        self._bench.ledger.record(letter.event, letter.path, letter.body, answer)
        return answer

    async def settle(self, letter: Letter) -> Answer:
        """Deliver until it is heard."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while not (answer := await self.attempt(letter)).heard:
            assert time.monotonic() < deadline, f"{letter.event} is not acknowledged: {answer}"
            await asyncio.sleep(0.05)
        return answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Close the connections in the end."""
        async with self._inbox.running():
            yield


def stored(dsn: str, event_id: str) -> bool:
    """Whether the event is in the inbox at this moment."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT FROM webhooks.inbox WHERE event_id = %s", (event_id,)).fetchall()
        return len(found) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fate", [Fate.CUT_BEFORE, Fate.CUT_AMID])
@pytest.mark.parametrize("way", WAYS)
def test_a_commit_that_never_arrives_stores_nothing_and_the_resend_is_processed(
    kind: str, fate: Fate, way: str, bench: Bench, proxy: Proxy
) -> None:
    """Cut before COMMIT reaches the server: 503, no row (P-ACK, P-ONCE)."""

    async def story() -> None:
        receiver = Receiver(bench, WAYS[way](proxy), kind)
        async with receiver.running():
            await receiver.settle(receiver.letter())
            letter = receiver.letter()
            proxy.arm(at_commit(fate))
            answer = await receiver.attempt(letter)
            assert [frame.content for frame in proxy.done] == [b"COMMIT\0"]
            assert (answer.status, answer.outcome) == (503, "unavailable")
            with psycopg.connect(bench.dsn) as connection:
                await_no_transaction(connection)
            assert not stored(bench.dsn, letter.event)
            assert (await receiver.attempt(letter)).outcome == "processed"
        bench.check(receiver.expected)

    asyncio.run(story())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fate", [Fate.CUT_BEFORE, Fate.CUT_AMID])
@pytest.mark.parametrize("way", WAYS)
def test_a_commit_whose_reply_is_lost_is_answered_503_and_the_resend_is_a_duplicate(
    kind: str, fate: Fate, way: str, bench: Bench, proxy: Proxy
) -> None:
    """Cut at the reply to COMMIT: stored, but nobody here can know, so it is not acknowledged (P-ACK, P-DUP)."""

    async def story() -> None:
        receiver = Receiver(bench, WAYS[way](proxy), kind)
        async with receiver.running():
            await receiver.settle(receiver.letter())
            letter = receiver.letter()
            proxy.arm(at_commit_reply(fate))
            answer = await receiver.attempt(letter)
            assert [frame.content for frame in proxy.done] == [b"COMMIT\0"]
            assert (answer.status, answer.outcome) == (503, "unavailable")
            assert stored(bench.dsn, letter.event)
            assert (await receiver.attempt(letter)).outcome == "duplicate"
        bench.check(receiver.expected)

    asyncio.run(story())


@pytest.mark.parametrize("case", WARM, ids=lambda case: f"{case[0]}-{case[1]}-{case[2].name}")
def test_cut_at_every_frame_of_a_delivery_each_event_takes_effect_once(
    case: tuple[str, str, Fate], bench: Bench, proxy: Proxy, tally: Counter[str]
) -> None:
    """For every n: cut at the n-th frame; what is answered 2xx stays, a resend settles the rest (P-ACK, P-ONCE)."""
    name, kind, fate = case
    path = next(path for path in PATHS if path.name == name)
    # A body of several events takes hundreds of frames, many alike: all of them only where time is no matter.
    stride = 5 if name == "batch" and KILLS < 50 else 1

    async def story() -> int:
        receiver = Receiver(bench, proxy.dsn, kind)
        async with receiver.running():
            await receiver.settle(receiver.letter())
            for number in range(1, FRAMES_MAX, stride):
                told = path.make(kind, str(number))
                receiver.expected += told.expected
                for letter in told.before:
                    await receiver.settle(letter)
                proxy.arm(at_frame(number, fate))
                answer = await receiver.attempt(told.letter)
                if not proxy.done:
                    break
                proxy.heal()
                if not answer.heard:
                    await receiver.settle(told.letter)
        bench.check(receiver.expected)
        return len(range(1, number, stride))

    tally["frames cut at"] += (cut := asyncio.run(story()))
    assert 20 < cut < FRAMES_MAX - 1


@pytest.mark.parametrize("kind", KINDS)
def test_cut_at_every_frame_of_a_first_delivery_each_event_takes_effect_once(
    kind: str, bench: Bench, proxy: Proxy, tally: Counter[str]
) -> None:
    """For every n of a process that has no connection yet: those that greet, ask who is there and read the schema."""
    names = count(1)

    async def story() -> int:
        expected = []
        for number in range(1, FRAMES_MAX):
            receiver = Receiver(bench, proxy.dsn, kind, names, connection_wait_seconds=0.2)
            async with receiver.running():
                letter = receiver.letter()
                proxy.arm(at_frame(number, Fate.CUT_BEFORE))
                answer = await receiver.attempt(letter)
                cut = bool(proxy.done)
                proxy.heal()
                if not answer.heard:
                    await receiver.settle(letter)
            expected += receiver.expected
            if not cut:
                break
        bench.check(expected)
        return number - 1

    tally["frames cut at"] += (cut := asyncio.run(story()))
    assert 40 < cut < FRAMES_MAX - 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_latency_and_crumbs_change_no_result(kind: str, way: str, bench: Bench, proxy: Proxy) -> None:
    """Each frame 5 ms late, or in pieces of one byte: slower, and the same."""

    async def story() -> None:
        receiver = Receiver(bench, WAYS[way](proxy), kind)
        async with receiver.running():
            proxy.delay_seconds = 0.005
            assert (await receiver.attempt(receiver.letter())).outcome == "processed"
            proxy.delay_seconds, proxy.chunk_bytes = 0.0, 1
            letter = receiver.letter()
            outcomes = {(await receiver.attempt(letter)).outcome for _ in range(2)}
            assert outcomes == {"processed", "duplicate"}
        bench.check(receiver.expected)

    asyncio.run(story())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_a_black_hole_is_answered_in_time_and_left_behind(
    kind: str, way: str, bench: Bench, proxy: Proxy
) -> None:
    """
    Half-open connections that say nothing for ever: 503 within the bound; once there is a way again, all goes on.

    The connections that hang are more than the pool holds, and stay in the hole after the healing: whoever waits for
    them waits for ever (P-ACK).
    """

    async def story() -> None:
        receiver = Receiver(bench, WAYS[way](proxy), kind, **IMPATIENT)
        async with receiver.running():
            await asyncio.gather(*(receiver.settle(receiver.letter()) for _ in range(4)))
            letters = [receiver.letter() for _ in range(6)]
            proxy.arm(black_hole)
            started = time.monotonic()
            answers = await asyncio.gather(*(receiver.attempt(letter) for letter in letters))
            assert time.monotonic() - started < HANG_SECONDS_MAX
            assert proxy.done, "nothing was swallowed"
            assert {answer.status for answer in answers} == {503}
            proxy.heal()
            await asyncio.gather(*(receiver.settle(letter) for letter in letters))
        bench.check(receiver.expected)

    asyncio.run(story())
