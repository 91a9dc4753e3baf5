"""Kafka: one aggregate, one partition, one order; and of a broker's answers, which are about the message."""

from __future__ import annotations

import asyncio

import pytest

from tests.fixtures.brokers import SECONDS_MAX, KafkaBroker, message, sent
from webhook_inbox.destinations import Failed, Kafka, Sent

# Error codes of Kafka's protocol.
TOO_LARGE, NOT_ENOUGH_REPLICAS, NO_PERMISSION, OUT_OF_ORDER = 10, 19, 29, 45


def test_the_messages_of_an_aggregate_are_in_one_partition_in_their_order(kafka_broker: KafkaBroker) -> None:
    """The key is the aggregate's id; what is about nothing has none, and goes anywhere."""

    async def story() -> None:
        place = kafka_broker.place()
        await kafka_broker.create(place)
        destination: Kafka = kafka_broker.destination(place)
        given = [message(aggregate_id=f"in_{number % 7}" if number % 8 else "") for number in range(64)]
        for each in given:
            assert await destination.send([each]) == [Sent()]
        await destination.close()
        found = await kafka_broker.received(place)
        assert len({each.partition for each in found}) > 1
        for key in {each.aggregate_id for each in given} - {""}:
            of_key = [each for each in found if each.key == key]
            assert len({each.partition for each in of_key}) == 1
            assert [each.id for each in of_key] == [
                str(each.id) for each in given if each.aggregate_id == key
            ]
        assert sum(not each.key for each in found) == 8

    asyncio.run(story())


@pytest.mark.parametrize(("company", "permanent"), [(0, True), (2, False)])
def test_a_message_is_dead_only_for_its_own_size(
    kafka_broker: KafkaBroker, company: int, permanent: bool
) -> None:
    """P-FLOW: a broker refuses a whole request; whoever was in it with others gets another chance, by itself."""
    place = kafka_broker.place()
    asyncio.run(kafka_broker.create(place))
    kafka_broker.mock.refuse_produces(TOO_LARGE)
    verdicts = asyncio.run(sent(kafka_broker.destination(place), *[message() for _ in range(company + 1)]))
    assert {each.permanent for each in verdicts if isinstance(each, Failed)} == {permanent}


def test_what_the_client_may_send_again_it_sends_once(kafka_broker: KafkaBroker) -> None:
    """The producer is idempotent, and tries again within its time where Kafka says that it may."""
    place, given = kafka_broker.place(), message()
    asyncio.run(kafka_broker.create(place))
    kafka_broker.mock.refuse_produces(NOT_ENOUGH_REPLICAS)
    assert asyncio.run(sent(kafka_broker.destination(place, seconds_max=10.0), given)) == [Sent()]
    assert kafka_broker.ids(place) == [str(given.id)]


def test_an_account_without_permission_stops_the_destination(kafka_broker: KafkaBroker) -> None:
    """No message is charged for it; once it is permitted, the same destination sends."""

    async def story() -> None:
        place = kafka_broker.place()
        await kafka_broker.create(place)
        destination: Kafka = kafka_broker.destination(place)
        kafka_broker.mock.refuse_produces(NO_PERMISSION)
        assert await destination.send([message()]) == [
            Failed(f"the account may not write to {place}", stop=True)
        ]
        assert await destination.send([message()]) == [Sent()]
        await destination.close()

    asyncio.run(story())


def test_a_producer_that_has_lost_its_sequence_is_replaced(kafka_broker: KafkaBroker) -> None:
    """P-OUT: it can send nothing more; what it had under way is in doubt, and the next one sends it."""

    async def story() -> None:
        place, given = kafka_broker.place(), message()
        await kafka_broker.create(place)
        destination: Kafka = kafka_broker.destination(place)
        assert await destination.send([message()]) == [Sent()]
        kafka_broker.mock.refuse_produces(OUT_OF_ORDER)
        (failed,) = await destination.send([given])
        assert isinstance(failed, Failed)
        assert not failed.permanent
        assert await destination.send([given]) == [Sent()]
        await destination.close()
        assert str(given.id) in [each.id for each in await kafka_broker.received(place)]

    asyncio.run(story())


def test_a_record_that_was_given_up_does_not_go_out_later(kafka_broker: KafkaBroker) -> None:
    """P-OUT: what the relay sends again comes after nothing that the client still held."""

    async def story() -> None:
        place, given = kafka_broker.place(), message()
        await kafka_broker.create(place)
        destination: Kafka = kafka_broker.destination(place)
        assert await destination.send([message()]) == [Sent()]
        kafka_broker.server.kill()
        try:
            (failed,) = await destination.send([given])
            assert isinstance(failed, Failed)
        finally:
            kafka_broker.server.start()
        async with asyncio.timeout(10 * SECONDS_MAX):
            while await destination.send([message()]) != [Sent()]:
                pass
        await destination.close()
        assert str(given.id) not in [each.id for each in await kafka_broker.received(place)]

    asyncio.run(story())


def test_closing_ends_a_send_that_is_under_way(kafka_broker: KafkaBroker) -> None:
    """A relay that stops waits for nothing, and its thread for nobody."""

    async def story() -> None:
        place = kafka_broker.place()
        await kafka_broker.create(place)
        destination: Kafka = kafka_broker.destination(place, seconds_max=60.0)
        assert await destination.send([message()]) == [Sent()]
        kafka_broker.server.freeze()
        try:
            sending = asyncio.create_task(destination.send([message()]))
            async with asyncio.timeout(20):
                while not len(destination._producer or ()):
                    await asyncio.sleep(0)
                await destination.close()
                assert await sending == [Failed("given up, as the relay closed the connection")]
        finally:
            kafka_broker.server.thaw()

    asyncio.run(story())
