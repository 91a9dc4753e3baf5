"""
Run each broker for one run, and publish to it with its client alone, as its own documentation does.

The servers are those of the tests, on loopback; Kafka is the mock cluster of librdkafka, in this very process: its
figures say what the relay adds, and nothing about Kafka.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from tests.fixtures.broker_servers import Process, nats_server, rabbitmq_server, redis_server
from tests.fixtures.kafka_mock import KafkaMock
from webhook_inbox.destinations import Destination, Kafka, Nats, RabbitMQ, RedisStream

PLACE = "benchmark"
#: Published at once, then waited for: what the destinations do, too.
TOGETHER = 200
#: Gets the broker's URL and the payloads; ends when each is confirmed.
Publish: TypeAlias = Callable[[str, Sequence[bytes]], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """
    Hold one broker.

    Attributes:
        name: As subjects are called by.
        title: As tables call it.
        serve: Runs it while a block lasts; gives its URL.
        create: Creates the place that messages go to.
        destination: Ours.
        publish: The client alone.
        setting: How the client publishes.
    """

    name: str
    title: str
    serve: Callable[[], AbstractContextManager[str]]
    create: Callable[[str], Coroutine[Any, Any, None]]
    destination: Callable[[str], Destination]
    publish: Publish
    setting: str


@contextmanager
def _served(make: Callable[[Path], Process]) -> Iterator[str]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = make(Path(folder))
        try:
            server.start()
            yield server.url
        finally:
            server.kill()


@contextmanager
def _mocked() -> Iterator[str]:
    mock = KafkaMock()
    mock.create(PLACE, 1)
    try:
        yield mock.url
    finally:
        mock.close()


def batches(payloads: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Give *payloads*, ``TOGETHER`` at a time."""
    for start in range(0, len(payloads), TOGETHER):
        yield payloads[start : start + TOGETHER]


async def _nothing(_: str) -> None:
    """It creates itself, or is created with its server."""


async def _create_stream(url: str) -> None:
    import nats

    client = await nats.connect(url)
    await client.jetstream().add_stream(name=PLACE, subjects=[PLACE])
    await client.close()


async def _publish_nats(url: str, payloads: Sequence[bytes]) -> None:
    import nats

    client = await nats.connect(url)
    stream = client.jetstream()
    for batch in batches(payloads):
        await asyncio.gather(*(stream.publish(PLACE, each) for each in batch))
    await client.close()


async def _declare_queue(url: str) -> None:
    import aio_pika

    async with await aio_pika.connect(url) as connection:
        await (await connection.channel()).declare_queue(PLACE, durable=True)


async def _publish_rabbitmq(url: str, payloads: Sequence[bytes]) -> None:
    import aio_pika

    async with await aio_pika.connect(url) as connection:
        exchange = (await connection.channel(on_return_raises=True)).default_exchange
        mode = aio_pika.DeliveryMode.PERSISTENT
        for batch in batches(payloads):
            made = [aio_pika.Message(each, delivery_mode=mode) for each in batch]
            await asyncio.gather(*(exchange.publish(each, PLACE) for each in made))


async def _publish_redis(url: str, payloads: Sequence[bytes]) -> None:
    from redis.asyncio import Redis

    async with Redis.from_url(url) as client:
        for batch in batches(payloads):
            pipeline = client.pipeline(transaction=False)
            for each in batch:
                _ = pipeline.xadd(PLACE, {"payload": each})
            await pipeline.execute()


async def _publish_kafka(url: str, payloads: Sequence[bytes]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": url, "enable.idempotence": True, "log_level": 0})
    for batch in batches(payloads):
        for each in batch:
            producer.produce(PLACE, each)
        producer.flush()


BROKERS = (
    Broker(
        name="nats",
        title="NATS JetStream",
        serve=partial(_served, nats_server),
        create=_create_stream,
        destination=lambda url: Nats(url, subject=PLACE),
        publish=_publish_nats,
        setting="nats-py, `JetStreamContext.publish`",
    ),
    Broker(
        name="rabbitmq",
        title="RabbitMQ",
        serve=partial(_served, rabbitmq_server),
        create=_declare_queue,
        destination=lambda url: RabbitMQ(url, routing_key=PLACE),
        publish=_publish_rabbitmq,
        setting="aio-pika, publisher confirms, persistent, a durable queue",
    ),
    Broker(
        name="redis",
        title="Redis streams",
        serve=partial(_served, redis_server),
        create=_nothing,
        destination=lambda url: RedisStream(url, stream=PLACE),
        publish=_publish_redis,
        setting="redis-py, XADD in a pipeline, an append-only file synced each second",
    ),
    Broker(
        name="kafka",
        title="Kafka (mock cluster)",
        serve=_mocked,
        create=_nothing,
        destination=lambda url: Kafka(url, topic=PLACE),
        publish=_publish_kafka,
        setting="confluent-kafka, idempotent, flushed for each batch",
    ),
)


@contextmanager
def served(broker: Broker) -> Iterator[str]:
    """Run *broker*, with the place that messages go to."""
    with broker.serve() as url:
        asyncio.run(broker.create(url))
        yield url
