"""Drain an outbox to each broker, in turns with the same client that publishes the same payloads in a bare loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.figures import Figures
from benchmarks.harness.ours import migrate
from benchmarks.harness.suite import Bench, Subject, Suite
from benchmarks.relay.brokers import BROKERS, TOGETHER, Broker, served
from webhook_inbox import Inbox

MESSAGES, MESSAGES_QUICK = 20_000, 1_000
_PAYLOAD = json.dumps({"invoice": "in_1", "note": "x" * 1_000})
_WRITE = """
INSERT INTO webhooks.outbox (event_type, payload, aggregate_type, aggregate_id)
SELECT 'Paid', %(payload)s, 'Invoice', n::text FROM generate_series(1, %(messages)s) AS n
"""
_LEFT = "SELECT count(*) FROM webhooks.outbox WHERE published_at IS NULL"


def measure_relay(broker: Broker, bench: Bench) -> Figures:
    """Relay all that lies in an outbox; one process, one destination."""
    messages = _messages(bench)
    with served(broker) as url, bench.server.database() as database:
        migrate(database)
        database.execute(_WRITE, {"payload": _PAYLOAD, "messages": messages})
        database.vacuum()
        inbox = Inbox(database.dsn)
        inbox.destination("broker", broker.destination(url))
        with _timed(messages) as figures:
            asyncio.run(inbox.relay(drain=True))
        if left := database.value(_LEFT):
            raise InvariantError(f"{left} of {messages} messages were not published")
    return figures


def measure_client(broker: Broker, bench: Bench) -> Figures:
    """Publish as many with the client alone: nothing is read, marked or remembered."""
    messages = _messages(bench)
    with served(broker) as url, _timed(messages) as figures:
        asyncio.run(broker.publish(url, [_PAYLOAD.encode()] * messages))
    return figures


def _messages(bench: Bench) -> int:
    return MESSAGES_QUICK if bench.quick else MESSAGES


@contextmanager
def _timed(messages: int) -> Iterator[dict[str, float]]:
    """Give the figures of the block, once it has ended: messages a second, and this process's processor time."""
    figures: dict[str, float] = {}
    began, cpu = time.perf_counter(), time.process_time()
    yield figures
    figures["per_second"] = messages / (time.perf_counter() - began)
    figures["cpu_us"] = (time.process_time() - cpu) / messages * 1e6


def _subjects(broker: Broker) -> Iterator[Subject]:
    yield Subject(
        name=f"{broker.name}_client",
        group="limits",
        title=f"{broker.title}: the client alone",
        setting=f"{broker.setting}; {TOGETHER} at once, 1 KB each",
        measure=partial(measure_client, broker),
        reference=f"{broker.name}_client",
    )
    yield Subject(
        name=f"{broker.name}_relay",
        group="ours",
        title=f"{broker.title}: the relay",
        setting=f"from an outbox of {MESSAGES:,} messages of 1 KB, each marked when it is confirmed",
        measure=partial(measure_relay, broker),
        reference=f"{broker.name}_client",
    )


SUITE = Suite(
    name="relay",
    about="messages a second from the outbox to each broker, in those of its client alone",
    subjects=[subject for broker in BROKERS for subject in _subjects(broker)],
    reference="nats_client",
    seconds=0.0,
)
