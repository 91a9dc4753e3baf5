"""``events replay --rehearse``: what people and programs are shown, and what it refuses."""

from __future__ import annotations

import pytest

from tests.fixtures.cli import Cli
from tests.fixtures.recorded import Recorded

APP = ("--app", "shop:inbox")
HANDLERS = """
import pathlib
from webhook_inbox import GiveUp, Inbox
from webhook_inbox.sources import Stripe

inbox = Inbox()
shop = inbox.endpoint("shop", Stripe(secrets="whsec_fake"))

@shop.on("invoice.paid")
def book(tx, event):
    tx.conn.execute("UPDATE effects SET event_id = 'now \\x1b[31m' WHERE event_id = 'before'")
    tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
    tx.emit("Booked", {"event": event.id}, aggregate_type="Invoice", aggregate_id="in_1")
    tx.review("look", details={"why": "twice"})
    pathlib.Path("told.txt").write_text("told")

@shop.on("invoice.broken")
def fail(tx, event):
    raise KeyError("canary")

@shop.on("invoice.slow")
async def book_slowly(tx, event):
    print("for whoever reads the log")
    await tx.conn.execute("DELETE FROM effects")

@shop.on("invoice.unwanted")
def refuse(tx, event):
    raise GiveUp("not wanted")
"""


@pytest.fixture
def recorded(shop: Cli) -> Recorded:
    """An event of each type, one that a worker holds, and a row that is there before."""
    shop.app(HANDLERS)
    made = Recorded(shop.environment["WEBHOOK_INBOX_DATABASE_URL"])
    for name in ("paid", "broken", "slow", "unwanted", "unknown"):
        made.add(f"evt_{name}", "dead", event_type=f"invoice.{name}")
    made.add("evt_leased", "leased")
    made.rows("INSERT INTO effects VALUES ('before')")
    return made


def test_what_a_run_would_change_is_shown_and_nothing_is_changed(shop: Cli, recorded: Recorded) -> None:
    """Rows, messages, reviews, and what no rollback undoes; nothing that a terminal would obey (P-ONCE)."""
    done = shop.run("events", "replay", "evt_paid", "--rehearse", *APP)
    assert (done.returncode, done.stderr) == (0, "nothing was changed\n")
    assert done.stdout.splitlines() == [
        "evt_paid (row 1), dead: would be processed",
        "  public.effects: 1 row deleted, 2 rows inserted",
        "  - public.effects event_id=before",
        "  + public.effects event_id=evt_paid",
        "  + public.effects event_id=now \\x1b[31m",
        '  message Booked Invoice in_1: {"event": "evt_paid"}',
        '  review look: {"why": "twice"}',
        "  outside of the transaction, so it was done: shop.book: open, for writing",
    ]
    assert recorded.rows("SELECT * FROM effects") == [{"event_id": "before"}]
    assert recorded.event("evt_paid")["state"] == "dead"
    for table in ("outbox", "reviews", "attempts", "audit"):
        assert recorded.rows(f"SELECT * FROM webhooks.{table}") == []


def test_a_program_gets_a_line_for_each_event(shop: Cli, recorded: Recorded) -> None:
    """With the rows before and after, also of an ``async def`` handler; what it prints is not among them."""
    told = shop.json("events", "replay", "evt_slow", "--rehearse", *APP)
    assert told == {
        "row": 3,
        "event_id": "evt_slow",
        "end": "processed",
        "reason": "",
        "traceback": [],
        "rows": [{"table": "public.effects", "before": {"event_id": "before"}, "after": None}],
        "all_rows": True,
        "unread_tables": [],
        "messages": [],
        "reviews": [],
        "outside": [],
    }


def test_what_would_not_be_processed_is_bad(shop: Cli, recorded: Recorded) -> None:
    """Exit 1, with the reason: where it failed, who holds it; an event that nobody handles would be ignored."""
    done = shop.run(
        "events", "replay", "evt_broken", "evt_unwanted", "evt_unknown", "evt_leased", "--rehearse", *APP
    )
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "evt_broken (row 2), dead: would fail"
    assert lines[1].startswith("  KeyError at shop.py:")
    assert lines[2].endswith(" fail")
    assert lines[3:5] == ["evt_unwanted (row 4), dead: would be dead", "  not wanted"]
    assert lines[5:7] == ["evt_unknown (row 5), dead: would be ignored", "  no handler for invoice.unknown"]
    assert lines[7] == "evt_leased (row 6), leased: was not run"
    assert "canary" not in done.stdout + done.stderr
    assert shop.run("events", "replay", "evt_unknown", "--rehearse", *APP).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("evt_paid",), "say --app"),
        (APP, "takes ids"),
        (("evt_paid", "--state", "dead", *APP), "no option that says which events"),
        (("evt_none", *APP), "there is no event 'evt_none'"),
    ],
)
def test_a_mistake_is_told(shop: Cli, recorded: Recorded, arguments: tuple[str, ...], words: str) -> None:
    """Exit 2."""
    done = shop.run("events", "replay", *arguments, "--rehearse")
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
