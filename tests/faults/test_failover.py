"""
Lose the primary under load and go on with its standby: who is told of both servers needs no restart.

Synchronous, what was acknowledged is on the standby. Asynchronous, what the primary had not sent yet is lost with it,
as with every database; how much that is can be counted, and what the provider still lists comes back by asking it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tests.faults.invariants import check_ledger, one_row, until
from tests.faults.ledger import Ledger
from tests.faults.paths import PARTS
from tests.faults.replicas import Pair, primary_and_standby
from tests.faults.sender import STRIPE_SECRET, Letter, Sender
from tests.faults.server import Nursery, Server
from tests.faults.worker_app import WORKER_TABLES
from tests.faults.worker_bench import WorkerBench
from tests.fixtures.provider_apis import API_KEY, StripeApi, served
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe

SETTINGS = {"poll_seconds": 0.1, "lease_seconds": 3.0, "connection_wait_seconds": 1.0, "crashes_max": 100}
ENDPOINTS = ("one-sync", "one-async", "inline-async")
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'"
)
#: As a time limit of the server's does, or an operator.
GIVE_UP = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Two servers; the parameter says whether the second has every commit that the first confirms."""
    with primary_and_standby(tmp_path, synchronous=request.param, script=WORKER_TABLES) as pair:
        yield pair


class Shop:
    """Receive and work against both servers of *pair*, and deliver to it."""

    def __init__(self, nursery: Nursery, pair: Pair, room: Path) -> None:
        self.bench = WorkerBench(nursery, pair.dsn, room).on(*ENDPOINTS, **SETTINGS)
        self.ledger = Ledger(room / "ledger")
        self.receiver: Server
        self.receiver, *self.working = nursery.servers[:3]
        self.endpoints: dict[str, str] = {}
        self._numbers = count()

    def start(self) -> None:
        """Start a receiver and two workers."""
        self.receiver.start(self.bench.setup(0, role="receiver"))
        for number, server in enumerate(self.working, start=1):
            server.start(self.bench.setup(number, drain=False))

    def close(self) -> None:
        """End what lives."""
        self.bench.close()

    def letter(self) -> Letter:
        """Make an event that must be applied."""
        number = next(self._numbers)
        letter = self.bench.letter(ENDPOINTS[number % len(ENDPOINTS)], f"evt_{number}", "test.paid")
        self.bench.expect(letter)
        self.endpoints[letter.event] = letter.path.strip("/")
        return letter

    def deliver(self, times: int = 1) -> None:
        """Deliver new events until each is acknowledged."""
        for _ in range(times):
            assert Sender(self.receiver.address, self.ledger).deliver(self.letter()).heard

    def settle(self, dsn: str) -> None:
        """Wait until all that the server at *dsn* has is settled."""
        with psycopg.connect(dsn, autocommit=True) as connection:
            self.bench.__dict__["connection"] = connection
            until(lambda: self.bench.unsettled() == 0, "everything is applied", 60)
        del self.bench.__dict__["connection"]


@pytest.fixture
def shop(worker_nursery: Nursery, pair: Pair, tmp_path: Path) -> Iterator[Shop]:
    """A receiver and two workers, started."""
    shop = Shop(worker_nursery, pair, tmp_path)
    try:
        shop.start()
        yield shop
    finally:
        shop.close()


def missing(shop: Shop, dsn: str) -> set[str]:
    """The events that were acknowledged and that the server at *dsn* has never heard of."""
    with psycopg.connect(dsn) as connection:
        known = {row[0] for row in connection.execute("SELECT event_id FROM webhooks.inbox")}
    return shop.ledger.acknowledged.keys() - known


