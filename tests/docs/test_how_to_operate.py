"""The commands of the page bring a bad night right as they stand, with that output: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.cli import Cli
from tests.fixtures.console import alike, commands
from tests.fixtures.queue import SECRET, Queue, body_of

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "operate.md").read_text(encoding="utf-8")
NIGHT, REST = PAGE.split("\n## Look", 1)
#: The handlers that were mended and added in the morning; the page names module and endpoint.
MENDED = f"""
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe

inbox = Inbox(poll_seconds=0.05)
billing = inbox.endpoint("billing", Stripe(secrets={SECRET!r}))

@billing.on("invoice.paid", "invoice.voided")
def book(tx, event):
    tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
"""
PAID, VOIDED, SETTLED = 50, 3, 20


async def bad_night(dsn: str) -> None:
    """Events are processed; a release breaks a handler and forgets a type; somebody sends what is no event."""
    box = Queue(dsn, attempts_max=1)
    totals: dict[str, int] = {"total": 1}

    @box.billing.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        totals["total"]
        tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])

    for number in range(SETTLED):
        await box.receive(f"evt_{number + 1:03}")
    await box.drain()
    totals.clear()
    for number in range(PAID):
        await box.receive(f"evt_{SETTLED + number + 1:03}")
    await box.drain()
    for number in range(VOIDED):
        await box.deliver(body_of(f"evt_void_{number + 1}", "invoice.voided"))
    await box.deliver(b'{"object": "a test of ours"}')
    await box.close()


@pytest.fixture
def night(cli: Cli, database: str) -> Cli:
    """The program, the morning after."""
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE effects (event_id text NOT NULL)")
    asyncio.run(bad_night(database))
    cli.environment["WEBHOOK_INBOX_DATABASE_URL"] = database
    cli.environment["WEBHOOK_INBOX_APP"] = "shop:inbox"
    cli.app(MENDED)
    return cli


def test_a_bad_night_is_brought_right_as_the_page_says(night: Cli) -> None:
    """Every command in its order, with its output; then each event has had its effect exactly once."""
    for command, output in commands(NIGHT):
        done = night.run(*shlex.split(command)[1:])
        assert alike(done.stdout + done.stderr) == alike(output), command
    with psycopg.connect(night.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        effects = Counter(row[0] for row in connection.execute("SELECT event_id FROM effects").fetchall())
        actors = connection.execute("SELECT DISTINCT action FROM webhooks.audit ORDER BY 1").fetchall()
    wanted = [f"evt_{number + 1:03}" for number in range(SETTLED + PAID)]
    wanted += [f"evt_void_{number + 1}" for number in range(VOIDED)]
    assert effects == Counter(wanted)
    assert [row[0] for row in actors] == ["discard", "pause", "replay", "resume", "retry"]


def test_every_other_command_of_the_page_is_understood(night: Cli) -> None:
    """None of them is a mistake of usage, but for what is not there."""
    with psycopg.connect(night.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        connection.execute(
            "INSERT INTO webhooks.reviews (inbox_id, endpoint, event_id, summary, details) "
            "VALUES (1, 'billing', 'evt_001', 'look', '{}')"
        )
    found = commands(REST)
    assert len(found) > 8
    for command, _ in found:
        done = night.run(*shlex.split(command.replace("evt_1", "evt_030"))[1:])
        assert done.returncode == 0, (command, done.stderr)
