"""What the page about brokers shows runs as it stands, on each broker; what it says of them is what the code says."""

from __future__ import annotations

import asyncio
import re
import sys
import types
from pathlib import Path
from typing import Any

import aio_pika
import psycopg
import pytest

from tests.fixtures.brokers import KafkaBroker, NatsBroker, RabbitBroker, RedisBroker, message
from tests.fixtures.outbox import Outbox
from webhook_inbox.destinations import Kafka, Nats, RabbitMQ, RedisStream
from webhook_inbox.destinations.broker import headers_of

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "relay-destinations.md"


def relayed(title: str, database: str, monkeypatch: pytest.MonkeyPatch, **environment: str) -> list[Any]:
    """Run the block of that section, relay one message with it; the states and reasons of sends."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for name, value in {"WEBHOOK_INBOX_DATABASE_URL": database, **environment}.items():
        monkeypatch.setenv(name, value)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    exec(compile(block, PAGE.name, "exec"), module.__dict__)  # noqa: S102 - the page is ours
    box = Outbox(database)
    box.write("Paid", aggregate_type="Invoice", aggregate_id="in_1")
    asyncio.run(module.__dict__["inbox"].relay(drain=True))
    return box.sends("state", "last_error")


def test_nats(nats_broker: NatsBroker, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream takes every subject below its own."""

    async def create() -> None:
        async with nats_broker.context() as context:
            await context.add_stream(name="BILLING", subjects=["billing.>"], duplicate_window=7200)

    asyncio.run(create())
    sent = relayed("NATS JetStream", database, monkeypatch, NATS_URL=nats_broker.server.url)
    assert sent == [("sent", None)]
    assert len(nats_broker.ids("BILLING")) == 1


def test_rabbitmq(rabbitmq_broker: RabbitBroker, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue is bound to the exchange by the event's type."""

    async def declare() -> None:
        async with await aio_pika.connect(rabbitmq_broker.server.url) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange("billing", "direct", durable=True)
            await (await channel.declare_queue("paid", durable=True)).bind(exchange, "Paid")

    asyncio.run(declare())
    sent = relayed("RabbitMQ", database, monkeypatch, AMQP_URL=rabbitmq_broker.server.url)
    assert sent == [("sent", None)]
    assert len(rabbitmq_broker.ids("paid")) == 1


def test_redis(redis_broker: RedisBroker, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing need be created."""
    sent = relayed("Redis streams", database, monkeypatch, REDIS_URL=redis_broker.server.url)
    assert sent == [("sent", None)]
    assert len(redis_broker.ids("billing")) == 1


def test_kafka(kafka_broker: KafkaBroker, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is the aggregate's id."""
    asyncio.run(kafka_broker.create("billing"))
    sent = relayed("Kafka", database, monkeypatch, KAFKA_SERVERS=kafka_broker.server.url)
    assert sent == [("sent", None)]
    (found,) = asyncio.run(kafka_broker.received("billing"))
    assert found.key == "in_1"


def test_every_header_and_every_destination_stands_on_the_page() -> None:
    """A reader finds each by its name."""
    text = PAGE.read_text(encoding="utf-8")
    names = [*headers_of(message()), *(each.__name__ for each in (Kafka, Nats, RabbitMQ, RedisStream))]
    assert [name for name in names if f"`{name}" not in text] == []


def test_the_page_s_table_of_the_taken_takes_a_message_once(database: str) -> None:
    """The second insert of an id gives no row."""
    create, insert = re.findall(r"```sql\n(.*?);\n\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    box = Outbox(database)
    box.rows(create)
    one = {"message_id": str(message().id)}
    statement = insert.partition(";")[0] + " RETURNING message_id"
    with psycopg.connect(database) as conn:
        assert len(conn.execute(statement.encode(), one).fetchall()) == 1
        assert conn.execute(statement.encode(), one).fetchall() == []
