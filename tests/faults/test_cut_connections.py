"""
Cut the connection to the database wherever it can be cut, and find every effect once.

Between the receiver and a real server stands a proxy that understands frames. Whatever it does, the answer is true: 2xx
only where the event is committed, else 5xx, and the resend settles it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import psycopg
import pytest

from tests.faults.app import KINDS
from tests.faults.bench import Bench
from tests.faults.conftest import KILLS
from tests.faults.invariants import await_no_transaction
from tests.faults.paths import PATHS
from tests.faults.proxy import Fate, Proxy, at_commit, at_commit_reply, at_frame, black_hole
from tests.faults.receiver import HANG_SECONDS_MAX, IMPATIENT, Receiver, stored

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
#: More frames than any delivery takes; a loop over all of them ends where no frame was left to cut.
FRAMES_MAX = 300


@pytest.fixture
def proxy(receiver_database: str) -> Iterator[Proxy]:
    """Stands before the test's database."""
    with Proxy(receiver_database) as standing:
        yield standing


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
            proxy.arm(at_commit(fate, of=letter.event))
            answer = await receiver.attempt(letter)
            assert [b"COMMIT\0" in frame.content for frame in proxy.done] == [True]
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
            proxy.arm(at_commit_reply(fate, of=letter.event))
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
            if not cut and answer.heard:  # unheard without a cut: there was no connection in time
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
