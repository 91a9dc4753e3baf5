"""``reviews`` shows what handlers asked a person to look at, and closes it once, with who did and what came of it."""

from __future__ import annotations

import json

import pytest

from tests.fixtures.cli import Cli
from tests.fixtures.recorded import Recorded

EVIL = "paid \x1b[2J\u202e"


@pytest.fixture
def recorded(shop: Cli) -> Recorded:
    """Three reviews of two endpoints."""
    made = Recorded(shop.environment["WEBHOOK_INBOX_DATABASE_URL"])
    for number, endpoint in enumerate(("shop", "shop", "billing")):
        row = made.add(f"evt_{number}", endpoint=endpoint)
        made.rows(
            "INSERT INTO webhooks.reviews (inbox_id, endpoint, event_id, summary, details) VALUES (%s, %s, %s, %s, %s)",
            row,
            endpoint,
            f"evt_{number}",
            EVIL if number == 2 else "paid after void",
            json.dumps({"invoice": f"in_{number}"}),
        )
    return made


def test_open_reviews_are_listed_oldest_first(shop: Cli, recorded: Recorded) -> None:
    """Page by page, of one endpoint or of all; details are shown one by one."""
    lines = shop.run("reviews", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["review", "1", "2", "3"]
    assert "paid after void" in lines[1]
    page = shop.json("reviews", "list", "--limit", "1", "--endpoint", "shop")
    assert ([each["id"] for each in page["reviews"]], page["after"]) == ([1], 1)
    rest = shop.json("reviews", "list", "--after", "1", "--app", "shop:inbox")
    assert [each["event_id"] for each in rest["reviews"]] == ["evt_1", "evt_2"]
    shown = shop.run("reviews", "show", "2").stdout
    assert '"invoice": "in_1"' in shown
    assert "evt_1 (row 2), endpoint shop" in shown
    assert shop.json("reviews", "show", "2")["details"] == {"invoice": "in_1"}
    assert shop.run("reviews", "show", "9").returncode == 2


def test_a_review_is_closed_once(shop: Cli, recorded: Recorded) -> None:
    """The second who tries is told, exit 1; who closed it, and why, is kept with its event."""
    done = shop.run("reviews", "resolve", "1", "2", "--reason", "refunded", "--operator", "ada")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 reviews resolved\n", "")
    again = shop.run("reviews", "resolve", "2", "3", "99")
    assert (again.returncode, again.stdout) == (1, "1 review resolved\n")
    assert [line.split(":")[1].split()[1] for line in again.stderr.splitlines()] == ["2", "99"]
    assert shop.json("reviews", "resolve", "1", code=1) == {"resolved": [], "left": [1]}
    assert shop.run("reviews", "list").stderr == "no review is open\n"
    closed = shop.json("reviews", "list", "--all")["reviews"]
    assert [(each["resolved_by"], each["resolution"]) for each in closed][:2] == [("ada", "refunded")] * 2
    assert all(each["resolved_at"] for each in closed)
    assert "by ada: refunded" in shop.run("reviews", "show", "1").stdout
    (action,) = shop.json("events", "show", "evt_0")["audit"]
    assert (action["action"], action["actor"], action["reason"]) == ("resolve", "ada", "refunded")


def test_nothing_that_a_handler_wrote_is_obeyed_by_a_terminal(shop: Cli, recorded: Recorded) -> None:
    """A summary may quote what a stranger sent."""
    for arguments in (["list"], ["show", "3"]):
        text = shop.run("reviews", *arguments).stdout
        assert "paid \\x1b[2J\\u202e" in text
        assert "\x1b" not in text
