"""The commands of the two pages do what they say, with that output."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.fixtures.cli import Cli
from tests.fixtures.console import alike, commands
from tests.fixtures.recorded import Recorded

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
INBOX = """
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe

inbox = Inbox()
billing = inbox.endpoint("billing", Stripe(secrets="whsec_fake"))
"""


def play(shop: Cli, page: str) -> None:
    """Type each command of *page*, and hold what it prints against the page."""
    for command, output in commands((HOW_TO / page).read_text(encoding="utf-8")):
        done = shop.run(*shlex.split(command)[1:])
        assert alike(done.stdout + done.stderr) == alike(output), command


@pytest.fixture
def recorded(shop: Cli) -> Recorded:
    """The database of an inbox with one endpoint, ``billing``."""
    shop.app(INBOX)
    return Recorded(shop.environment["WEBHOOK_INBOX_DATABASE_URL"])


def test_a_person_is_forgotten_as_the_page_says(shop: Cli, recorded: Recorded) -> None:
    """In the end none of their payloads is there, and every key."""
    body = json.dumps({"data": {"object": {"customer": "cus_1"}}}).encode()
    for name, state in (("evt_1", "processed"), ("evt_2", "ignored"), ("evt_3", "dead")):
        recorded.add(name, state, body=body)
    play(shop, "forget-a-person.md")
    assert recorded.rows("SELECT * FROM webhooks.bodies") == []
    assert list(recorded.states()) == ["evt_1", "evt_2", "evt_3"]


def test_another_receiver_is_taken_over_from_as_the_page_says(shop: Cli, recorded: Recorded) -> None:
    """In the end every event is here, processed."""
    ids = [f"evt_{number}" for number in range(4)]
    (shop.folder / "processed.csv").write_text(
        "\n".join(["id,type", *(f"{each},invoice.paid" for each in ids[:3])])
    )
    (shop.folder / "more.txt").write_text("evt_0\nold_1\nevt_3\n")
    play(shop, "take-over.md")
    assert recorded.states() == dict.fromkeys(ids, "processed")
