"""``events list`` and ``events show`` tell what is recorded, hide what may be personal, and pass on nothing to obey."""

from __future__ import annotations

import os
import pty
from typing import Any

import pytest

from tests.fixtures.cli import Cli
from tests.fixtures.recorded import Recorded

BODY = b'{"id": "evt_1", "name": "Ada \x1b[2J", "note": "a\r\nb"}'
CANARY = "canary-of-a-header"
# What a terminal obeys: an escape, a line break, a change of the reading direction.
EVIL = "evt\x1b[2J\r\nx\u202e"


@pytest.fixture
def recorded(shop: Cli) -> Recorded:
    """An event that died, among others."""
    made = Recorded(shop.environment["WEBHOOK_INBOX_DATABASE_URL"])
    made.add("evt_0", "processed", ago=7200)
    headers = [["stripe-version", CANARY]]
    made.add("evt_1", "dead", body=BODY, headers=headers, last_error="KeyError at shop.py:3", ago=60)
    made.rows(
        "INSERT INTO webhooks.attempts (inbox_id, attempt, claim, worker, started_at, seconds, outcome, error, "
        "traceback) SELECT id, 1, 1, 'w-1', now(), 0.25, 'failed', 'KeyError', 'shop.py:3 in book' FROM webhooks.inbox "
        "WHERE event_id = 'evt_1'"
    )
    return made


def test_people_read_a_line_for_each_event(shop: Cli, recorded: Recorded) -> None:
    """Newest first, of the database or of an APP; talk about pages goes to stderr."""
    done = shop.run("events", "list")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["row", "received", "endpoint", "event", "type", "state", "attempts", "last", "error"]
    assert [(line[0], line[4], line[6]) for line in lines[1:]] == [
        ("2", "evt_1", "dead"),
        ("1", "evt_0", "processed"),
    ]
    assert done.stderr == ""
    page = shop.run("events", "list", "--limit", "1", "--app", "shop:inbox")
    assert [line.split()[0] for line in page.stdout.splitlines()] == ["row", "2"]
    assert page.stderr == "there may be more: --after 2\n"
    assert shop.run("events", "list", "--after", "2").stdout.splitlines()[1].split()[0] == "1"
    none = shop.run("events", "list", "--state", "leased")
    assert (none.returncode, none.stdout, none.stderr) == (0, "", "there is no such event\n")


def test_programs_read_json(shop: Cli, recorded: Recorded) -> None:
    """A page, and what the next one goes on after; times as ISO 8601 in UTC."""
    told = shop.json("events", "list", "--limit", "1", "--state", "dead", "--since", "1h")
    (event,) = told["events"]
    assert told["after"] == event["row"] == 2
    assert (event["event_id"], event["state"], event["last_error"]) == (
        "evt_1",
        "dead",
        "KeyError at shop.py:3",
    )
    assert event["received_at"].endswith("+00:00")
    assert shop.json("events", "list", "--until", "1h")["events"][0]["event_id"] == "evt_0"
    assert shop.json("events", "list", "--id", "evt_9") == {"events": [], "after": None}


def test_one_event_is_shown_without_what_may_be_personal(shop: Cli, recorded: Recorded) -> None:
    """Runs with their traceback, names of headers; values and payload only for who asks (P-QUIET)."""
    shown = shop.run("events", "show", "evt_1").stdout
    for part in (
        "state       dead",
        "KeyError at shop.py:3",
        "run 1: failed",
        "  shop.py:3 in book",
        "stripe-version: ",
    ):
        assert part in shown
    told = shop.json("events", "show", "2")
    assert told["runs"][0]["traceback"] == "shop.py:3 in book"
    assert told["headers"] == [["stripe-version", None]]
    assert told["kept"] is True
    for text in (shown, str(told)):
        assert "Ada" not in text
        assert CANARY not in text


