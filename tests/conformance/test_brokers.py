"""One suite for all brokers: what is confirmed is there, under its id; what is not, is sent again, and says why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fixtures.brokers import SECONDS_MAX, Broker, message, sent
from webhook_inbox.destinations import Destination, Failed, Message, Sent, Verdict

#: More than any of these brokers takes.
TOO_LARGE = b'"' + b"x" * 2_000_000 + b'"'


@contextmanager
def away(broker: Broker) -> Iterator[None]:
    """Have the broker die, and come back when the block ends."""
    broker.server.kill()
    try:
        yield
    finally:
        broker.server.start()


@contextmanager
def hanging(broker: Broker) -> Iterator[None]:
    """Have the broker hang while the block lasts."""
    broker.server.freeze()
    try:
        yield
    finally:
        broker.server.thaw()


async def created(broker: Broker) -> tuple[str, Destination]:
    """A new place, and a destination that sends there, open."""
    place = broker.place()
    await broker.create(place)
    destination: Destination = broker.destination(place)
    await destination.open()
    return place, destination


async def insisted(destination: Destination, given: Message) -> list[Verdict]:
    """Send until it is confirmed, as a relay does, with a deadline; every verdict."""
    verdicts: list[Verdict] = []
    async with asyncio.timeout(30):
        while not verdicts or verdicts[-1] != Sent():
            verdicts += await destination.send([given])
    return verdicts


def test_what_is_confirmed_is_there_with_its_id_and_its_headers(broker: Broker) -> None:
    """P-OUT: the payload is the message's own; a consumer finds the id, type, aggregate and trace beside it."""

    async def story() -> None:
        place, destination = await created(broker)
        headers = {"traceparent": "00-a-b-01", "correlation-id": "evt_1", "message-id": "somebody else's"}
        given = [message(headers=headers), message(aggregate_type="", aggregate_id="")]
        assert await sent(destination, *given) == [Sent(), Sent()]
        one, other = sorted(await broker.received(place), key=lambda each: each.id != str(given[0].id))
        assert (one.id, one.payload) == (str(given[0].id), given[0].payload)
        assert (
            one.headers.items()
            >= {
                "message-id": str(given[0].id),
                "event-type": "InvoicePaid",
                "aggregate-type": "Invoice",
                "aggregate-id": "in_1",
                "created-at": "2026-01-02T03:04:05Z",
                "content-type": "application/json",
                "traceparent": "00-a-b-01",
                "correlation-id": "evt_1",
            }.items()
        )
        assert other.id == str(given[1].id)
        assert not {"aggregate-type", "aggregate-id", "traceparent"} & set(other.headers)

    asyncio.run(story())


def test_a_batch_is_there_whole_and_each_message_may_go_to_a_place_of_its_own(broker: Broker) -> None:
    """P-OUT: as many as the limits allow, in one call; a place that cannot be told fails its message alone."""

    async def story() -> None:
        places = [broker.place(), broker.place()]
        for place in places:
            await broker.create(place)
        destination = broker.destination(lambda given: places[int(given.aggregate_id)])
        size = destination.limits.batch_messages_max
        given = [message(aggregate_id=str(number % 2)) for number in range(size - 1)]
        *verdicts, failed = await sent(destination, *given, message(aggregate_id="none"))
        assert verdicts == [Sent()] * (size - 1)
        assert isinstance(failed, Failed)
        assert failed.reason.startswith("ValueError")
        assert "none" not in failed.reason
        for number, place in enumerate(places):
            arrived = sorted(each.id for each in await broker.received(place))
            assert arrived == sorted(str(each.id) for each in given[number::2])

    asyncio.run(story())


def test_a_broker_that_is_away_costs_no_attempt_and_is_found_again(broker: Broker) -> None:
    """P-OUT: it says so at once, sends what it is handed when the broker is back, and what was there is still there."""

    async def story() -> None:
        place, destination = await created(broker)
        before, after = message(), message()
        assert await destination.send([before]) == [Sent()]
        with away(broker):
            # What is under way as the connection breaks may be told by a timeout; from then on it is known.
            await destination.send([after])
            began = time.monotonic()
            (verdict,) = await destination.send([after])
            assert isinstance(verdict, Failed)
            assert verdict.stop
            assert verdict.reason.startswith("no connection")
            assert time.monotonic() - began < destination.limits.send_seconds_max
            with pytest.raises(Exception, match="."):
                await destination.open()
        assert Sent() in await insisted(destination, after)
        await destination.close()
        assert {each.id for each in await broker.received(place)} == {str(before.id), str(after.id)}

    asyncio.run(story())


