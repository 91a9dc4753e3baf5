"""``relay`` sends what was committed until it is told to stop; ``outbox`` shows what is left, and has it sent again."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.cli import SECRET, Cli
from tests.fixtures.outbox import Outbox
from tests.fixtures.programs import eventually

SLACK_SECONDS = 12.0
#: Its destination appends each message's id to a file; ``Bad`` ones are refused for good while ``refuse`` exists.
TOLD = f"""
from __future__ import annotations
from pathlib import Path
from webhook_inbox import GiveUp, Inbox
from webhook_inbox.destinations import Call
from webhook_inbox.sources import Stripe

inbox = Inbox()
shop = inbox.endpoint("shop", Stripe(secrets={SECRET!r}))

@shop.on("invoice.paid")
def book(tx, event):
    tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
    tx.emit("Booked", {{"event": event.id}})

def tell(message):
    if message.event_type == "Bad" and Path("refuse").exists():
        raise GiveUp("no such customer")
    with open("told", "a") as file:
        file.write(f"{{message.id}} {{message.event_type}}\\n")

inbox.destination("crm", Call(tell))
inbox.route("Booked", to="crm")
inbox.route("Bad", to="crm")
"""


@pytest.fixture
def crm(shop: Cli) -> Cli:
    """The shop, with a destination."""
    shop.app(TOLD)
    shop.environment["WEBHOOK_INBOX_STOP_SECONDS_MAX"] = "2"
    return shop


@pytest.fixture
def outbox(crm: Cli) -> Outbox:
    """The shop's outbox."""
    return Outbox(crm.environment["WEBHOOK_INBOX_DATABASE_URL"])


def told(cli: Cli) -> list[str]:
    """The ids that the destination was called with, in order."""
    path = cli.folder / "told"
    return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []


def start(cli: Cli, *arguments: str) -> tuple[subprocess.Popen[str], Path]:
    """Start a relay; give it and the file that its stderr goes to."""
    log = cli.folder / "relay.log"
    with log.open("w") as stderr:
        return cli.start("relay", "shop:inbox", *arguments, stderr=stderr), log


def test_draining_sends_what_is_due_and_says_what_came_of_it(crm: Cli, outbox: Outbox) -> None:
    """In words and as JSON; a message that is dead or unrouted does not make it fail."""
    (crm.folder / "refuse").touch()
    (first,) = outbox.write("Booked")
    outbox.write("Bad", "Unknown")
    done = crm.run("relay", "shop:inbox", "--drain", "--log-level", "error")
    assert (done.returncode, done.stdout) == (0, "nothing is due; 2 sends: 1 sent, 1 dead\n")
    assert told(crm) == [first]
    (second,) = outbox.write("Booked")
    facts = crm.json("relay", "shop:inbox", "--drain")
    assert facts.pop("relay")
    assert facts == {"drained": True, "sends": 1, "sent": 1, "left": {}}
    assert told(crm) == [first, second]


def test_draining_fails_where_messages_are_left(crm: Cli, outbox: Outbox) -> None:
    """Those that are retried later, and those that wait for a destination that is down; it says how many."""
    crm.app(TOLD.replace("raise GiveUp", "raise OSError"))
    (crm.folder / "refuse").touch()
    outbox.write("Booked", "Bad")
    done = crm.run("relay", "shop:inbox", "--drain", "--log-level", "error")
    assert done.returncode == 1
    # The jitter may have it tried again at once.
    assert re.fullmatch(r"not all is sent; \d+ sends: 1 sent, \d+ retrying; left: 1 retrying\n", done.stdout)
    outbox.rows("UPDATE webhooks.sends SET state = 'waiting', destination = 'away' WHERE state = 'retrying'")
    assert crm.json("relay", "shop:inbox", "--drain", code=1)["left"] == {"waiting": 1}


def test_it_relays_until_it_is_told_to_stop(crm: Cli, outbox: Outbox) -> None:
    """It says who it is, sends what comes while it runs, and exits 0 saying what its sends came to."""
    process, log = start(crm, "--json")
    assert process.stdout is not None
    facts: dict[str, Any] = json.loads(process.stdout.readline())
    assert facts["destinations"] == [{"destination": "crm", "place": "call tell"}]
    assert facts["pid"] == process.pid
    ids = outbox.write("Booked", "Booked")
    eventually(lambda: len(outbox.published()) == 2, what="both are sent")
    process.send_signal(signal.SIGTERM)
    assert process.wait(SLACK_SECONDS) == 0
    assert sorted(told(crm)) == sorted(ids)
    assert log.read_text().splitlines()[-1] == "stopped; 2 sends: 2 sent"


