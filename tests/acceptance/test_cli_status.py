"""``status`` counts what is not settled as SQL does, and judges it by the thresholds that were given."""

from __future__ import annotations

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
#: Option, and the value that the events above come to.
THRESHOLDS = {
    "unprocessed": 4,
    "age-seconds": 3 * HOUR,
    "retrying": 1,
    "dead": 3,
    "quarantined": 4,
    "outbox": 2,
    "outbox-age-seconds": 2 * HOUR,
    "reviews": 1,
}


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
        connection.execute(
            "INSERT INTO webhooks.reviews (inbox_id, endpoint, event_id, summary, details, resolved_at) VALUES "
            "(1, 'billing', 'e', 's', '{}', NULL), (1, 'billing', 'e', 's', '{}', now())"
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
        "outbox": {"unsent": 2, "oldest_seconds": about(2 * HOUR)},
        "reviews_open": 1,
        "exceeded": [],
    }
    assert backlog.json("status", "shop:inbox") == {
        **told,
        "oldest_seconds": about(3 * HOUR),
        "endpoints": [
            {**each, "oldest_seconds": about(each["oldest_seconds"])} for each in told["endpoints"]
        ],
        "outbox": {"unsent": 2, "oldest_seconds": about(2 * HOUR)},
    }


def test_people_read_it_in_80_columns(backlog: Cli) -> None:
    """A row for each endpoint, then the sums; then what shows the rows to look at, each one query on one line."""
    done = backlog.run("status")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["endpoint", "waiting", "leased", "retrying", "dead", "quarantined", "oldest"]
    assert lines[1].split()[:6] == ["billing", "2", "0", "1", "3", "0"]
    assert lines[2].split()[:6] == ["shop", "0", "1", "0", "0", "4"]
    assert lines[4:] == [
        "unprocessed  4, oldest 3 h 0 min",
        "outbox       2, oldest 2 h 0 min",
        "reviews      1",
        "see: SELECT event_id, event_type, last_error FROM webhooks.inbox WHERE state = 'dead'",
        "see: SELECT event_id, event_type, last_error FROM webhooks.inbox WHERE state = 'quarantined'",
        "see: SELECT event_id, summary, details FROM webhooks.reviews WHERE resolved_at IS NULL",
    ]
    assert max(map(len, lines[:7])) <= 80


def test_what_it_tells_to_look_at_can_be_looked_at(backlog: Cli) -> None:
    """As typed into psql, also where the schema's name must be quoted."""
    with psycopg.connect(backlog.environment["WEBHOOK_INBOX_DATABASE_URL"]) as connection:
        connection.execute('ALTER SCHEMA webhooks RENAME TO "odd ""one"')
        connection.commit()
        shown = backlog.run("status", "--schema", 'odd "one').stdout.splitlines()
        queries = [line.removeprefix("see: ").encode() for line in shown if line.startswith("see: ")]
        assert [len(connection.execute(query).fetchall()) for query in queries] == [3, 4, 1]


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


def test_nothing_unsettled_is_good(shop: Cli) -> None:
    """Without an age where there is nothing to be old, and under the strictest thresholds."""
    told = shop.json("status", *(f"--max-{name}=0" for name in THRESHOLDS))
    assert (told["healthy"], told["oldest_seconds"], told["outbox"]["oldest_seconds"]) == (True, None, None)
    assert shop.run("status").stdout == "unprocessed  0\noutbox       0\nreviews      0\n"


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
    assert "`webhook-inbox migrate`" in shop.run("status", *app).stderr


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
