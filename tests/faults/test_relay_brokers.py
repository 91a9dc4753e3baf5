"""
Kill the relay between a broker's confirmation and its own mark, and the broker under the relay: all arrive.

A relay is killed by SIGKILL before and after the send and before and after the mark is committed, three times each,
with new messages to send each time, of which half are rolled back; at every point that it passes, and as often as it
says, where WEBHOOK_INBOX_TEST_KILLS is set.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.broker_relay import BrokerSetup
from tests.faults.conftest import EACH_WITH_EACH, KILLS
from tests.faults.server import Nursery
from tests.fixtures.brokers import Broker, RabbitBroker
from tests.fixtures.outbox import Outbox
from tests.fixtures.queue import until
from webhook_inbox import Inbox
from webhook_inbox.destinations import RabbitMQ
from webhook_inbox.testing.points import Passing

BATCH = 4
POINTS = ("send.before", "send.after", "settle_messages.commit.before", "settle_messages.commit.after")
EXPIRE = "UPDATE webhooks.workers SET lease_ends_at = clock_timestamp() - interval '1 s'"
INSERT = "INSERT INTO webhooks.outbox (event_type, payload, aggregate_id) VALUES ('Paid', '{}', '1') RETURNING id::text"


@pytest.fixture(scope="session")
def broker_nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Starts relays in milliseconds."""
    log = tmp_path_factory.mktemp("broker-nursery") / "log"
    started = Nursery(lanes=1, log=log, program="tests.faults.broker_relay")
    try:
        yield started
    finally:
        started.close()
    assert "Traceback" not in log.read_text(), f"a relay wrote a traceback: {log}"


class KilledRelay:
    """Hold one test's outbox, the relays that are started on it one after another, and what was committed."""

    def __init__(self, nursery: Nursery, broker: Broker, place: str, dsn: str, folder: Path) -> None:
        self.box = Outbox(dsn)
        self.committed: list[str] = []
        self._server = nursery.servers[0]
        self._broker, self._place, self._folder = broker, place, folder

    def write(self) -> None:
        """Commit ``BATCH`` messages in transactions of their own, and roll as many others back."""
        with psycopg.connect(self.box.dsn) as conn:
            for kept in (True, False) * BATCH:
                row = conn.execute(INSERT).fetchone()
                assert row is not None
                (conn.commit if kept else conn.rollback)()
                self.committed.extend([row[0]] if kept else [])

    def die_at(self, point: str) -> None:
        """Start a relay with something to do, and have it die at *point*."""
        self.write()
        passing = Passing(point)
        self._server.start(self._setup(die_at=str(passing)))
        assert self._server.witnessed(self._server.death(), passing), point
        self.box.rows(EXPIRE)
        self.box.take_back()
        self.box.make_due()

    def in_peace(self) -> set[str]:
        """Have a relay send what is due; the points that it passed."""
        self._server.start(self._setup())
        assert self._server.death().status == 0
        return set((self._folder / "told").read_text().split())

    def _setup(self, die_at: str = "") -> BrokerSetup:
        return BrokerSetup(
            self.box.dsn,
            str(self._folder / "witness"),
            settings={"lease_seconds": 600.0, "poll_seconds": 0.05},
            kind=self._broker.kind,
            url=self._broker.server.url,
            place=self._place,
            told=str(self._folder / "told"),
            die_at=die_at,
        )


@pytest.mark.timeout(90 + 60 * KILLS)
def test_a_relay_killed_around_each_send_loses_nothing_and_doubles_nothing_but_an_id(
    broker: Broker, broker_nursery: Nursery, database: str, tmp_path: Path, tally: Counter[str]
) -> None:
    """P-OUT: each committed message is there, none of a rolled-back one; copies have its id, and JetStream none."""
    place = broker.place()
    asyncio.run(broker.create(place, **({"duplicate_window": 3600} if broker.kind == "nats" else {})))
    relay = KilledRelay(broker_nursery, broker, place, database, tmp_path)
    relay.write()
    passed = relay.in_peace()
    assert set(POINTS) < passed
    points = sorted(passed) if EACH_WITH_EACH else POINTS
    for point in points:
        for _ in range(KILLS):
            relay.die_at(point)
    relay.in_peace()
    arrived = Counter(broker.ids(place))
    assert set(arrived) == set(relay.committed)
    assert set(relay.box.sends()) == {"sent"}
    copies = arrived.total() - len(arrived)
    assert (copies == 0) == (broker.kind == "nats")
    tally[f"copies under the same id at {broker.kind}, of relays that were killed"] += copies
    tally["kills of relays that send to brokers"] += len(points) * KILLS


def test_a_broker_that_dies_under_a_relay_gets_all_when_it_is_back(
    broker: Broker, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """P-OUT, P-COUNT: meanwhile nothing is marked, and no message is charged for more than what was under way."""

    async def story() -> None:
        place = broker.place()
        await broker.create(place)
        box = Outbox(database)
        inbox = Inbox(database, poll_seconds=0.05, stop_seconds_max=5.0)
        inbox.destination("broker", broker.destination(place))
        async with inbox.running(relay=True):
            ids = box.write(*["Paid"] * 5)
            await until(lambda: len(box.published()) == 5)
            broker.server.kill()
            try:
                ids += box.write(*["Paid"] * 30)
                await until(lambda: "nothing is sent there for" in caplog.text)
                assert len(box.published()) == 5
                assert max(box.sends("attempts")) <= 1
            finally:
                broker.server.start()
            await until(lambda: len(box.published()) == 35, 60)
        assert {each.id for each in await broker.received(place)} == set(ids)

    with caplog.at_level(logging.WARNING, "webhook_inbox"):
        asyncio.run(story())


def test_what_a_broker_lacks_is_told_in_the_log(
    rabbitmq_broker: RabbitBroker, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The destination's own words, before anything is claimed; a client's would be told by their kind alone."""

    async def story() -> None:
        box = Outbox(database)
        inbox = Inbox(database)
        inbox.destination("broker", RabbitMQ(rabbitmq_broker.server.url, exchange="billing", routing_key="x"))
        box.write("Paid")
        await inbox.relay(drain=True)
        assert box.sends("state", "attempts", "claims") == [("waiting", 0, 0)]

    with caplog.at_level(logging.WARNING, "webhook_inbox"):
        asyncio.run(story())
    assert "RabbitMQ has no exchange billing: declare it, and bind a queue to it" in caplog.text