def test_without_a_destination_or_a_database_it_does_not_start(shop: Cli, cli: Cli) -> None:
    """Exit 2, and what to change."""
    done = shop.run("relay", "shop:inbox")
    assert done.returncode == 2
    assert "the Inbox has no destination: add one with inbox.destination(...)" in done.stderr
    refused = shop.run("serve", "shop:inbox", "--with-relay", "--port", "0")
    assert refused.returncode == 2
    assert "the Inbox has no destination" in refused.stderr
    cli.app(TOLD)
    away = cli.run(
        "relay", "shop:inbox", WEBHOOK_INBOX_DATABASE_URL="postgresql://bob:canary@127.0.0.1:1/shop"
    )
    assert away.returncode == 2
    assert "not relaying: no connection to" in away.stderr
    assert "canary" not in away.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_serve_can_work_and_relay_too(crm: Cli, outbox: Outbox, workers: str) -> None:
    """P-OUT: received, booked, told, by the same processes; SIGTERM ends all of it in time."""
    served = crm.serve("--workers", workers, "--with-worker", "--with-relay")
    assert (served.told["with_worker"], served.told["with_relay"]) == (True, True)
    crm.send(served, crm.payload("evt_1"), crm.payload("evt_2"))
    eventually(lambda: len(outbox.published()) == 2, what="both are told")
    assert sorted(told(crm)) == sorted(outbox.published())
    assert served.stop() == 0


def test_dev_relays_too(crm: Cli, outbox: Outbox) -> None:
    """One process while the code is being written: what a handler emits arrives."""
    with (crm.folder / "dev.log").open("w") as log:
        process = crm.start(
            "dev", "shop:inbox", "--port", "0", "--database", outbox.dsn, stdout=log, stderr=log
        )
    (message_id,) = outbox.write("Booked")
    eventually(lambda: outbox.published() == [message_id], what="it is sent")
    process.send_signal(signal.SIGTERM)
    assert process.wait(SLACK_SECONDS) == 0
    assert told(crm) == [message_id]
    assert "sending to crm" in (crm.folder / "dev.log").read_text()


def test_the_outbox_is_listed_and_shown_without_payloads(crm: Cli, outbox: Outbox) -> None:
    """What is where, and why: by filters, as a table and as JSON."""
    (crm.folder / "refuse").touch()
    sent, dead, unrouted = outbox.write("Booked", "Bad", "Unknown", aggregate_id="in_1")
    crm.run("relay", "shop:inbox", "--drain")
    (waiting,) = outbox.write("Booked")
    found = crm.json("outbox", "list")["messages"]
    assert [(each["id"], each["state"]) for each in found] == [
        (waiting, "waiting"),
        (unrouted, "unrouted"),
        (dead, "dead"),
        (sent, "sent"),
    ]
    assert found[2]["last_error"] == "no such customer"
    assert [
        each["id"] for each in crm.json("outbox", "list", "--type", "B*", "--state", "dead")["messages"]
    ] == [dead]
    assert crm.json("outbox", "list", "--destination", "mail")["messages"] == []
    shown = crm.run("outbox", "list", "--state", "dead")
    assert shown.stdout.split() == [
        *["id", "destination", "type", "state", "attempts", "error"],
        *[dead, "crm", "Bad", "dead", "1", "no", "such", "customer"],
    ]
    (one,) = crm.json("outbox", "show", sent)["sends"]
    assert (one["destination"], one["state"], one["attempts"], one["aggregate_id"]) == (
        "crm",
        "sent",
        1,
        "in_1",
    )
    assert one["sent_at"] <= one["published_at"]
    lines = [line.split(maxsplit=1) for line in crm.run("outbox", "show", dead).stdout.splitlines()[:-1]]
    assert [line[0] for line in lines] == [
        *["id", "destination", "type", "aggregate", "state", "last", "attempts", "created"]
    ]
    assert lines[5][1] == "error   no such customer"
    for arguments, said in (
        (["show", "nonsense"], "message id 'nonsense' is no UUID"),
        (["show", "00000000-0000-0000-0000-000000000000"], "there is no message"),
        (["list", "--state", "lost"], "state 'lost' is none of waiting, leased"),
    ):
        done = crm.run("outbox", *arguments)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("columns", [80, 100])
def test_ids_are_whole_on_a_narrow_terminal(crm: Cli, outbox: Outbox, columns: int) -> None:
    """What another verb is told can be copied from the list, of messages and of events; no line is too long."""
    (crm.folder / "refuse").touch()
    (message_id,) = outbox.write("Bad")
    crm.run("relay", "shop:inbox", "--drain")
    event_id = f"evt_{'1' * 40}"
    outbox.rows(
        "INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, last_error, body_sha256, "
        "body_bytes) VALUES ('stripe', 'billing-of-the-shop', %s, 'invoice.payment_succeeded', 'dead', %s, '', 0)",
        event_id,
        "no such customer",
    )
    for verb, shown in (("outbox", message_id), ("events", event_id)):
        lines = crm.shown(verb, "list", columns=columns)
        assert len([line for line in lines if shown in line]) == 1, lines
        assert max(map(len, lines)) <= columns


