"""
A night in which everything fails that can, and one person who brings it right by typing what the page says.

``WEBHOOK_INBOX_TEST_OUTAGE_SECONDS`` (3) says for how long the database is away; 600 is what the page tells of.
"""

from __future__ import annotations

import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.bad_night import (
    BROKEN_SHOP,
    EVENTS,
    MENDED_SHOP,
    LedgerService,
    happened,
    ledger_service,
)
from tests.faults.ledger import Ledger
from tests.faults.load import Load
from tests.faults.sender import Letter, Sender
from tests.fixtures.cli import Cli, Served
from tests.fixtures.console import alike, commands
from tests.fixtures.programs import eventually
from tests.fixtures.provider_apis import StripeApi, served
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.testing.databases import apply_migrations

OUTAGE_SECONDS = float(os.environ.get("WEBHOOK_INBOX_TEST_OUTAGE_SECONDS", "3"))
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "bad-night.md").read_text(encoding="utf-8")
#: The sections of the page that have something to type, in order.
SECTIONS = [section for section in PAGE.split("\n## ") if commands(section)]
QUARANTINED = Letter("a test of ours", "/billing", b'{"object": "a test of ours"}')
#: What differs from one night to the next: who came first, how many attempts were made while something was down, and
#: whether a minute has passed, after which the service writes down what it has counted.
VARYING = (
    (r"^(last hour|unavailable) .*\n", ""),
    (r"^ *\d+(?=  \d{4}-)", "ROW"),
    (r"--after \d+", "--after ROW"),
    (r"evt_\d+", "EVENT"),
    (r"the database \S+ at \S+:\d+:", "the database DATABASE:"),
    (r"^[0-9a-f-]{36}  ledger  retrying\n", ""),
    (r"^[0-9a-f-]{36}", "ID"),
    (r"retrying  +\d+", "retrying  N"),
    (r"\d+ (retrying|messages are)", r"N \1"),
)
UNBOOKED = "SELECT count(*) FROM webhooks.inbox WHERE state IN ('waiting', 'leased', 'retrying')"
UNSENT = "SELECT count(*) FROM webhooks.sends WHERE destination = %s AND state <> 'sent'"
UNROUTED = "SELECT count(*) FROM webhooks.outbox WHERE state = 'waiting'"


class Night:
    """Hold the shop's service, what is delivered to it, and those that it depends on."""

    def __init__(self, cli: Cli, cluster: EmbeddedPostgres, stripe: StripeApi, ledger: LedgerService) -> None:
        self.cli, self.cluster, self.stripe, self.ledger = cli, cluster, stripe, ledger
        self.sent = Ledger(cli.folder / "sent")
        self.letters = happened(stripe)
        self.service: Served | None = None

    def deploy(self, text: str) -> Served:
        """Have the service run that release of the shop, in place of the one that runs."""
        if self.service is not None:
            assert self.service.stop() == 0
        self.cli.app(text)
        self.service = self.cli.serve("--with-worker", "--with-relay")
        return self.service

    def fall(self) -> None:
        """Take the database away while a third of the load is through."""
        service = self.deploy(BROKEN_SHOP)
        address = ("127.0.0.1", service.port)
        Sender(address, self.sent).deliver(QUARANTINED)
        patience = 400 + round(OUTAGE_SECONDS * 20)
        self.load = Load([address], self.letters, self.sent, attempts_max=patience)
        third = len(self.letters) // 3
        eventually(lambda: len(self.sent.acknowledged) >= third, what="a third is acknowledged")
        self.cluster.halt("immediate")
        self.back_at = time.monotonic() + OUTAGE_SECONDS

    def rise(self) -> None:
        """Have the database back; what was not acknowledged is sent until it is."""
        assert len(self.sent.acknowledged) < len(self.letters), "the outage came after the load"
        time.sleep(max(0.0, self.back_at - time.monotonic()))  # the outage is what is tested
        self.cluster.start()
        self.load.finish(60)
        self.settled()

    def settled(self, *destinations: str) -> None:
        """Wait until nothing is under way but what a person has to act on, and *destinations* have their messages."""
        with psycopg.connect(self.cluster.dsn, autocommit=True) as connection:
            for statement, given in [
                (UNBOOKED, []),
                (UNROUTED, []),
                *((UNSENT, [each]) for each in ("mail", *destinations)),
            ]:
                eventually(
                    lambda: connection.execute(statement, given).fetchone() == (0,),  # noqa: B023 - asked at once
                    what=f"none is left: {statement} {given}",
                )


@pytest.fixture
def night(cli: Cli, cluster: EmbeddedPostgres) -> Iterator[Night]:
    """The shop, its provider and the service that it tells, before anything happens."""
    apply_migrations(cluster.dsn)
    with psycopg.connect(cluster.dsn) as connection:
        connection.execute("CREATE TABLE effects (event_id text NOT NULL, amount integer NOT NULL)")
    stripe = StripeApi()
    with served(stripe), ledger_service() as ledger:
        cli.environment |= {
            "WEBHOOK_INBOX_DATABASE_URL": cluster.dsn,
            "WEBHOOK_INBOX_APP": "shop:inbox",
            "WEBHOOK_INBOX_LEASE_SECONDS": "3",
            "WEBHOOK_INBOX_POLL_SECONDS": "0.1",
            "WEBHOOK_INBOX_CONNECTION_WAIT_SECONDS": "0.5",
            "WEBHOOK_INBOX_STOP_SECONDS_MAX": "5",
            "STRIPE_API": stripe.url,
            "LEDGER_URL": ledger.url,
        }
        yield Night(cli, cluster, stripe, ledger)


@pytest.mark.timeout(120 + OUTAGE_SECONDS)
def test_what_the_page_says_brings_a_bad_night_right(night: Night) -> None:
    """Every command in its order, with its output: each event had its effect once, and its message arrived (P-FIND)."""
    meanwhile: dict[str, Callable[[], object]] = {
        "While the database is away": night.fall,
        "See what is left": night.rise,
        "Run again what failed": lambda: night.deploy(MENDED_SHOP),
        "Send what could not be told": night.settled,
        "Go back to bed": lambda: night.settled("ledger"),
    }
    for section in SECTIONS:
        if act := meanwhile.pop(section.partition("\n")[0], None):
            act()
        for command, output in commands(section):
            done = night.cli.run(*shlex.split(command)[1:])
            assert alike(done.stdout + done.stderr, *VARYING) == alike(output, *VARYING), command
            if command.startswith("webhook-inbox outbox retry"):
                night.ledger.up.set()  # up a moment before, the relay might leave that line nothing to do
    assert not meanwhile, "sections that the page has not"
    assert (done.returncode, "at billing: store_unavailable" in done.stdout) == (0, True)
    happened_ids = [event["id"] for event in night.stripe.events[""]]
    assert len(happened_ids) == EVENTS
    with psycopg.connect(night.cluster.dsn) as connection:
        effects = Counter(row[0] for row in connection.execute("SELECT event_id FROM effects"))
    assert effects == Counter(happened_ids)
    assert night.sent.outcomes()["unavailable"], "nobody heard of the outage"
    assert set(night.sent.acknowledged) == {letter.event for letter in [*night.letters, QUARANTINED]}
    assert Counter(night.ledger.events.values()) == Counter(happened_ids)
