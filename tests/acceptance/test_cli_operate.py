"""``events retry``, ``replay`` and ``discard``: what they ask, tell, refuse, and with which exit code."""

from __future__ import annotations

import getpass
import os
import pty
import subprocess

import pytest

from tests.fixtures.cli import PROGRAM, SECONDS_MAX, Cli
from tests.fixtures.recorded import Recorded

NO_WORKER = "due, and no worker runs: webhook-inbox worker APP --drain does what is due\n"
SOURCE_MENDED = """
from webhook_inbox import Inbox
from webhook_inbox.sources import Identity, Stripe

class Mended(Stripe):
    def identify(self, delivery):
        return (Identity(event_id="evt_read", event_type="invoice.paid"),)

inbox = Inbox()
shop = inbox.endpoint("shop", Mended(secrets="whsec_fake"))
"""


@pytest.fixture
def recorded(shop: Cli) -> Recorded:
    """Three dead events, and one of other states each."""
    made = Recorded(shop.environment["WEBHOOK_INBOX_DATABASE_URL"])
    for number in range(3):
        made.add(f"evt_dead_{number}", "dead", last_error="KeyError at shop.py:3")
    for state in ("processed", "ignored", "quarantined", "waiting", "leased"):
        made.add(f"evt_{state}", state)
    return made


def states(recorded: Recorded) -> list[str]:
    """Of the three dead ones."""
    return [recorded.event(f"evt_dead_{number}")["state"] for number in range(3)]


def test_one_event_is_run_again_by_its_name(shop: Cli, recorded: Recorded) -> None:
    """By its id or its row, without a question; the system's user stands in the audit, or who says so."""
    done = shop.run("events", "retry", "evt_dead_0", "2", "--reason", "mended")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 events retried\n", NO_WORKER)
    assert states(recorded) == ["retrying", "retrying", "dead"]
    shop.run("events", "retry", "evt_dead_2", WEBHOOK_INBOX_OPERATOR="ada")
    audit = recorded.rows("SELECT actor, reason FROM webhooks.audit ORDER BY id")
    assert [tuple(row.values()) for row in audit] == [(getpass.getuser(), "mended")] * 2 + [("ada", "")]
    shown = shop.run("events", "show", "evt_dead_0").stdout
    assert f"retry by {getpass.getuser()} at " in shown
    assert "dead, then retrying: mended" in shown
    assert shop.json("events", "show", "evt_dead_2")["audit"][0]["actor"] == "ada"


def test_a_dry_run_tells_the_true_count_and_changes_nothing(shop: Cli, recorded: Recorded) -> None:
    """Of a filter, and of names: those with which it can be done."""
    recorded.add("evt_bare", "ignored", kept=False)
    dry = shop.json("events", "retry", "--error", "keyerror", "--dry-run")
    assert dry == {"action": "retry", "dry_run": True, "meant": 3, "states": {"dead": 3}}
    assert (
        shop.run("events", "retry", "--type", "*", "--dry-run").stdout
        == "3 events would be retried: 3 dead\n"
    )
    assert shop.run("events", "replay", "--type", "*", "--dry-run").stdout.startswith(
        "1 event would be replayed"
    )
    named = shop.json("events", "discard", "evt_dead_0", "evt_processed", "evt_quarantined", "--dry-run")
    assert named["states"] == {"dead": 1, "quarantined": 1}
    assert states(recorded) == ["dead"] * 3
    assert recorded.rows("SELECT id FROM webhooks.audit") == []


def test_that_nobody_runs_what_is_due_is_said(shop: Cli, recorded: Recorded) -> None:
    """With what does it, for an app that is named; not where a worker's lease runs, nor of what is discarded."""
    named = shop.run("events", "retry", "evt_dead_0", "--app", "shop:inbox")
    assert named.stderr == NO_WORKER.replace("APP", "shop:inbox")
    assert shop.run("events", "discard", "evt_dead_1").stderr == ""
    recorded.rows("INSERT INTO webhooks.workers (name, lease_ends_at) VALUES ('w', now() + interval '1 h')")
    assert shop.run("events", "retry", "evt_dead_2").stderr == ""