def test_headers_and_payload_are_shown_to_who_asks(shop: Cli, recorded: Recorded) -> None:
    """Each by its own option; what a terminal would obey is escaped, JSON has it whole."""
    headers = shop.run("events", "show", "evt_1", "--show-headers").stdout
    assert f"stripe-version: {CANARY}" in headers
    assert "Ada" not in headers
    body = shop.run("events", "show", "evt_1", "--show-body").stdout
    assert "Ada \\x1b[2J" in body
    assert CANARY not in body
    told = shop.json("events", "show", "evt_1", "--show-body", "--show-headers")
    assert told["body"] == BODY.decode()
    assert told["headers"] == [["stripe-version", CANARY]]
    recorded.add("evt_2", body=b"\xff\x00")
    assert shop.json("events", "show", "evt_2", "--show-body")["body_base64"] == "/wA="


def test_the_exact_bytes_can_be_had(shop: Cli, recorded: Recorded) -> None:
    """On stdout and nothing beside them; but not onto a terminal."""
    body = b"\x00\xff{}\r\n\x1b[2J"
    recorded.add("evt_raw", body=body)
    with (shop.folder / "body").open("wb") as file:
        assert shop.start("events", "show", "evt_raw", "--raw", stdout=file).wait(60) == 0
    assert (shop.folder / "body").read_bytes() == body
    recorded.add("evt_gone", kept=False)
    gone = shop.run("events", "show", "evt_gone", "--raw")
    assert (gone.returncode, gone.stdout, gone.stderr) == (1, "", "the body is not kept any more\n")
    assert "not kept any more" in shop.run("events", "show", "evt_gone").stdout
    leader, follower = pty.openpty()
    refused = shop.start("events", "show", "evt_raw", "--raw", stdout=follower)
    assert refused.wait(60) == 1
    os.close(follower)
    os.close(leader)


def test_nothing_recorded_is_obeyed_by_a_terminal(shop: Cli, recorded: Recorded) -> None:
    """Whatever a stranger, or a handler's exception, has put into ids, types, headers and errors."""
    recorded.add(
        EVIL,
        "dead",
        event_type=EVIL,
        endpoint=EVIL,
        last_error=EVIL,
        headers=[[EVIL, EVIL]],
        body=EVIL.encode(),
    )
    row = str(recorded.event(EVIL)["id"])
    outputs = [
        shop.run("events", "list"),
        shop.run("events", "show", row),
        shop.run("events", "show", row, "--show-headers", "--show-body"),
        shop.run("events", "show", EVIL),
        shop.run("events", "show", EVIL + "?"),
        shop.run("events", "list", "--state", EVIL),
    ]
    for done in outputs:
        text = done.stdout + done.stderr
        assert "\\x1b[2J" in text
        assert not {"\x1b", "\r", "\u202e"} & set(text)
    assert len(outputs[0].stdout.splitlines()) == 4


def test_an_event_that_is_unknown_or_ambiguous_is_a_mistake_of_usage(shop: Cli, recorded: Recorded) -> None:
    """Exit 2; the matches are listed with what tells them apart."""
    unknown = shop.run("events", "show", "evt_9")
    assert (unknown.returncode, unknown.stderr) == (2, "webhook-inbox: there is no event 'evt_9'\n")
    recorded.add("evt_1", endpoint="billing", account="acct_1", environment="live")
    ambiguous = shop.run("events", "show", "evt_1")
    assert (ambiguous.returncode, ambiguous.stderr.splitlines()) == (
        2,
        [
            "webhook-inbox: 'evt_1' means several events; give a row's number, or --endpoint:",
            "  row 2: 'evt_1' at endpoint 'shop', dead",
            "  row 3: 'evt_1' at endpoint 'billing', account 'acct_1', live, processed",
        ],
    )
    assert shop.json("events", "show", "evt_1", "--endpoint", "billing")["row"] == 3
    assert "at endpoint 'x'" in shop.run("events", "show", "evt_1", "--endpoint", "x").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--state", "lost"],
        ["list", "--since", "yesterday"],
        ["list", "--since", "99999999d"],
        ["list", "--until", "9999999999w"],
        ["list", "--limit", "0"],
        ["show", "evt_1", "--raw", "--json"],
        ["show", "evt_1", "--app", "shop:inbox", "--schema", "other"],
    ],
)
def test_what_cannot_be_meant_is_a_mistake_of_usage(
    shop: Cli, recorded: Recorded, arguments: list[Any]
) -> None:
    """Exit 2 and a sentence, nothing on stdout."""
    done = shop.run("events", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
