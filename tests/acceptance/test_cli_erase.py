"""``erase``: what it asks, tells, refuses, and with which exit code; what is looked for is told to nobody."""

from __future__ import annotations

import json

import pytest

from tests.fixtures.cli import Cli
from tests.fixtures.recorded import Recorded

APP = ("erase", "shop:inbox")
PERSON = ("--where", "data.object.customer=cus_canary")


@pytest.fixture
def recorded(shop: Cli) -> Recorded:
    """Two events of a person, one that has not run, and one of somebody else."""
    made = Recorded(shop.environment["WEBHOOK_INBOX_DATABASE_URL"])
    for name, state, customer in (
        ("evt_1", "processed", "cus_canary"),
        ("evt_2", "ignored", "cus_canary"),
        ("evt_3", "dead", "cus_canary"),
        ("evt_4", "processed", "cus_2"),
    ):
        made.add(name, state, body=json.dumps({"data": {"object": {"customer": customer}}}).encode())
    return made


def kept(recorded: Recorded) -> list[str]:
    """The events whose bytes are there."""
    rows = recorded.rows("SELECT event_id FROM webhooks.events WHERE body IS NOT NULL ORDER BY id")
    return [row["event_id"] for row in rows]


def test_one_persons_payloads_are_erased(shop: Cli, recorded: Recorded) -> None:
    """After a count and a yes; what is not settled is left and told; who did it is kept, and not whom (P-QUIET)."""
    dry = shop.json(*APP, *PERSON, "--dry-run", code=1)
    assert (dry["dry_run"], dry["erased"], [each["event_id"] for each in dry["left"]]) == (True, 2, ["evt_3"])
    refused = shop.run(*APP, *PERSON)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "2 events would be erased: say --yes, or --dry-run" in refused.stderr
    assert len(kept(recorded)) == 4
    done = shop.run(*APP, *PERSON, "--yes", "--reason", "asked", WEBHOOK_INBOX_OPERATOR="ada")
    assert (done.returncode, done.stdout) == (1, "2 events: payloads erased\n")
    assert done.stderr.startswith("left as it is: evt_3 (row 3): it is dead")
    assert kept(recorded) == ["evt_3", "evt_4"]
    audit = recorded.rows("SELECT * FROM webhooks.audit")
    assert [(row["actor"], row["action"], row["event_id"]) for row in audit] == [
        ("ada", "erase", "evt_1"),
        ("ada", "erase", "evt_2"),
    ]
    assert "canary" not in str(audit) + done.stdout + done.stderr + refused.stderr
    shown = shop.run("events", "show", "evt_1").stdout
    assert "erase by ada at " in shown
    assert "headers and body are not kept any more" in shown
    forced = shop.json(*APP, *PERSON, "--yes", "--force")
    assert (forced["erased"], kept(recorded)) == (1, ["evt_4"])


def test_a_variable_holds_one_condition_a_line(shop: Cli, recorded: Recorded) -> None:
    """So that a name with a blank in it is no matter for the shell's history."""
    for event_id, city in (("evt_5", "Old Town"), ("evt_6", "New Town")):
        recorded.add(event_id, body=json.dumps({"name": "Fake Person", "city": city}).encode())
    shop.environment["WEBHOOK_INBOX_ERASE_WHERE"] = "name=Fake Person\ncity=Old Town\n"
    assert shop.json(*APP, "--yes")["erased"] == 1
    assert "evt_5" not in kept(recorded)
    assert "evt_6" in kept(recorded)
    # What is typed says it all.
    assert shop.json(*APP, "--where", "name=Fake Person", "--yes")["erased"] == 1


def test_events_are_named_or_chosen(shop: Cli, recorded: Recorded) -> None:
    """By ids and rows, or by options; never both."""
    assert shop.json(*APP, "--event", "evt_1", "--event", "2", "--yes")["erased"] == 2
    assert kept(recorded) == ["evt_3", "evt_4"]
    assert shop.json(*APP, "--endpoint", "shop", "--state", "processed", "--yes")["erased"] == 1
    assert kept(recorded) == ["evt_3"]


def test_what_could_not_be_looked_into_is_told(shop: Cli, recorded: Recorded) -> None:
    """Nobody may take a person for erased who may stand in there."""
    recorded.add("evt_bytes", body=b"\x00\xff")
    done = shop.run(*APP, "--where", "$.data.object.customer=cus_2", "--yes")
    assert (done.returncode, done.stdout) == (0, "1 event: payloads erased\n")
    assert done.stderr == "1 body could not be looked into, being no JSON: events show --raw\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "say which events: --where, --event, or options"),
        (("--where", "canary"), "--where takes PATH=VALUE"),
        (("--where", "=canary"), "--where takes PATH=VALUE"),
        (("--where", "data..id=canary"), "--where takes PATH=VALUE"),
        (("--event", "evt_1", "--state", "dead"), "not by both"),
        (("--event", "evt_none"), "there is no event 'evt_none'"),
    ],
)
def test_a_mistake_erases_nothing(
    shop: Cli, recorded: Recorded, arguments: tuple[str, ...], words: str
) -> None:
    """Exit 2, and what was typed as a value is not repeated."""
    done = shop.run(*APP, *arguments, "--yes")
    assert (done.returncode, len(kept(recorded))) == (2, 4)
    assert words in done.stderr
    assert "canary" not in done.stderr