def test_what_is_dead_or_unrouted_goes_out_again_when_an_operator_says_so(crm: Cli, outbox: Outbox) -> None:
    """P-OUT: under the same id; seen first by --dry-run; nothing is done without a yes."""
    (crm.folder / "refuse").touch()
    dead, unrouted = outbox.write("Bad", "Unknown")
    crm.run("relay", "shop:inbox", "--drain")
    refused = crm.run("outbox", "retry")
    assert refused.returncode == 2
    assert "give --yes to do it, or --dry-run to see it" in refused.stderr
    seen = crm.json("outbox", "retry", "--dry-run")
    assert seen["messages"] == [
        {"id": dead, "destination": "crm", "was": "dead"},
        {"id": unrouted, "destination": "", "was": "unrouted"},
    ]
    assert outbox.sends() == ["dead"]
    (crm.folder / "refuse").unlink()
    said = ["--reason", "the CRM is back", "--operator", "ops"]
    assert crm.json("outbox", "retry", dead, "--yes", *said)["messages"] == seen["messages"][:1]
    (kept,) = outbox.rows("SELECT actor, action, reason, before, after FROM webhooks.audit")
    assert (kept["actor"], kept["action"], kept["reason"]) == ("ops", "outbox retry", "the CRM is back")
    assert (kept["before"]["message"], kept["before"]["destination"]) == (dead, "crm")
    assert (kept["before"]["state"], kept["after"]["state"]) == ("dead", "retrying")
    crm.run("relay", "shop:inbox", "--drain")
    assert told(crm) == [dead]
    crm.app(TOLD.replace('inbox.route("Bad"', 'inbox.route("Un*", to="crm")\ninbox.route("Bad"'))
    done = crm.run("outbox", "retry", "--state", "unrouted", "--yes")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        f"{unrouted}  -  unrouted\n",
        "1 message is due again\n",
    )
    crm.run("relay", "shop:inbox", "--drain")
    assert told(crm) == [dead, unrouted]
    wrong = crm.run("outbox", "retry", "--state", "sent", "--yes")
    assert wrong.returncode == 2
    assert "a message that is sent needs no retry" in wrong.stderr


def test_a_message_that_waits_for_another_attempt_is_sent_at_once(crm: Cli, outbox: Outbox) -> None:
    """Named by its id, or by its state; not where neither is said."""
    crm.app(TOLD.replace("raise GiveUp", "raise OSError"))
    (crm.folder / "refuse").touch()
    one, _ = outbox.write("Bad", "Bad")
    crm.run("relay", "shop:inbox", "--drain")
    outbox.rows("UPDATE webhooks.sends SET available_at = now() + interval '1 h'")
    assert crm.json("outbox", "retry", "--yes")["messages"] == []
    told_one = [{"id": one, "destination": "crm", "was": "retrying"}]
    assert crm.json("outbox", "retry", one, "--yes")["messages"] == told_one
    due = "SELECT message_id::text FROM webhooks.sends WHERE available_at <= now()"
    assert outbox.rows(due) == [{"message_id": one}]
    assert len(crm.json("outbox", "retry", "--state", "retrying", "--yes")["messages"]) == 2
    (crm.folder / "refuse").unlink()
    assert crm.json("relay", "shop:inbox", "--drain")["sent"] == 2


def test_what_is_not_there_or_needs_no_retry_is_said(crm: Cli, outbox: Outbox) -> None:
    """Exit 2 for what there is not, 1 for a message that is named and left."""
    (sent,) = outbox.write("Booked")
    crm.run("relay", "shop:inbox", "--drain")
    unknown = "00000000-0000-0000-0000-000000000000"
    for arguments, code, said in (
        ([unknown], 2, f"there is no message '{unknown}'"),
        (["--destination", "nosuch"], 2, "there is no message for destination 'nosuch'"),
        (["--destination", "crm"], 0, "0 messages are due again"),
        ([sent], 1, f"left as it is: {sent} at crm: it is sent"),
    ):
        done = crm.run("outbox", "retry", *arguments, "--yes")
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_the_status_counts_what_is_not_sent(crm: Cli, outbox: Outbox) -> None:
    """Waiting, unrouted or dead: all of it, and its age; exit 1 past the threshold."""
    outbox.write("Booked", "Unknown")
    facts = crm.json("status", "--max-outbox", "1", code=1)
    assert facts["outbox"]["unsent"] == 2
    assert facts["outbox"]["oldest_seconds"] > 0
    crm.run("relay", "shop:inbox", "--drain")
    assert crm.json("status")["outbox"]["unsent"] == 1
