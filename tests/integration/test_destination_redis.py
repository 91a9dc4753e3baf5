"""Redis: what the server is short of stops the destination, what is wrong with one stream fails one message."""

from __future__ import annotations

import asyncio

import pytest

from tests.fixtures.brokers import RedisBroker, message, sent
from webhook_inbox.destinations import Failed, RedisStream, Sent


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("maxmemory", "1", "its memory is full (OOM)"),
        ("min-replicas-to-write", "1", "it has too few replicas (NOREPLICAS)"),
    ],
)
def test_a_server_that_takes_nothing_costs_no_attempt(
    redis_broker: RedisBroker, setting: str, value: str, reason: str
) -> None:
    """It is not the message's fault, and no other one would fare better; once mended, it is taken."""
    place = redis_broker.place()
    asyncio.run(redis_broker.ask("CONFIG", "SET", setting, value))
    try:
        (failed,) = asyncio.run(sent(redis_broker.destination(place)))
    finally:
        asyncio.run(redis_broker.ask("CONFIG", "SET", setting, "0"))
    assert failed == Failed(f"the server takes nothing: {reason}", stop=True)
    assert asyncio.run(sent(redis_broker.destination(place))) == [Sent()]


def test_a_key_that_is_no_stream_fails_its_message_alone(redis_broker: RedisBroker) -> None:
    """It is named, and the others arrive."""
    place, taken = redis_broker.place(), redis_broker.place()
    asyncio.run(redis_broker.ask("SET", taken, "a string"))
    destination = redis_broker.destination(lambda given: given.event_type)
    failed, stored = asyncio.run(sent(destination, message(event_type=taken), message(event_type=place)))
    assert failed == Failed(f"the key {taken} is no stream")
    assert stored == Sent()


def test_a_message_that_is_sent_again_is_there_twice_under_one_id(redis_broker: RedisBroker) -> None:
    """Redis looks for no duplicates: the consumer does, by ``message-id``."""
    place, given = redis_broker.place(), message()
    asyncio.run(sent(redis_broker.destination(place), given))
    asyncio.run(sent(redis_broker.destination(place), given))
    assert redis_broker.ids(place) == [str(given.id)] * 2


def test_a_stream_keeps_about_as_many_entries_as_it_is_told(redis_broker: RedisBroker) -> None:
    """The oldest are deleted, read or not; without ``entries_max`` none is."""

    async def story() -> None:
        place, kept = redis_broker.place(), redis_broker.place()
        for name, entries_max in ((place, 100), (kept, None)):
            destination: RedisStream = redis_broker.destination(name, entries_max=entries_max)
            for _ in range(3):
                await destination.send([message() for _ in range(200)])
            await destination.close()
        # A node of a stream has 100 entries unless told otherwise, and only whole ones are deleted.
        assert 100 <= len(await redis_broker.received(place)) <= 200
        assert len(await redis_broker.received(kept)) == 600

    asyncio.run(story())


def test_a_connection_that_the_server_closes_is_replaced(redis_broker: RedisBroker) -> None:
    """P-OUT: what was under way on it is in doubt, and goes out again; ``message_bytes_max`` avoids it."""

    async def story() -> None:
        place, given = redis_broker.place(), message()
        destination: RedisStream = redis_broker.destination(place)
        verdicts = await destination.send([message(payload=b'"' + b"x" * 2_000_000 + b'"'), given])
        assert all(isinstance(each, Failed) and not each.permanent for each in verdicts)
        assert await destination.send([given]) == [Sent()]
        await destination.close()
        assert {each.id for each in await redis_broker.received(place)} == {str(given.id)}

    asyncio.run(story())


def test_a_password_that_is_wrong_stops_the_destination(redis_broker: RedisBroker) -> None:
    """P-QUIET: it says so, and not which one."""
    url = redis_broker.server.url.replace("redis://", "redis://me:fake-and-wrong@")
    (failed,) = asyncio.run(sent(RedisStream(url, stream="place")))
    assert failed == Failed("no connection: AuthenticationError", stop=True)