def test_a_filter_acts_only_after_yes(shop: Cli, recorded: Recorded) -> None:
    """A pipe says --yes beforehand; a terminal is asked, with the number."""
    refused = shop.run("events", "retry", "--state", "dead")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "3 events would be retried: say --yes, or --dry-run" in refused.stderr
    assert states(recorded) == ["dead"] * 3
    for answer, code in (("n", 130), ("y", 0)):
        assert asked(shop, answer, "events", "retry", "--state", "dead") == ("retry 3 events?", code)
    assert states(recorded) == ["retrying"] * 3
    assert shop.json("events", "discard", "--state", "retrying", "--yes")["changed"] == 3
    assert states(recorded) == ["ignored"] * 3
    assert shop.json("events", "retry", "--state", "dead", "--yes") == {
        "action": "retry",
        "dry_run": False,
        "changed": 0,
        "left": [],
    }


def asked(shop: Cli, answer: str, *arguments: str) -> tuple[str, int]:
    """Run it on a terminal, and answer its question: what it asked, and its exit code."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, *arguments],
        cwd=shop.folder,
        env=shop.environment,
        stdin=follower,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(leader, f"{answer}\n".encode())
    _, told = process.communicate(timeout=SECONDS_MAX)
    os.close(leader)
    os.close(follower)
    return told.partition(" [")[0], process.returncode


def test_what_is_left_is_told_with_what_can_be_done(shop: Cli, recorded: Recorded) -> None:
    """Exit 1; a processed event is refused without --force, which wants a reason."""
    done = shop.run("events", "retry", "evt_dead_0", "evt_processed", "evt_leased")
    assert (done.returncode, done.stdout) == (1, "1 event retried\n")
    told = done.stderr.splitlines()
    assert told[0].startswith("left as it is: evt_processed (row 4): it is processed; a second run")
    assert "being run by a worker that is gone" in told[1]
    assert shop.run("events", "replay", "evt_processed").returncode == 1
    wanted = shop.run("events", "replay", "evt_processed", "--force")
    assert (wanted.returncode, "say why with --reason" in wanted.stderr) == (2, True)
    forced = shop.json("events", "replay", "evt_processed", "--force", "--reason", "the ledger was restored")
    assert (forced["changed"], recorded.event("evt_processed")["state"]) == (1, "waiting")


def test_a_quarantined_delivery_is_read_again_by_the_apps_source(shop: Cli, recorded: Recorded) -> None:
    """Which the database alone does not have."""
    alone = shop.run("events", "replay", "evt_quarantined")
    assert (alone.returncode, "say --app" in alone.stderr) == (2, True)
    shop.app(SOURCE_MENDED)
    done = shop.json("events", "replay", "evt_quarantined", "evt_ignored", "--app", "shop:inbox")
    assert (done["changed"], done["left"]) == (2, [])
    assert recorded.event("evt_read")["state"] == "ignored"  # it has no handler there
    assert recorded.event("evt_ignored")["state"] == "waiting"


def test_what_was_never_identified_is_meant_by_its_id_alone(shop: Cli, recorded: Recorded) -> None:
    """A discarded delivery is no event to run: a filter does not mean it, and its id has it read again."""
    shop.app(SOURCE_MENDED)
    recorded.add("sha256:ab", "ignored", event_type="")
    dry = shop.json("events", "replay", "--endpoint", "shop", "--dry-run")
    assert dry["states"] == {"ignored": 1}
    done = shop.json("events", "replay", "--endpoint", "shop", "--yes")
    assert (done["changed"], done["left"]) == (1, [])
    assert shop.json("events", "replay", "sha256:ab", "--dry-run")["meant"] == 1
    named = shop.json("events", "replay", "sha256:ab", "--app", "shop:inbox")
    assert (named["changed"], named["left"]) == (1, [])
    assert recorded.event("sha256:ab")["last_error"] == "read again as evt_read"


@pytest.mark.parametrize(
    "arguments",
    [
        ["retry"],
        ["retry", "--yes"],
        ["retry", "evt_none"],
        ["retry", "evt_dead_0", "--state", "dead"],
        ["retry", "--state", "processed", "--yes"],
        ["replay", "--state", "processed", "--yes"],
        ["discard", "--state", "ignored", "--yes"],
        ["retry", "--state", "dead", "--rate", "0", "--yes"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_changes_nothing(shop: Cli, recorded: Recorded, arguments: list[str]) -> None:
    """Exit 2: usage."""
    before = recorded.states()
    done = shop.run("events", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert recorded.states() == before
