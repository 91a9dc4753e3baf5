"""An operator finds the events that are meant, page by page, and all that is known of one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import psycopg
import pytest

from tests.fixtures.recorded import Recorded
from webhook_inbox.cli.database import run_plan
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol import status
from webhook_inbox.protocol.look import count_events, find_events, list_events, show_event
from webhook_inbox.protocol.steps import Plan

T = TypeVar("T")
HOUR = 3600


@pytest.fixture
def recorded(database: str) -> Recorded:
    """Events of several endpoints, states, types, accounts and ages, oldest first."""
    made = Recorded(database)
    made.add("evt_1", "processed", ago=90 * HOUR, event_type="invoice.paid")
    made.add("evt_2", "dead", ago=50 * HOUR, last_error="KeyError at shop.py:3", event_type="invoice.voided")
    made.add("evt_3", "dead", ago=20 * HOUR, last_error="ValueError at shop.py:9")
    made.add("evt_4", "quarantined", ago=10 * HOUR, event_type="", endpoint="billing", last_error="no id")
    made.add("evt_5", "ignored", ago=9 * HOUR, event_type="customer.created", endpoint="billing")
    made.add("evt_6", "waiting", ago=60, account="acct_1", environment="live")
    made.add("evt_6", "processed", ago=30, account="acct_2", environment="live", event_type="invoice")
    return made


def ask(recorded: Recorded, plan: Callable[[str], Plan[T]]) -> T:
    """Perform a plan on the schema."""
    return run_plan(recorded.dsn, lambda: plan("webhooks"))


def meant(recorded: Recorded, **asked: Any) -> list[str]:
    """The ids of the events that a filter means, oldest first; they are counted as they are listed."""
    listed = ask(recorded, lambda name: list_events(EventFilter(**asked), name, limit=100, oldest_first=True))
    counted = ask(recorded, lambda name: count_events(EventFilter(**asked), name))
    assert counted == {state: sum(each.state is state for each in listed) for state in counted}
    assert sum(counted.values()) == len(listed)
    return [each.event_id for each in listed]


ALL = ["evt_1", "evt_2", "evt_3", "evt_4", "evt_5", "evt_6", "evt_6"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ALL),
        ({"states": (State.DEAD,)}, ["evt_2", "evt_3"]),
        ({"states": (State.DEAD, State.QUARANTINED)}, ["evt_2", "evt_3", "evt_4"]),
        ({"endpoint": "billing"}, ["evt_4", "evt_5"]),
        ({"event_type": "invoice.paid"}, ["evt_1", "evt_3", "evt_6"]),
        ({"event_type": "invoice.*"}, ["evt_1", "evt_2", "evt_3", "evt_6"]),
        ({"event_type": "*"}, ALL),
        ({"event_type": "%"}, []),
        ({"event_id": "evt_6"}, ["evt_6", "evt_6"]),
        ({"event_id": "evt_9"}, []),
        ({"error": "keyerror"}, ["evt_2"]),
        ({"error": "_"}, []),
        ({"since": timedelta(hours=30)}, ALL[2:]),
        ({"until": timedelta(hours=30)}, ALL[:2]),
        ({"since": timedelta(hours=30), "until": timedelta(minutes=10)}, ALL[2:5]),
        ({"since": datetime(2001, 1, 1, tzinfo=UTC)}, ALL),
        ({"until": datetime(2001, 1, 1, tzinfo=UTC)}, []),
        ({"until": datetime(1970, 1, 1, tzinfo=UTC), "states": (State.DEAD,)}, []),
        (
            {"since": timedelta(hours=30), "states": (State.DEAD,), "error": "SHOP", "endpoint": "shop"},
            ["evt_3"],
        ),
        ({"event_id": "evt_6", "states": (State.WAITING,)}, ["evt_6"]),
    ],
    ids=str,
)
def test_what_is_asked_narrows_the_list_down_together(
    recorded: Recorded, asked: dict[str, Any], expected: list[str]
) -> None:
    """Each alone and all at once; nothing in a text is a pattern but the * at a type's end."""
    assert meant(recorded, **asked) == expected


@pytest.mark.parametrize(
    "text",
    ["'; DELETE FROM webhooks.inbox; --", "' OR ''='", "\\", '"', "$1", "%(rows)s", "{schema}", "a\u2028b"],
)
def test_what_is_asked_for_is_no_sql(recorded: Recorded, text: str) -> None:
    """P-KEEP: what is called so is found by it, and nothing else is found, or gone."""
    recorded.add(text, "dead", event_type=text, endpoint=text, last_error=text)
    for asked in ("event_id", "event_type", "endpoint", "error"):
        assert meant(recorded, **{asked: text}) == [text]
    assert meant(recorded) == [*ALL, text]


def test_rows_are_found_by_number(recorded: Recorded) -> None:
    """Those that are there, of those that are asked for."""
    first = recorded.event("evt_1")["id"]
    assert meant(recorded, rows=(first, first + 2, first + 100)) == ["evt_1", "evt_3"]


@pytest.mark.parametrize("oldest_first", [False, True])
def test_pages_follow_each_other_without_a_gap(recorded: Recorded, oldest_first: bool) -> None:
    """By the row that the page before ended with, whatever is recorded meanwhile."""
    seen: list[int] = []
    after = None
    for _ in range(5):
        one_page = partial(list_events, EventFilter(), limit=2, after=after, oldest_first=oldest_first)
        page = ask(recorded, one_page)
        seen += [each.row for each in page]
        if not page:
            break
        after = page[-1].row
        if not oldest_first:
            recorded.add(f"evt_new_{after}")
    assert len(seen) == len(ALL)
    assert seen == sorted(seen, reverse=not oldest_first)


