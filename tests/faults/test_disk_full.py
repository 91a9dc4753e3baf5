"""
Fill the server's disk under a receiver and a worker: whoever cannot be stored is asked to come again, nobody else is
disturbed, no attempt is used up; and once there is room all goes on, with no process of ours started again.

PostgreSQL lies on a file system of its own, which is filled to the last byte. A table or index that needs another page
is refused one then (53100). Where the log needs another file the server ends itself, and stays away until it is started
again with room.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from tests.faults.app import KINDS, TABLES
from tests.faults.invariants import check_expected, check_ledger, one_row, until
from tests.faults.ledger import Ledger
from tests.faults.sender import Letter, Sender
from tests.faults.server import Nursery
from tests.faults.small_disk import SmallDisk, small_disk
from tests.faults.worker_bench import WorkerBench
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.testing.databases import apply_migrations

MEGABYTES = 160
#: Of a body that compresses badly: far more than the pages at hand hold.
BODY_CHARS = 120_000
#: One attempt and one crash are all that an event has: what costs it one kills it.
SETTINGS = {
    "poll_seconds": 0.1,
    "lease_seconds": 10.0,
    "connection_wait_seconds": 0.5,
    "attempts_max": 1,
    "crashes_max": 1,
}
QUEUED = [f"one-{kind}" for kind in KINDS]
INLINE = [f"inline-{kind}" for kind in KINDS]
#: A page takes a few effects only, and a few events, which then have room to be changed in.
PAGES = """
    ALTER TABLE effects SET (fillfactor = 10);
    ALTER TABLE webhooks.inbox SET (fillfactor = 20);
    CREATE TABLE filler (content text);
"""
BACKLOG_EACH = 12
#: The log begins a file, which has room for all that is to come.
FRESH_LOG = "SELECT pg_switch_wal()"
ANOTHER_PAGE = "INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 100)"
#: A megabyte of log, and how many are more than the files at hand hold.
LOG = "SELECT count(pg_logical_emit_message(true, 'filler', repeat('x', 1000))) FROM generate_series(1, 1000)"
LOG_MEGABYTES = 100
OPEN = "SELECT count(*) FROM webhooks.inbox WHERE state IN ('waiting', 'leased', 'retrying')"
MET_SHORTAGE = "SELECT count(*) FROM webhooks.attempts WHERE sqlstate = '53100'"
BRING_FORWARD = "UPDATE webhooks.inbox SET available_at = clock_timestamp() WHERE state = 'retrying'"
ATTEMPTS = "SELECT DISTINCT attempts, crashes FROM webhooks.inbox"


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    """The server's, where its own account can come to; pytest keeps its folders to itself."""
    with TemporaryDirectory(prefix="webhook-inbox-") as room:
        Path(room).chmod(0o755)
        with small_disk(Path(room) / "disk", MEGABYTES) as disk:
            yield disk


@pytest.fixture
def server(disk: SmallDisk) -> Iterator[EmbeddedPostgres]:
    """A server that has nothing but the disk, where nobody cleans up; once it has ended itself it stays away."""
    settings = {"max_connections": "40", "autovacuum": "off", "restart_after_crash": "off"}
    with EmbeddedPostgres(disk.folder / "server", durable=False, settings=settings) as server:
        apply_migrations(server.dsn)
        with psycopg.connect(server.dsn) as connection:
            connection.execute((TABLES + PAGES).encode())
        try:
            yield server
        finally:
            disk.make_room()


