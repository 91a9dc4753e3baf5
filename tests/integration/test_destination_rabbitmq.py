"""RabbitMQ: only what a queue has taken is confirmed; a refusal and a return are failures, never silence."""

from __future__ import annotations

import asyncio
from typing import Any

import aio_pika

from tests.fixtures.brokers import RabbitBroker, message, sent
from webhook_inbox.destinations import Failed, RabbitMQ, Sent


def test_what_no_queue_takes_has_failed_and_fails_no_other(rabbitmq_broker: RabbitBroker) -> None:
    """P-OUT: the broker would acknowledge it, and drop it; somebody may yet bind a queue, so it is not dead."""
    place = rabbitmq_broker.place()
    asyncio.run(rabbitmq_broker.create(place))
    destination = rabbitmq_broker.destination(lambda given: given.event_type)
    lost = message(event_type="nowhere")
    stored, failed = asyncio.run(sent(destination, message(event_type=place), lost))
    assert stored == Sent()
    assert failed == Failed("no queue takes the routing key nowhere by its name: declare and bind one")


def test_a_queue_that_refuses_is_a_failure(rabbitmq_broker: RabbitBroker) -> None:
    """P-OUT: a nack; the queue may have room later."""
    place = rabbitmq_broker.place()
    asyncio.run(rabbitmq_broker.create(place, **{"x-max-length": 1, "x-overflow": "reject-publish"}))
    verdicts = asyncio.run(sent(rabbitmq_broker.destination(place), message(), message()))
    assert verdicts == [Sent(), Failed("the broker refused it (nack): a queue is full, or failed")]


def test_an_exchange_that_is_not_there_is_named_and_taken_once_it_is(rabbitmq_broker: RabbitBroker) -> None:
    """P-OUT: nothing can be sent, so no message is charged; and what then has no queue has failed, too."""

    async def story() -> None:
        place = rabbitmq_broker.place()
        destination: RabbitMQ = rabbitmq_broker.destination("key", exchange=place)
        (failed,) = await destination.send([message()])
        assert failed == Failed(
            f"no connection: RabbitMQ has no exchange {place}: declare it, and bind a queue to it", stop=True
        )
        async with await aio_pika.connect(rabbitmq_broker.server.url) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange(place, "direct")
            (failed,) = await destination.send([message()])
            assert failed == Failed(
                f"no queue takes the routing key key of the exchange {place}: declare and bind one"
            )
            await (await channel.declare_queue(place, durable=True)).bind(exchange, "key")
            assert await destination.send([message()]) == [Sent()]
        await destination.close()
        assert len(await rabbitmq_broker.received(place)) == 1

    asyncio.run(story())


def test_a_channel_that_the_broker_closes_is_replaced(rabbitmq_broker: RabbitBroker) -> None:
    """P-OUT: what was under way on it is in doubt, and goes out again; ``message_bytes_max`` avoids it."""

    async def story() -> None:
        place = rabbitmq_broker.place()
        await rabbitmq_broker.create(place)
        destination: RabbitMQ = rabbitmq_broker.destination(place)
        given: list[Any] = [message(payload=b'"' + b"x" * 2_000_000 + b'"'), message()]
        verdicts = await destination.send(given)
        assert {type(each) for each in verdicts} == {Failed}
        assert "max_message_size" in str(verdicts[0])
        assert await destination.send(given[1:]) == [Sent()]
        await destination.close()
        assert {each.id for each in await rabbitmq_broker.received(place)} == {str(given[1].id)}

    asyncio.run(story())


def test_a_password_that_is_wrong_stops_the_destination(rabbitmq_broker: RabbitBroker) -> None:
    """P-QUIET: it says so, and not which one."""
    url = rabbitmq_broker.server.url.replace("guest:guest", "guest:fake-and-wrong")
    (failed,) = asyncio.run(sent(RabbitMQ(url, routing_key="place")))
    assert failed == Failed("no connection: ProbableAuthenticationError", stop=True)


def test_the_properties_are_those_that_consumers_look_at(rabbitmq_broker: RabbitBroker) -> None:
    """Id, type of content and time are AMQP's own, too."""

    async def story() -> None:
        place, given = rabbitmq_broker.place(), message()
        await rabbitmq_broker.create(place)
        assert await sent(rabbitmq_broker.destination(place), given) == [Sent()]
        async with await aio_pika.connect(rabbitmq_broker.server.url) as connection:
            queue = await (await connection.channel()).get_queue(place)
            found = await queue.get(timeout=10)
            assert found is not None
            assert (found.message_id, found.content_type) == (str(given.id), "application/json")
            assert found.timestamp == given.created_at

    asyncio.run(story())