def test_a_broker_that_hangs_is_given_up_in_time_and_the_message_goes_out_under_the_same_id(
    broker: Broker,
) -> None:
    """P-OUT: no confirmation is no confirmation, whatever has arrived; nothing waits longer than the limit."""

    async def story() -> None:
        place, destination = await created(broker)
        given = message()
        assert await destination.send([message()]) == [Sent()]
        with hanging(broker):
            began = time.monotonic()
            (verdict,) = await destination.send([given])
            assert isinstance(verdict, Failed)
            assert not verdict.permanent
            assert time.monotonic() - began < destination.limits.send_seconds_max
            began = time.monotonic()
            await destination.close()
            assert time.monotonic() - began < 1.0
        assert Sent() in await insisted(destination, given)
        await destination.close()
        arrived = [each.id for each in await broker.received(place)]
        assert str(given.id) in arrived
        assert len(set(arrived)) == 2
        if broker.kind == "nats":  # it drops what it has under this id
            assert len(arrived) == 2

    asyncio.run(story())


@pytest.mark.parametrize("cut", [False, True])
def test_what_was_taken_and_not_confirmed_is_sent_again_under_the_same_id(broker: Broker, cut: bool) -> None:
    """P-OUT: its answer is lost, so it is in doubt; the client sends it once, and JetStream keeps it once."""

    async def story() -> None:
        place, given = broker.place(), message()
        await broker.create(place)
        async with broker.losing_answers() as way:
            destination: Destination = broker.destination(place, url=way.url)
            assert await destination.send([message()]) == [Sent()]
            way.lose_answers_after(str(given.id).encode(), cut=cut)
            (verdict,) = await destination.send([given])
            assert isinstance(verdict, Failed)
            assert not verdict.permanent
            assert not verdict.stop
            way.heal()
            assert [each.id for each in await broker.received(place)].count(str(given.id)) == 1
            assert Sent() in await insisted(destination, given)
            await destination.close()
        arrived = [each.id for each in await broker.received(place)].count(str(given.id))
        assert arrived == (1 if broker.kind == "nats" else 2)

    asyncio.run(story())


def test_a_message_that_is_too_large_is_dead_with_its_reason_and_fails_no_other(broker: Broker) -> None:
    """P-FLOW: it will not shrink; the others of its batch arrive."""

    async def story() -> None:
        place = broker.place()
        await broker.create(place)
        given: dict[str, Any] = {"message_bytes_max": 1_000_000} if broker.kind != "nats" else {}
        destination = broker.destination(place, **given)
        one, large, other = message(), message(payload=TOO_LARGE), message()
        first, failed, last = await sent(destination, one, large, other)
        assert (first, last) == (Sent(), Sent())
        assert isinstance(failed, Failed)
        assert failed.permanent
        assert "larger than" in failed.reason
        assert [each.id for each in await broker.received(place)] == [str(one.id), str(other.id)]

    asyncio.run(story())


def test_a_place_that_is_not_there_is_named_and_taken_as_soon_as_somebody_creates_it(broker: Broker) -> None:
    """An operator can mend it: the message is not dead, and its reason says what to create. (Redis creates streams.)"""

    async def story() -> None:
        place = broker.place()
        destination = broker.destination(place)
        (verdict,) = await destination.send([message()])
        if broker.kind == "redis":
            assert verdict == Sent()
        else:
            assert isinstance(verdict, Failed)
            assert not verdict.permanent
            assert place in verdict.reason
            assert "create" in verdict.reason or "declare" in verdict.reason
        await broker.create(place)
        given = message()
        assert Sent() in await insisted(destination, given)
        await destination.close()
        assert str(given.id) in [each.id for each in await broker.received(place)]

    asyncio.run(story())


def test_closing_is_quick_and_may_be_done_twice_and_a_closed_destination_opens_again(broker: Broker) -> None:
    """A relay closes after trouble, and opens before the next batch."""

    async def story() -> None:
        place, destination = await created(broker)
        async with asyncio.timeout(3):
            await destination.close()
            await destination.close()
        await destination.open()
        assert await sent(destination) == [Sent()]
        assert len(await broker.received(place)) == 1

    asyncio.run(story())


def test_waiting_for_a_confirmation_is_bounded_by_what_the_limits_say(broker: Broker) -> None:
    """The relay cancels what takes longer: a destination must come to a verdict of its own before."""
    destination: Destination = broker.destination("place")
    assert destination.limits.send_seconds_max > 2 * SECONDS_MAX
