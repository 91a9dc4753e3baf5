"""A body is read within its limits of bytes and time, exactly, and a cancelled request stays cancelled."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable

import pytest

from tests.fixtures.asgi import chunks, run_jumping
from webhook_inbox.http.body import LINGER_SECONDS_MAX, Body
from webhook_inbox.http.messages import Message, Receive
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.sources import Stripe


def plan(*, bytes_max: int = 1_000, seconds_max: float = 10.0, per_second: float = 100.0) -> EndpointPlan:
    """An endpoint with these limits."""
    settings = Settings(
        body_bytes_max=bytes_max, body_seconds_max=seconds_max, body_bytes_per_second_min=per_second
    )
    return EndpointPlan(
        name="billing", source=Stripe("whsec_fake_body_0000"), mode="inline", settings=settings
    )


def arriving(
    *messages: Message, every_seconds: float = 0.0, then: Callable[[], None] = lambda: None
) -> Receive:
    """A receive that hands over one message every so often, and afterwards waits for ever."""
    waiting = list(messages)

    async def receive() -> Message:
        await asyncio.sleep(every_seconds)
        if not waiting:
            then()
            await asyncio.Event().wait()
        return waiting.pop(0)

    return receive


async def timed(
    body: Body, endpoint: EndpointPlan, length: int | None = None
) -> tuple[bytes | Receipt, float]:
    """Read, and say how many seconds of the loop's clock it took."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    return await body.read(endpoint, length), loop.time() - begun


def refusal(read: bytes | Receipt) -> tuple[int, str]:
    """The status and reason of a refused body."""
    assert isinstance(read, Receipt), read
    return read.status, read.reason


def test_a_body_cut_inside_every_character_arrives_as_the_same_bytes() -> None:
    """P-RAW: bytes are never text on the way, wherever a chunk ends."""
    text = '{"title":"Café 😊 ☂ mânecă\u2028"}'.encode()
    for size in range(1, len(text) + 1):
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        body = Body(arriving(*chunks(*parts)))
        assert run_jumping(body.read(plan(), len(text))) == text
        assert (body.bytes_read, body.ended) == (len(text), True)


def test_chunks_without_bytes_change_nothing() -> None:
    """A server may hand over empty messages."""
    body = Body(arriving(*chunks(b"", b"a", b"", b"b", b"")))
    assert run_jumping(body.read(plan(), 2)) == b"ab"


@pytest.mark.parametrize("size", [1, 7, 1_000, 1_001, 5_000])
@pytest.mark.parametrize("excess", [0, 1])
def test_a_body_may_have_exactly_its_limit(size: int, excess: int) -> None:
    """The limit itself is accepted, one byte more is 413, however it is cut."""
    text = b"x" * (1_000 + excess)
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    read = run_jumping(Body(arriving(*chunks(*parts))).read(plan(bytes_max=1_000), None))
    assert read == text if not excess else refusal(read) == (413, "body_too_large")


def test_nothing_is_read_past_the_limit() -> None:
    """P-CALM: the chunk that breaks the limit is the last one taken."""
    body = Body(arriving(*chunks(*[b"x" * 100] * 50)))
    assert refusal(run_jumping(body.read(plan(bytes_max=1_000), None))) == (413, "body_too_large")
    assert (body.bytes_read, body.ended) == (1_100, False)


def test_small_chunks_cost_no_more_than_their_bytes() -> None:
    """P-CALM: a sender chooses the chunks, and must not choose our memory by it."""
    size = 200_000
    left = size // 2

    async def receive() -> Message:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": bytes([left % 256, 1]), "more_body": left > 0}

    async def story() -> tuple[bytes | Receipt, int]:
        tracemalloc.start()
        try:
            read = await Body(receive).read(plan(bytes_max=size), size)
            return read, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    read, peak = asyncio.run(story())
    assert isinstance(read, bytes)
    assert len(read) == size
    assert peak < 2.5 * size  # as a list of chunks it would be over 20 times its size


@pytest.mark.parametrize("length", [3, 5])
def test_a_body_that_is_not_as_long_as_announced_is_refused(length: int) -> None:
    """What a server calls complete must be what the client announced."""
    read = run_jumping(Body(arriving(*chunks(b"four"))).read(plan(), length))
    assert refusal(read) == (400, "body_cut_short")


def test_a_client_that_hangs_up_midway_has_sent_nothing() -> None:
    """What arrived of a broken body is no delivery."""
    body = Body(arriving(*chunks(b"half", complete=False)))
    assert refusal(run_jumping(body.read(plan(), 8))) == (400, "client_gone")
    assert body.ended


