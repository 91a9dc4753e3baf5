"""JetStream: a copy under the same id is dropped, and what its stream says of a message is told apart."""

from __future__ import annotations

import asyncio

from tests.fixtures.brokers import NatsBroker, message, sent
from webhook_inbox.destinations import Failed, Nats, Sent


def test_a_message_that_is_sent_again_is_stored_once(nats_broker: NatsBroker) -> None:
    """P-OUT: by ``Nats-Msg-Id``, within the stream's duplicate window; the copy is acknowledged all the same."""
    place, given = nats_broker.place(), message()
    asyncio.run(nats_broker.create(place))
    for _ in range(2):
        assert asyncio.run(sent(nats_broker.destination(place), given)) == [Sent()]
    assert nats_broker.ids(place) == [str(given.id)]


def test_past_the_duplicate_window_a_copy_is_stored_and_has_the_same_id(nats_broker: NatsBroker) -> None:
    """The boundary of the above: the consumer looks, too."""

    async def story() -> None:
        place, given = nats_broker.place(), message()
        await nats_broker.create(place, duplicate_window=0.1)
        destination: Nats = nats_broker.destination(place)
        async with asyncio.timeout(20):
            while len(await nats_broker.received(place)) < 2:
                assert await destination.send([given]) == [Sent()]
        await destination.close()
        assert {each.id for each in await nats_broker.received(place)} == {str(given.id)}

    asyncio.run(story())


def test_a_full_stream_stops_the_destination_and_costs_no_attempt(nats_broker: NatsBroker) -> None:
    """It is not the message's fault, and no other one would fare better."""
    place = nats_broker.place()
    asyncio.run(nats_broker.create(place, max_msgs=1, discard="new"))
    stored, failed = asyncio.run(sent(nats_broker.destination(place), message(), message()))
    assert stored == Sent()
    assert failed == Failed("its stream is full, or has no leader (NATS error 10077)", stop=True)


def test_what_is_larger_than_its_stream_takes_is_dead(nats_broker: NatsBroker) -> None:
    """The server would take it, the stream never will."""
    place = nats_broker.place()
    asyncio.run(nats_broker.create(place, max_msg_size=1_000))
    large = message(payload=b'"' + b"x" * 2_000 + b'"')
    stored, failed = asyncio.run(sent(nats_broker.destination(place), message(), large))
    assert stored == Sent()
    assert failed == Failed("it is larger than its stream takes (max_msg_size)", permanent=True)


def test_a_subject_that_another_stream_takes_is_refused(nats_broker: NatsBroker) -> None:
    """With ``stream``, nobody can put another one in its place unseen."""
    place = nats_broker.place()
    asyncio.run(nats_broker.create(place))
    (failed,) = asyncio.run(sent(nats_broker.destination(place, stream="billing")))
    assert failed == Failed(f"the subject {place} is taken by another stream than billing")
    assert asyncio.run(sent(nats_broker.destination(place, stream=place))) == [Sent()]


def test_a_subject_that_nats_cannot_have_fails_its_message_alone(nats_broker: NatsBroker) -> None:
    """A line break in it would be a command of its own."""
    place = nats_broker.place()
    asyncio.run(nats_broker.create(place))
    destination = nats_broker.destination(lambda given: given.event_type)
    failed, stored = asyncio.run(
        sent(destination, message(event_type=f"{place}\r\nPUB other 0"), message(event_type=place))
    )
    assert isinstance(failed, Failed)
    assert stored == Sent()
    assert len(nats_broker.ids(place)) == 1