@pytest.mark.parametrize("pair", [True], indirect=True, ids=["synchronous"])
def test_a_synchronous_standby_that_takes_over_has_all_that_was_acknowledged(pair: Pair, shop: Shop) -> None:
    """The primary is killed under load, the standby promoted: nothing lost, nothing twice (P-ACK, P-ONCE)."""
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            shop.deliver()

    senders = [threading.Thread(target=go_on) for _ in range(2)]
    for sender in senders:
        sender.start()
    try:
        until(lambda: len(shop.ledger.acknowledged) >= 30, "events come in", 30)
        pair.primary.kill()
        pair.promote()
        enough = len(shop.ledger.acknowledged) + 30
        until(lambda: len(shop.ledger.acknowledged) >= enough, "events come in again", 30)
    finally:
        stop.set()
        for sender in senders:
            sender.join(60)
    shop.settle(pair.standby.dsn)
    assert missing(shop, pair.standby.dsn) == set()
    for server in (shop.receiver, *shop.working):
        assert server.stop().status == 0
    shop.bench.check(again_in_one_claim=True, uncounted=shop.ledger.acknowledged)
    with psycopg.connect(pair.standby.dsn) as connection:
        assert check_ledger(connection, shop.ledger) == []


@pytest.mark.parametrize("pair", [False], indirect=True, ids=["asynchronous"])
def test_what_an_asynchronous_standby_never_had_is_counted_and_found_by_asking(
    pair: Pair, shop: Shop, tally: Counter[str]
) -> None:
    """Acknowledged events that went down with the primary come back through reconcile, once each (P-FIND, P-ONCE)."""
    shop.deliver(9)
    shop.settle(pair.primary.dsn)
    pair.cut()
    shop.deliver(12)
    pair.primary.kill()
    pair.promote()
    shop.deliver(3)
    lost = missing(shop, pair.standby.dsn)
    assert lost, "the primary had told of everything"
    tally["acknowledged events that a failover lost, and reconcile found"] += len(lost)
    for endpoint in ENDPOINTS:
        asked = [event for event in lost if shop.endpoints[event] == endpoint]
        assert asyncio.run(ask(pair.standby.dsn, endpoint, asked)) == len(asked)
    assert missing(shop, pair.standby.dsn) == set()
    shop.settle(pair.standby.dsn)
    for server in (shop.receiver, *shop.working):
        assert server.stop().status == 0
    with psycopg.connect(pair.standby.dsn) as connection:
        applied = Counter(event for (event,) in connection.execute("SELECT event_id FROM effects"))
    assert applied == Counter(dict.fromkeys(shop.ledger.acknowledged, len(PARTS)))


async def ask(dsn: str, endpoint: str, event_ids: list[str]) -> int:
    """Ask a provider that has *event_ids*; give how many were new."""
    api = StripeApi()
    api.hold.set()
    for event_id in event_ids:
        api.add(event_id, type="test.paid")
    with served(api):
        inbox = Inbox(dsn)
        source = Stripe(STRIPE_SECRET, api_key=API_KEY, api_base=api.url)
        inbox.endpoint(endpoint, source, mode="queued").on("test.*")(lambda tx, event: None)
        async with inbox.running():
            return (await inbox.reconcile(endpoint, since_seconds=86_400)).tally.recovered


@pytest.mark.parametrize("pair", [True], indirect=True, ids=["synchronous"])
def test_a_commit_that_the_standby_has_not_confirmed_is_not_acknowledged(pair: Pair, shop: Shop) -> None:
    """The server gives up waiting for its standby, says so, and confirms: the answer is 503 (P-ACK)."""
    shop.deliver(3)
    pair.cut()
    letters = [shop.letter() for _ in ENDPOINTS]
    sender = Sender(shop.receiver.address, shop.ledger, attempts_max=1)
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(sender.attempt, letter) for letter in letters]
        with psycopg.connect(pair.primary.dsn, autocommit=True) as connection:
            until(lambda: one_row(connection, WAITING)[0] >= 1, "a commit waits for the standby", 20)
            until(
                lambda: connection.execute(GIVE_UP) is not None and all(each.done() for each in answers),
                "all are answered",
                60,
            )
    assert [answer.result().status for answer in answers] == [503] * len(letters)
