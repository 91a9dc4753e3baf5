"""
Two releases side by side on one database, under load: the newer one brings the schema up while the older one works on.

    previous release   serve ────────────────────────────────── stop, and back again ── stop
    schema                        5 ── migrate ── newest
    this release             serve: refused            serve ──────────────────────────────────
"""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.faults.ledger import Ledger
from tests.faults.load import Load
from tests.faults.sender import STRIPE_SECRET, Address, Letter
from tests.fixtures.cli import Cli, Served
from tests.fixtures.previous_release import PREVIOUS_VERSION, install_previous
from tests.fixtures.programs import eventually
from webhook_inbox.sql.migrations import migrations

VERSION = migrations("webhooks")[-1].version
MODES = ("queued", "hybrid", "inline")
LETTERS_A_SECOND = 60
#: One app for both; what they do is told by PYTHONPATH and RELEASE.
SHOP = f"""
import os

from webhook_inbox import Inbox
from webhook_inbox.destinations import Call
from webhook_inbox.sources import Stripe

inbox = Inbox()
RELEASE = os.environ["RELEASE"]


def book(tx, event):
    if event.payload["fails_once"] and event.attempt == 1:
        raise ValueError("not at the first attempt")
    tx.conn.execute(
        "INSERT INTO effects SELECT %s, %s, max(version) FROM webhooks.migrations", [event.id, RELEASE]
    )
    tx.emit("Booked", {{"event": event.id}})


for mode in {MODES}:
    endpoint = inbox.endpoint(mode, Stripe(secrets={STRIPE_SECRET!r}), mode=mode, backoff_seconds_max=0.2)
    endpoint.on("invoice.paid")(book)


def tell(message):
    with open("../told", "a") as file:
        file.write(message.payload.decode() + "\\n")


inbox.destination("crm", Call(tell))
"""
UNSETTLED = "SELECT count(*) FROM webhooks.inbox WHERE state NOT IN ('processed')"
UNSENT = "SELECT count(*) FROM webhooks.outbox WHERE published_at IS NULL"


@dataclass
class Releases:
    """Hold both releases' programs, and the database that they share."""

    old: Cli
    new: Cli
    dsn: str

    def effects(self) -> list[tuple[str, str, int]]:
        """Event, release, and the schema's version that it was booked at."""
        with psycopg.connect(self.dsn) as connection:
            return connection.execute("SELECT event_id, release, version FROM effects").fetchall()

    def await_effects_of(self, release: str, version: int, *, more_than: int = 0) -> int:
        """Wait until *release* has booked something at *version*; how much it has."""

        def booked() -> int:
            return Counter(row[1:] for row in self.effects())[release, version]

        eventually(lambda: booked() > more_than, what=f"the {release} release works on version {version}")
        return booked()

    def await_none(self, statement: str) -> None:
        """Wait until *statement* counts nothing."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            eventually(lambda: connection.execute(statement.encode()).fetchone() == (0,), what=statement)


@pytest.fixture
def releases(cli: Cli, empty_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Releases]:
    """The previous release and this one, each with the app in a folder of its own; no schema yet."""
    site = install_previous(tmp_path_factory.mktemp("previous"))
    with psycopg.connect(empty_database) as connection:
        connection.execute("CREATE TABLE effects (event_id text, release text, version integer)")
    made = {}
    for release, more in (("old", {"PYTHONPATH": str(site)}), ("new", {})):
        folder = cli.folder / release
        folder.mkdir()
        settings = {
            "RELEASE": release,
            "WEBHOOK_INBOX_APP": "shop:inbox",
            "WEBHOOK_INBOX_DATABASE_URL": empty_database,
            "WEBHOOK_INBOX_POLL_SECONDS": "0.1",
            "WEBHOOK_INBOX_STOP_SECONDS_MAX": "5",
        }
        program = Cli(folder, cli.environment | settings | more)
        program.app(SHOP)
        made[release] = program
    yield Releases(**made, dsn=empty_database)
    for program in made.values():
        program.close()


def letters() -> Iterator[Letter]:
    """Events without end, at a steady pace, for each mode in turn; some fail at first where we try again."""
    for number in itertools.count():
        time.sleep(1 / LETTERS_A_SECOND)  # the pace of the load; nothing waits for it
        mode = MODES[number % len(MODES)]
        event_id = f"evt_{number:05}"
        event = {"id": event_id, "object": "event", "type": "invoice.paid"}
        body = json.dumps(event | {"fails_once": mode != "inline" and number % 10 == 0}).encode()
        yield Letter(event_id, f"/{mode}", body)


def serve(cli: Cli, addresses: list[Address]) -> Served:
    """Start receiver, worker and relay of a release, and let it have its part of the load."""
    service = cli.serve("--with-worker", "--with-relay")
    addresses.append(("127.0.0.1", service.port))
    return service


def stop(service: Served, addresses: list[Address]) -> None:
    """Stop it under load; that it is gone is known a moment later."""
    assert service.stop() == 0, service.lines[-20:]
    addresses.remove(("127.0.0.1", service.port))


def test_the_release_before_works_on_beside_this_one_while_it_migrates(releases: Releases) -> None:
    """Under load, there and back again: each acknowledged event has one effect and its message (P-ONCE, P-OUT)."""
    old, new = releases.old, releases.new
    assert old.run("migrate").returncode == 0
    addresses: list[Address] = []
    before = serve(old, addresses)
    sent = Ledger(new.folder / "sent")
    load = Load(addresses, letters(), sent, attempts_max=400, copies=2)
    releases.await_effects_of("old", PREVIOUS_VERSION)
    early = new.run("serve", "--port", "0")
    assert (early.returncode, "webhook-inbox migrate" in early.stderr) == (2, True), early.stderr
    migrated = new.run("migrate")
    assert migrated.returncode == 0, migrated.stderr
    after = serve(new, addresses)
    releases.await_effects_of("new", VERSION)
    booked = releases.await_effects_of("old", VERSION)
    for reading in ("status", "events list"):
        assert old.run(*reading.split()).returncode == 0
    stop(before, addresses)
    again = serve(old, addresses)
    releases.await_effects_of("old", VERSION, more_than=booked + 20)
    stop(again, addresses)
    load.stop()
    load.finish(60)
    releases.await_none(UNSETTLED)
    releases.await_none(UNSENT)
    assert after.stop() == 0, after.lines[-20:]
    effects = releases.effects()
    assert Counter(row[0] for row in effects) == Counter(sent.acknowledged.keys())
    told = (new.folder.parent / "told").read_text().splitlines()
    assert {json.loads(line)["event"] for line in told} == set(sent.acknowledged)
    assert {entry.status for entry in sent.entries} <= {200, 503, None}