def test_a_time_is_exact_where_the_order_of_arrival_is_not(recorded: Recorded) -> None:
    """Two rows that were numbered in the other order than they were received, up to an hour."""
    recorded.add("evt_late", ago=29 * 60)
    recorded.add("evt_early", ago=31 * 60)
    assert meant(recorded, since=timedelta(minutes=30)) == ["evt_6", "evt_6", "evt_late"]
    assert meant(recorded, until=timedelta(minutes=30))[-1] == "evt_early"


def test_a_clock_that_was_set_back_hides_nothing_that_is_to_be_dealt_with(recorded: Recorded) -> None:
    """Nor what is asked for by its name; whatever order the rows are in."""
    recorded.add("evt_dead", "dead", ago=60)
    recorded.add("evt_before", ago=400 * HOUR)
    assert meant(recorded, since=timedelta(hours=1), states=(State.DEAD,)) == ["evt_dead"]
    assert meant(recorded, since=timedelta(hours=1), event_id="evt_dead") == ["evt_dead"]
    assert meant(recorded, until=timedelta(hours=300), event_id="evt_before") == ["evt_before"]


def test_an_empty_inbox_has_no_events(database: str) -> None:
    """However it is asked."""
    recorded = Recorded(database)
    assert meant(recorded) == meant(recorded, since=timedelta(hours=1), until=timedelta(0)) == []
    assert meant(recorded, event_id="evt_1") == []


def test_a_name_is_a_row_or_an_event_id(recorded: Recorded) -> None:
    """All that it may mean is found; an endpoint narrows it down."""

    def found(name: str, endpoint: str = "") -> list[str]:
        events = ask(recorded, lambda schema: find_events(name, schema, endpoint=endpoint))
        return [f"{each.endpoint} {each.event_id} {each.account}".strip() for each in events]

    row = recorded.event("evt_1")["id"]
    assert found(str(row)) == ["shop evt_1"]
    assert found("evt_6") == ["shop evt_6 acct_1", "shop evt_6 acct_2"]
    recorded.add(str(row), endpoint="billing")
    assert sorted(found(str(row))) == [f"billing {row}", "shop evt_1"]
    assert found(str(row), "billing") == [f"billing {row}"]
    for nothing in ("evt_none", "99999999999999999999", "0", "-1", "٣", ""):
        assert found(nothing) == []


def test_all_that_is_known_of_an_event_is_shown(recorded: Recorded) -> None:
    """Its runs that failed, in order, its headers and the exact bytes; the worker that holds it."""
    body = b'{"nul": "\x00\xff"}\r\n'
    recorded.add("evt_7", "leased", body=body, headers=[["X-Twice", "a"], ["x-twice", "b"]], attempts=3)
    with psycopg.connect(recorded.dsn) as conn:
        conn.execute(
            "WITH w AS (INSERT INTO webhooks.workers (name, lease_ends_at) VALUES ('w-1', now()) RETURNING id) "
            "UPDATE webhooks.inbox SET worker_id = w.id, crashes = 1 FROM w WHERE event_id = 'evt_7'"
        )
        for attempt in (1, 2):
            conn.execute(
                "INSERT INTO webhooks.attempts (inbox_id, attempt, claim, worker, started_at, seconds, outcome, error, "
                "traceback) SELECT id, %s, 1, 'w-0', now(), 1.5, 'failed', 'KeyError', 'a\nb' FROM webhooks.inbox "
                "WHERE event_id = 'evt_7'",
                [attempt],
            )
    (record,) = ask(recorded, lambda name: find_events("evt_7", name))
    assert (record.state, record.holder, record.attempts, record.crashes) == (State.LEASED, "w-1", 3, 1)
    details = ask(recorded, lambda name: show_event(record, name))
    assert details.body == body
    assert details.headers is not None
    assert details.headers.pairs == (("x-twice", "a"), ("x-twice", "b"))
    assert [(each.attempt, each.seconds, each.traceback) for each in details.attempts] == [
        (1, 1.5, "a\nb"),
        (2, 1.5, "a\nb"),
    ]


def test_bytes_that_are_not_kept_any_more_are_none(recorded: Recorded) -> None:
    """The record stays."""
    recorded.add("evt_8", kept=False)
    (record,) = ask(recorded, lambda name: find_events("evt_8", name))
    details = ask(recorded, lambda name: show_event(record, name))
    assert (details.body, details.headers, details.record.body_bytes > 0) == (None, None, True)


def test_a_look_that_takes_too_long_says_what_would_be_quick(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-FLOW: what no index knows is looked for among all; the limit is on the server, and is not called an outage."""
    recorded.rows(
        "INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes, "
        "last_error) SELECT 'stripe', 'shop', 'evt_' || n, 'invoice.paid', 'ignored', '', 0, repeat('ERROR ', 5000) "
        "FROM generate_series(100, 15000) n"
    )
    monkeypatch.setattr(status, "STATEMENT_SECONDS_MAX", 0.5)
    meant = EventFilter(error="nothing")
    for look in (partial(list_events, meant, limit=5), partial(count_events, meant)):
        with pytest.raises(StoreUnavailableError, match="took more than .* name a time or an id too"):
            ask(recorded, look)