class Shop:
    """A receiver and a worker on the disk, and a sender that keeps account."""

    def __init__(self, nursery: Nursery, dsn: str, room: Path) -> None:
        self.bench = WorkerBench(nursery, dsn, room).on(*QUEUED, *INLINE, **SETTINGS)
        self.worker, self.receiver = nursery.servers[:2]
        self.ledger = Ledger(room / "ledger")
        self.receiver.start(self.bench.setup(1, role="receiver"))
        self.sender = Sender(self.receiver.address, self.ledger)

    def letters(
        self, name: str, endpoints: list[str], count: int, event_type: str, **data: object
    ) -> list[Letter]:
        """Make *count* events for each of *endpoints*, all of which must be applied in the end."""
        made = [
            self.bench.letter(endpoint, f"evt_{name}_{endpoint}_{number}", event_type, **data)
            for endpoint in endpoints
            for number in range(count)
        ]
        for letter in made:
            self.bench.expect(letter)
        return made

    def prosper(self) -> None:
        """Have some events applied, one of them late, and a backlog that nobody works for yet."""
        for letter in self.letters("early", [*QUEUED, *INLINE], 2, "test.paid"):
            assert self.sender.deliver(letter).heard
        for letter in self.letters("late", QUEUED, 1, "test.not_yet_once"):
            assert self.sender.deliver(letter).heard
        self.bench.drained()
        self.bench.work_off()
        for letter in self.letters("backlog", QUEUED, BACKLOG_EACH, "test.paid"):
            assert self.sender.deliver(letter).heard

    def send_what_needs_room(self) -> list[Letter]:
        """Deliver, all at once, what cannot be stored; each is asked to come again."""
        body = random.Random("needs room").randbytes(BODY_CHARS // 2).hex()
        letters = self.letters("large", [*QUEUED, *INLINE], 3, "test.paid", body=body)
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(self.sender.attempt, letters))
        for answer in answers:
            assert (answer.status, answer.outcome) == (503, "unavailable"), answer
            assert int(answer.headers["retry-after"]) >= 1
        return letters

    def recover(self, letters: list[Letter]) -> None:
        """Deliver *letters* again, and wait until all is applied."""
        for letter in letters:
            assert self.sender.deliver(letter).heard

        with psycopg.connect(self.bench.dsn, autocommit=True) as connection:

            def settled() -> bool:
                connection.execute(BRING_FORWARD)
                return bool(one_row(connection, OPEN) == (0,))

            until(settled, "everything is applied", 60)

    def check(self) -> None:
        """Hold that both have lived through it, and that all is there once, byte for byte, at the first attempt."""
        for server in (self.worker, self.receiver):
            assert server.stop().status == 0
        with psycopg.connect(self.bench.dsn) as connection:
            assert check_expected(connection, self.bench.expected) == []
            assert check_ledger(connection, self.ledger) == []
            assert connection.execute(ATTEMPTS).fetchall() == [(1, 0)]


@pytest.fixture
def shop(worker_nursery: Nursery, server: EmbeddedPostgres, tmp_path: Path) -> Iterator[Shop]:
    """One with a past, and with work to do."""
    shop = Shop(worker_nursery, server.dsn, tmp_path)
    try:
        shop.prosper()
        yield shop
    finally:
        shop.bench.close()


def test_a_disk_without_room_for_data_is_answered_503_and_costs_no_attempt(
    disk: SmallDisk, server: EmbeddedPostgres, shop: Shop, tally: Counter[str]
) -> None:
    """No page for a body: 503; none for an effect: rolled back, and run again without cost (P-ACK, P-ONCE, P-COUNT)."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(FRESH_LOG)
        connection.execute("INSERT INTO filler VALUES ('the first page')")
        disk.fill()
        with pytest.raises(psycopg.errors.DiskFull):
            connection.execute(ANOTHER_PAGE)
        shop.worker.start(shop.bench.setup(0, drain=False))
        refused = shop.send_what_needs_room()
        until(
            lambda: one_row(connection, MET_SHORTAGE)[0] > 0,
            "an event has met the shortage again and again",
            60,
        )
    tally["deliveries refused by a full disk"] += len(refused)
    disk.make_room()
    shop.recover(refused)
    shop.check()


def test_a_disk_without_room_for_the_log_is_an_outage_like_any_other(
    disk: SmallDisk, server: EmbeddedPostgres, shop: Shop, tally: Counter[str]
) -> None:
    """The server ends itself; 503 until it is started again, which is all that is to be done (P-ACK, P-COUNT)."""
    shop.bench.connection.close()
    disk.fill()
    with pytest.raises(psycopg.OperationalError) as raised:
        write_log(server.dsn)
    assert raised.value.sqlstate in {"53100", "57P02", None}, (
        "it says that it has no room, or another process did"
    )
    until(lambda: not server.running, "the server has ended itself", 30)
    shop.worker.start(shop.bench.setup(0, drain=False))
    refused = shop.send_what_needs_room()
    pid = shop.worker.pid or 0
    until(lambda: "looking again in" in shop.bench.log_of(pid), "the worker waits", 30)
    tally["deliveries refused by a full disk"] += len(refused)
    disk.make_room()
    server.start()
    shop.recover(refused)
    shop.check()


def write_log(dsn: str) -> None:
    """Write into the log, until it needs another file and longer."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for _ in range(LOG_MEGABYTES):
            connection.execute(LOG)