def test_a_body_that_stops_has_its_time_and_no_more() -> None:
    """A client that says nothing more is refused with 408 when ``body_seconds_max`` ends."""
    body = Body(arriving(*chunks(b"half", complete=False)[:1]))
    read, seconds = run_jumping(timed(body, plan(seconds_max=10), 8))
    assert refusal(read) == (408, "body_too_slow")
    assert seconds == pytest.approx(10, abs=0.5)
    assert body.ended


def test_a_trickle_is_cut_off_when_what_it_earned_is_used_up() -> None:
    """One byte a second at 10 bytes a second: 10 s, and 1 s for the ten bytes that came by then."""
    body = Body(arriving(*chunks(*[b"x"] * 500), every_seconds=1))
    read, seconds = run_jumping(timed(body, plan(seconds_max=10, per_second=10)))
    assert refusal(read) == (408, "body_too_slow")
    assert seconds == pytest.approx(11, abs=1)


def test_a_large_body_at_the_minimum_rate_is_waited_for() -> None:
    """Each full ``body_bytes_per_second_min`` bytes earn a second: 500 s for 5 kB at 10 bytes a second is fine."""
    body = Body(arriving(*chunks(*[b"x" * 10] * 500), every_seconds=1))
    read, seconds = run_jumping(timed(body, plan(bytes_max=10_000, seconds_max=10, per_second=10)))
    assert read == b"x" * 5_000
    assert seconds == pytest.approx(500, abs=5)


def test_a_cancelled_request_is_cancelled_and_not_late() -> None:
    """Cancelling from outside is never taken for the deadline, not even in the same moment."""

    async def story(*, cancel_after: float) -> tuple[bool, int]:
        body = Body(arriving())
        task = asyncio.create_task(body.read(plan(seconds_max=10), 8))
        await asyncio.sleep(cancel_after)
        task.cancel()
        done, _ = await asyncio.wait({task})
        return next(iter(done)).cancelled(), task.cancelling()

    for after in (0, 5, 9.9999):
        assert run_jumping(story(cancel_after=after)) == (True, 1)


def test_deadline_and_cancellation_together_are_a_cancellation() -> None:
    """Whoever cancels the request while the deadline does is obeyed."""

    async def story() -> bool:
        body = Body(arriving())
        task = asyncio.create_task(body.read(plan(seconds_max=10), 8))
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        loop.call_at(loop.time() + 10, task.cancel)
        done, _ = await asyncio.wait({task})
        return next(iter(done)).cancelled()

    assert run_jumping(story())


def test_a_late_body_leaves_its_task_as_it_was() -> None:
    """The deadline takes its own cancellation back, so that the request can still be answered."""

    async def story() -> int:
        task = asyncio.current_task()
        assert task is not None
        assert refusal(await Body(arriving()).read(plan(), 8)) == (408, "body_too_slow")
        await asyncio.sleep(1)
        return task.cancelling()

    assert run_jumping(story()) == 0


def test_a_body_that_came_in_time_is_never_late_afterwards() -> None:
    """The deadline ends with the body: a handler may take longer than a body may."""

    async def story() -> int:
        task = asyncio.current_task()
        assert task is not None
        assert await Body(arriving(*chunks(b"all"))).read(plan(seconds_max=10), 3) == b"all"
        await asyncio.sleep(100)
        return task.cancelling()

    assert run_jumping(story()) == 0


def test_a_timeout_of_the_server_is_not_taken_for_the_deadline() -> None:
    """Only the clock of the body makes a 408."""

    async def receive() -> Message:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        run_jumping(Body(receive).read(plan(), 8))


def test_lingering_is_bounded_in_bytes_and_in_seconds() -> None:
    """P-CALM: a refused client gets a second and a bounded number of bytes, whatever it sends."""

    async def story(receive: Receive, bytes_max: int) -> tuple[int, float]:
        body, loop = Body(receive), asyncio.get_running_loop()
        begun = loop.time()
        await body.linger(bytes_max)
        return body.bytes_read, loop.time() - begun

    endless = [b"x" * 100] * 1_000
    read, seconds = run_jumping(story(arriving(*chunks(*endless)), 1_000))
    assert read == 1_000
    assert seconds == pytest.approx(LINGER_SECONDS_MAX, abs=0.2)
    read, seconds = run_jumping(story(arriving(*chunks(*endless), every_seconds=0.3), 1_000))
    assert read == 300
    assert seconds == pytest.approx(LINGER_SECONDS_MAX, abs=0.2)


def test_lingering_ends_with_the_body() -> None:
    """A client that has sent all it wanted is not kept waiting."""

    async def story() -> float:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await Body(arriving(*chunks(b"all", b"of it"))).linger(1_000)
        return loop.time() - begun

    assert run_jumping(story()) < 0.2
