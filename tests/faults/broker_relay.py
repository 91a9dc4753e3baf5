"""The relay that is killed while it sends to a broker; forked from a program that has imported everything."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aio_pika  # noqa: F401 - imported here once, as those below, not in each relay
import confluent_kafka  # noqa: F401
import nats.aio.client  # noqa: F401
import redis.asyncio  # noqa: F401

from tests.faults import nursery
from tests.faults.app import Setup
from tests.faults.worker_app import await_heartbeat
from webhook_inbox import Inbox
from webhook_inbox.destinations import Destination, Kafka, Nats, RabbitMQ, RedisStream
from webhook_inbox.testing.points import Passing, PointKiller, PointRecorder

MADE: dict[str, Callable[[str, str], Destination]] = {
    "nats": lambda url, place: Nats(url, subject=place),
    "rabbitmq": lambda url, place: RabbitMQ(url, routing_key=place),
    "redis": lambda url, place: RedisStream(url, stream=place),
    "kafka": lambda url, place: Kafka(url, topic=place),
}


@dataclass(frozen=True, slots=True)
class BrokerSetup(Setup):
    """
    Say how a relay is set up; passed to it as JSON.

    Attributes:
        kind: Of broker.
        url: Where it is.
        place: The subject, queue, stream or topic.
        told: A file: the points that it passed.
        die_at: The passing at which it dies, if anywhere.
    """

    kind: str = "nats"
    url: str = "nats://127.0.0.1:9"
    place: str = ""
    told: str = os.devnull
    die_at: str = ""


class BrokerNursery(nursery.Nursery):
    """Fork relays."""

    def serve_on(self, lane: socket.socket, setup: dict[str, Any]) -> None:
        """Be a relay until nothing is due, or until it dies."""
        lane.close()
        run(BrokerSetup(**setup))


def run(setup: BrokerSetup) -> None:
    """Relay until nothing is due."""
    recorder, killer = PointRecorder(), PointKiller(Path(setup.witness))
    if setup.die_at:
        killer.arm(Passing.parse(setup.die_at))

    def probe(point: str) -> None:
        recorder(point)
        killer(point)

    inbox = Inbox(setup.dsn, probe=probe, **setup.settings)
    inbox.destination("broker", MADE[setup.kind](setup.url, setup.place))
    asyncio.run(inbox.relay(drain=True))
    await_heartbeat()
    Path(setup.told).write_text("\n".join(sorted({each.point for each in recorder.passings})))


def main() -> None:
    """Fork onto the sockets whose numbers are given."""
    lanes = [socket.socket(fileno=int(number)) for number in sys.argv[1:]]
    Inbox("postgresql:///nowhere")
    gc.collect()
    gc.freeze()
    nursery.say(ready=os.getpid())
    BrokerNursery(lanes).serve()


if __name__ == "__main__":
    main()
