"""``endpoints`` says which there are, and holds what it is told to: all of one's events, or all but so many."""

from __future__ import annotations

import re

import pytest

from tests.fixtures.cli import Cli
from tests.fixtures.recorded import Recorded


@pytest.fixture
def recorded(shop: Cli) -> Recorded:
    """Events of two endpoints, one of which the app does not have."""
    made = Recorded(shop.environment["WEBHOOK_INBOX_DATABASE_URL"])
    made.add("evt_1", endpoint="former", provider="github")
    made.add("evt_1", endpoint="former", provider="github", account="acct_2")
    made.add("evt_1", "dead")
    return made


def test_the_endpoints_of_the_app_and_of_the_database_are_listed(shop: Cli, recorded: Recorded) -> None:
    """The app's with their mode; of the database alone, those that something has come to."""
    told = shop.json("endpoints", "list", "--app", "shop:inbox")
    assert [(each["endpoint"], each["provider"], each["mode"]) for each in told] == [
        ("former", "github", None),
        ("shop", "stripe", "inline"),
    ]
    assert [each["endpoint"] for each in shop.json("endpoints", "list")] == ["former", "shop"]
    recorded.rows("DELETE FROM webhooks.inbox")
    assert shop.json("endpoints", "list") == []
    assert shop.run("endpoints", "list").stderr == "there is no endpoint\n"
    assert [each["endpoint"] for each in shop.json("endpoints", "list", "--app", "shop:inbox")] == ["shop"]


def test_an_endpoint_is_paused_and_resumed(shop: Cli, recorded: Recorded) -> None:
    """Who did it, and why, is kept; to resume what is not paused is exit 1."""
    done = shop.run("endpoints", "pause", "shop", "--operator", "ada", "--reason", "the ledger is away")
    assert (done.returncode, done.stdout) == (0, "shop is paused; receiving goes on\n")
    again = shop.run("endpoints", "pause", "shop", "--operator", "bob")
    assert (again.returncode, again.stdout) == (0, "")
    assert re.fullmatch(r"shop is paused already, since \d{4}-\d\d-\d\d [\d:]{8}Z by ada\n", again.stderr)
    assert shop.json("endpoints", "pause", "shop") == {"endpoint": "shop", "paused": True, "changed": False}
    (shown,) = [line for line in shop.run("endpoints", "list").stdout.splitlines() if line.startswith("shop")]
    assert shown.endswith(" by ada")
    (shop_of,) = [each for each in shop.json("endpoints", "list") if each["endpoint"] == "shop"]
    assert (shop_of["paused_by"], shop_of["paused_at"].endswith("+00:00")) == ("ada", True)
    assert recorded.rows("SELECT name FROM webhooks.endpoints") == [{"name": "shop"}]
    assert shop.json("endpoints", "resume", "shop") == {"endpoint": "shop", "paused": False, "changed": True}
    assert recorded.rows("SELECT name FROM webhooks.endpoints") == []
    again = shop.run("endpoints", "resume", "shop")
    assert (again.returncode, again.stderr) == (1, "shop was not paused\n")
    audit = recorded.rows("SELECT actor, action, reason, endpoint FROM webhooks.audit ORDER BY id")
    assert tuple(audit[0].values()) == ("ada", "pause", "the ledger is away", "shop")
    assert [row["action"] for row in audit] == ["pause", "resume"]


def test_an_endpoint_is_limited_and_let_go(shop: Cli, recorded: Recorded) -> None:
    """Who did it, and why, is kept; what is said replaces what was; to lift what is not limited is exit 1."""
    said = ("--concurrency", "4", "--rate", "30/min", "--operator", "ada")
    done = shop.run("endpoints", "limit", "shop", *said, "--reason", "the ledger is slow")
    told = "shop is limited to 4 at once, 30/min, in all workers together; receiving goes on\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
    again = shop.run(
        "endpoints", "limit", "shop", "--concurrency", "4", "--rate", "30/min", "--operator", "bob"
    )
    assert (again.returncode, again.stdout) == (0, "")
    since = r"since \d{4}-\d\d-\d\d [\d:]{8}Z by ada"
    assert re.fullmatch(rf"shop is limited to 4 at once, 30/min already, {since}\n", again.stderr)
    (shown,) = [line for line in shop.run("endpoints", "list").stdout.splitlines() if line.startswith("shop")]
    assert re.search(rf"  4 at once, 30/min {since}$", shown)
    assert re.search(
        rf"^limited      shop to 4 at once, 30/min, {since}$", shop.run("status").stdout, re.MULTILINE
    )
    (limited,) = shop.json("status")["limited"]
    (listed,) = [each for each in shop.json("endpoints", "list") if each["endpoint"] == "shop"]
    assert limited.items() <= listed.items()
    assert (limited["concurrency"], limited["rate"], limited["limited_by"]) == (4, "30/min", "ada")
    assert shop.json("endpoints", "limit", "shop", "--rate", "5/s") == {
        "endpoint": "shop",
        "concurrency": None,
        "rate": "5/s",
        "changed": True,
    }
    done = shop.run("endpoints", "limit", "shop", "--none")
    assert (done.returncode, done.stdout) == (0, "shop is limited no more\n")
    again = shop.run("endpoints", "limit", "shop", "--none")
    assert (again.returncode, again.stderr) == (1, "shop was not limited\n")
    assert recorded.rows("SELECT name FROM webhooks.endpoints") == []
    audit = recorded.rows("SELECT actor, action, reason FROM webhooks.audit ORDER BY id")
    assert [row["action"] for row in audit] == ["limit", "limit", "unlimit"]
    assert tuple(audit[0].values()) == ("ada", "limit", "the ledger is slow")


def test_an_inline_endpoint_is_said_to_run_in_the_request(shop: Cli, recorded: Recorded) -> None:
    """A limit would be believed to slow it down."""
    done = shop.run("endpoints", "limit", "shop", "--concurrency", "1", "--app", "shop:inbox")
    told = "shop is inline: it runs its handlers in the request, which no limit touches\n"
    assert (done.returncode, done.stderr) == (0, told)


@pytest.mark.parametrize(
    "said",
    [
        (),
        ("--none", "--concurrency", "1"),
        ("--none", "--rate", "1/s"),
        ("--concurrency", "0"),
        ("--rate", "0/s"),
        ("--rate", "fast"),
    ],
)
def test_a_limit_that_is_none_is_refused(said: tuple[str, ...], shop: Cli, recorded: Recorded) -> None:
    """Nothing is changed by it."""
    assert shop.run("endpoints", "limit", "shop", *said).returncode == 2
    assert recorded.rows("SELECT name FROM webhooks.endpoints") == []


@pytest.mark.parametrize("said", [("pause",), ("limit", "--concurrency", "1")])
def test_a_misspelt_endpoint_is_not_held(said: tuple[str, ...], shop: Cli, recorded: Recorded) -> None:
    """It would look as if it were, and go on; those that there are, are named."""
    verb, *options = said
    done = shop.run("endpoints", verb, "shpo", *options)
    assert (done.returncode, "there are former, shop" in done.stderr) == (2, True)
    assert shop.run("endpoints", verb, "shpo", *options, "--app", "shop:inbox").returncode == 2
    assert recorded.rows("SELECT name FROM webhooks.endpoints") == []
