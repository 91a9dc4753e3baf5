"""``status`` counts what is not settled as SQL does, and judges it by the thresholds that were given."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import Any

import psycopg
import pytest

from tests.fixtures.cli import Cli

HOUR = 3_600
INSERT = """INSERT INTO webhooks.inbox
    (provider, endpoint, event_id, event_type, state, processed_at, body_sha256, body_bytes, received_at)
    VALUES ('stripe', %s, %s, 'invoice.paid', %s, CASE WHEN %s = 'processed' THEN now() END, '\\x00', 0,
            now() - make_interval(hours => %s))"""
#: endpoint, state, how many, hours since they were received.
EVENTS = [
    ("billing", "waiting", 2, 1),
    ("billing", "retrying", 1, 3),
    ("billing", "dead", 3, 9),
    ("billing", "processed", 5, 9),
    ("shop", "leased", 1, 2),
    ("shop", "quarantined", 4, 9),
    ("quiet", "ignored", 2, 9),
]
STUCK = {"retrying": 1, "dead": 2, "unrouted": 1}
#: Option, and the value that the events above come to.
THRESHOLDS = {
    "unprocessed": 4,
    "age-seconds": 3 * HOUR,
    "retrying": 1,
    "dead": 3,
    "quarantined": 4,
    "outbox": 2,
    "outbox-age-seconds": 2 * HOUR,
    "outbox-dead": 2,
    "outbox-unrouted": 1,
    "reviews": 1,
    "conflicts": 2,
    "duplicates": 9,
    "rejected": 4,
    "failed": 3,
}
#: What left no row, and how many minutes ago that was; the last one is too long ago to count.
COUNTED = [
    ("billing", "duplicate", "", 5, 1),
    ("billing", "duplicate", "", 4, 45),
    ("billing", "rejected", "signature_mismatch", 4, 1),
    ("shop", "failed", "handler", 2, 1),
    ("shop", "unavailable", "store_unavailable", 1, 1),
    ("shop", "failed", "handler", 7, 90),
]


@pytest.fixture
def backlog(shop: Cli) -> Cli:
    """The program beside a database in which something of everything is unsettled."""
    with psycopg.connect(shop.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        for endpoint, state, count, hours in EVENTS:
            for number in range(count):
                connection.execute(INSERT, [endpoint, f"evt_{state}_{number}", state, state, hours])
        connection.execute(
            "INSERT INTO webhooks.outbox (event_type, payload, created_at, published_at) VALUES "
            "('a', '{}', now() - interval '2 hours', NULL), ('b', '{}', now(), NULL), ('c', '{}', now(), now())"
        )
        connection.execute("UPDATE webhooks.outbox SET state = 'unrouted' WHERE event_type = 'b'")
        connection.execute(
            "INSERT INTO webhooks.sends (message_id, destination, position, state) "
            "SELECT id, name, position, send.state FROM webhooks.outbox CROSS JOIN "
            "(VALUES ('mail', 'dead'), ('crm', 'dead'), ('bus', 'retrying')) AS send (name, state) "
            "WHERE event_type = 'a'"
        )
        connection.execute("INSERT INTO webhooks.endpoints (name, paused_by) VALUES ('quiet', 'ada')")
        connection.execute(
            "INSERT INTO webhooks.reviews (inbox_id, endpoint, event_id, summary, details, resolved_at) VALUES "
            "(1, 'billing', 'e', 's', '{}', NULL), (1, 'billing', 'e', 's', '{}', now())"
        )
        connection.execute(
            "INSERT INTO webhooks.conflicts (inbox_id, body_sha256, body, headers) "
            "SELECT min(id), n, n, '[]' FROM webhooks.inbox, (VALUES ('a'::bytea), ('b')) other (n) GROUP BY n"
        )
        connection.cursor().executemany(
            "INSERT INTO webhooks.counters (endpoint, outcome, reason, number, began_at) "
            "VALUES (%s, %s, %s, %s, now() - make_interval(mins => %s))",
            COUNTED,
        )
    return shop


def about(expected: float) -> Any:
    """An age, measured a moment later."""
    return pytest.approx(expected, abs=60)


def test_it_counts_what_is_not_settled(backlog: Cli) -> None:
    """By endpoint and in all; processed and ignored events are settled."""
    told = backlog.json("status")
    none = {"waiting": 0, "leased": 0, "retrying": 0, "dead": 0, "quarantined": 0}
    assert told == {
        "schema": "webhooks",
        "healthy": True,
        "unprocessed": 4,
        "oldest_seconds": about(3 * HOUR),
        **none,
        "waiting": 2,
        "leased": 1,
        "retrying": 1,
        "dead": 3,
        "quarantined": 4,
        "endpoints": [
            {
                "endpoint": "billing",
                **none,
                "waiting": 2,
                "retrying": 1,
                "dead": 3,
                "oldest_seconds": about(3 * HOUR),
            },
            {"endpoint": "shop", **none, "leased": 1, "quarantined": 4, "oldest_seconds": about(2 * HOUR)},
        ],
        "outbox": {**STUCK, "unsent": 2, "oldest_seconds": about(2 * HOUR)},
        "paused": [{"endpoint": "quiet", "paused_at": told["paused"][0]["paused_at"], "paused_by": "ada"}],
        "limited": [],
        "reviews_open": 1,
        "conflicts": 2,
        "unhandled": [],
        "reconciles": [],
        "last_hour": {
            "duplicates": 9,
            "rejected": 4,
            "failed": 3,
            "counts": [
                {"endpoint": endpoint, "outcome": outcome, "reason": reason, "number": number}
                for endpoint, outcome, reason, number in (
                    ("billing", "duplicate", "", 9),
                    ("billing", "rejected", "signature_mismatch", 4),
                    ("shop", "failed", "handler", 2),
                    ("shop", "unavailable", "store_unavailable", 1),
                )
            ],
        },
        "exceeded": [],
    }
    assert backlog.json("status", "shop:inbox") == {
        **told,
        "oldest_seconds": about(3 * HOUR),
        "endpoints": [
            {**each, "oldest_seconds": about(each["oldest_seconds"])} for each in told["endpoints"]
        ],
        "outbox": {**STUCK, "unsent": 2, "oldest_seconds": about(2 * HOUR)},
    }


def test_people_read_it_in_80_columns(backlog: Cli) -> None:
    """A row for each endpoint, then the sums; then what shows the rows to look at, each one query on one line."""
    done = backlog.run("status")
    lines = done.stdout.splitlines()
    (paused,) = backlog.json("status")["paused"]
    since = f"{datetime.fromisoformat(paused['paused_at']):%Y-%m-%d %H:%M:%SZ}"
    assert lines[0].split() == ["endpoint", "waiting", "leased", "retrying", "dead", "quarantined", "oldest"]
    assert lines[1].split()[:6] == ["billing", "2", "0", "1", "3", "0"]
    assert lines[2].split()[:6] == ["shop", "0", "1", "0", "0", "4"]
    assert lines[4:] == [
        "unprocessed  4, oldest 3 h 0 min",
        "outbox       2, oldest 2 h 0 min; 1 retrying, 2 dead, 1 unrouted",
        "reviews      1",
        "conflicts    2",
        "last hour    9 duplicates, 4 rejected, 3 failed",
        "rejected     4 at billing: signature_mismatch",
        "failed       2 at shop: handler",
        "unavailable  1 at shop: store_unavailable",
        f"paused       quiet since {since} by ada",
        "see: webhook-inbox events list --state dead",
        "see: webhook-inbox events list --state quarantined",
        "see: webhook-inbox outbox list --state dead",
        "see: webhook-inbox outbox list --state unrouted",
        "see: webhook-inbox reviews list",
        "see: SELECT endpoint, event_id, event_type, state FROM webhooks.events WHERE conflicting",
    ]
    assert max(map(len, lines[:9])) <= 80


def test_what_it_tells_to_look_at_can_be_looked_at(backlog: Cli) -> None:
    """As typed into a shell, or into psql, also where the schema's name must be quoted; of an APP by its name."""
    with psycopg.connect(backlog.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        connection.execute('ALTER SCHEMA webhooks RENAME TO "odd ""one"')
        connection.commit()
        told = backlog.run("status", "--schema", 'odd "one').stdout.splitlines()
        *commands, query = [line.removeprefix("see: ") for line in told if line.startswith("see: ")]
        assert len(connection.execute(query.encode()).fetchall()) == 1
    shown = [backlog.run(*shlex.split(each)[1:]).stdout.splitlines() for each in commands]
    assert [len(lines) - 1 for lines in shown] == [3, 4, 2, 1, 1]
    with psycopg.connect(backlog.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        connection.execute('ALTER SCHEMA "odd ""one" RENAME TO webhooks')
    told = backlog.run("status", "shop:inbox").stdout.splitlines()
    assert "see: webhook-inbox events list --state dead --app shop:inbox" in told


def test_a_number_over_its_threshold_is_bad(backlog: Cli) -> None:
    """Every threshold by itself: at the value it is good, below it exit 1, and it says which."""
    at = [f"--max-{name}={value + (60 if 'seconds' in name else 0)}" for name, value in THRESHOLDS.items()]
    below = [f"--max-{name}={value - 1}" for name, value in THRESHOLDS.items()]
    assert backlog.json("status", *at)["exceeded"] == []
    told = backlog.json("status", *below, code=1)
    assert told["healthy"] is False
    assert [(each["name"], each["threshold"]) for each in told["exceeded"]] == [
        (name.replace("-", "_"), value - 1) for name, value in THRESHOLDS.items()
    ]
    for option in below:
        assert len(backlog.json("status", option, code=1)["exceeded"]) == 1
    shown = backlog.run("status", "--max-dead", "2")
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (1, "bad: dead is 3, over --max-dead 2")


def test_a_type_that_nobody_handles_is_told(shop: Cli) -> None:
    """The ten types that are most of the latest events; not what a handler or its source ignored for a reason."""
    with psycopg.connect(shop.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        for number in range(12):
            connection.execute(
                "INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, last_error, "
                "body_sha256, body_bytes) "
                "SELECT 'stripe', 'billing', n::text, %s, 'ignored', %s, '', 0 FROM generate_series(%s::int, %s) n",
                [f"type.{number}", f"no handler for type.{number}", number * 100, number * 100 + number],
            )
        connection.execute("UPDATE webhooks.inbox SET last_error = 'not ours' WHERE event_type = 'type.11'")
    told = [{"endpoint": "billing", "event_type": f"type.{n}", "count": n + 1} for n in range(10, 0, -1)]
    assert shop.json("status")["unhandled"] == told
    lines = shop.run("status").stdout.splitlines()
    assert lines[-10] == "11 events ignored: endpoint billing has no handler for type.10"
    assert lines[-1] == "2 events ignored: endpoint billing has no handler for type.1"


def test_nothing_unsettled_is_good(shop: Cli) -> None:
    """Without an age where there is nothing to be old, and under the strictest thresholds."""
    told = shop.json("status", *(f"--max-{name}=0" for name in THRESHOLDS))
    assert (told["healthy"], told["oldest_seconds"], told["outbox"]["oldest_seconds"]) == (True, None, None)
    assert shop.run("status").stdout == "unprocessed  0\noutbox       0\nreviews      0\nconflicts    0\n"


@pytest.mark.parametrize("app", [[], ["shop:inbox"]], ids=["database", "app"])
def test_a_database_that_cannot_be_used_is_bad(shop: Cli, app: list[str]) -> None:
    """Away, or without our schema: exit 1, and as JSON too."""
    shop.environment["WEBHOOK_INBOX_CONNECTION_WAIT_SECONDS"] = "0.5"
    away = {"WEBHOOK_INBOX_DATABASE_URL": "postgresql://127.0.0.1:1/shop"}
    told = shop.json("status", *app, code=1, **away)
    assert told["healthy"] is False
    assert told["error"]["code"] == "store_unavailable"
    assert "nothing listens there" in shop.run("status", *app, **away).stderr
    with psycopg.connect(shop.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        connection.execute("DROP SCHEMA webhooks CASCADE")
    assert shop.json("status", *app, code=1)["error"]["code"] == "schema_version"
    command = " ".join(["webhook-inbox migrate", *app])
    assert f"run `{command}`" in shop.run("status", *app).stderr


def test_what_is_typed_says_which_database(shop: Cli) -> None:
    """--database or --schema beat an APP from the environment; typing both is a mistake."""
    assert (
        shop.json("status", "--schema", "other", code=1, WEBHOOK_INBOX_APP="shop:inbox")["healthy"] is False
    )
    assert shop.run("status", "shop:inbox", "--schema", "webhooks").returncode == 2


def test_a_name_that_a_terminal_would_obey_is_escaped(shop: Cli) -> None:
    """Whoever could write it into the table."""
    with psycopg.connect(shop.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        connection.execute(INSERT, ["sh\x1b[2Jop\u202e", "evt_1", "dead", "dead", 0])
    done = shop.run("status")
    assert "sh\\x1b[2Jop\\u202e" in done.stdout
    assert "\x1b" not in done.stdout
