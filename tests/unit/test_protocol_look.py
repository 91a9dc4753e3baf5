"""What a page of events is asked by: the filter, where a time lies in the order of arrival, where a page goes on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fixtures.plans import play
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import Origin, State
from webhook_inbox.protocol.look import count_events, find_events, list_events, show_event
from webhook_inbox.sql.migrations import migrations

#: What the schema is asked first, and that it is as it should be; then the transaction that reads.
SERVED: list[Any] = [
    None,
    (True,),
    [(s.version, s.name, s.serves_from) for s in migrations("a b")],
    None,
    None,
]
LARGEST = 2**63 - 1
HOUR = 3_600_000_000
ROW = (
    7, "stripe", "shop", "acct", "live", "evt_1", "invoice.paid", "dead", "replay", None, 2_000_000, 3_000_000, None,
    4_000_000, 5, 1, "key", "label", 6, "ab", "KeyError", "w-1",
)  # fmt: skip


def test_a_filter_is_handed_over_as_it_is() -> None:
    """And what is empty asks nothing; no time is looked up that nobody asked for."""
    meant = EventFilter(
        rows=(1, 2),
        states=(State.DEAD,),
        endpoint="shop",
        event_type="invoice.*",
        event_id="evt_1",
        error="Key",
        kept=True,
        identified=True,
    )
    played = play(list_events(meant, "a b", limit=9), [*SERVED, [ROW], None])
    assert played.names[4:] == ["begin", "list_newest_events", "rollback"]
    assert played.params("list_newest_events") == [
        {
            "rows": [1, 2],
            "states": ["dead"],
            "endpoint": "shop",
            "event_type": "invoice.*",
            "event_id": "evt_1",
            "error": "Key",
            "kept": True,
            "identified": True,
            "since": 0,
            "until": 0,
            "first_row": 0,
            "last_row": LARGEST,
            "limit": 9,
        }
    ]


def test_a_row_is_told_by_its_names() -> None:
    """Times aware and in UTC; what is not there is None."""
    (event,) = play(list_events(EventFilter(), "a b", limit=1), [*SERVED, [ROW], None]).value or ()
    at = datetime(1970, 1, 1, tzinfo=UTC)
    assert (event.row, event.provider, event.endpoint, event.account, event.environment) == ROW[:5]
    assert (event.event_id, event.event_type, event.state, event.origin) == (
        "evt_1",
        "invoice.paid",
        State.DEAD,
        Origin.REPLAY,
    )
    assert (event.created_at, event.processed_at) == (None, None)
    assert (event.received_at, event.available_at, event.give_up_at) == tuple(
        at + timedelta(seconds=n) for n in (2, 3, 4)
    )
    assert (event.attempts, event.crashes, event.order_key, event.secret_label) == (5, 1, "key", "label")
    assert (event.body_bytes, event.body_sha256, event.last_error, event.holder) == (
        6,
        "ab",
        "KeyError",
        "w-1",
    )


@pytest.mark.parametrize(
    ("oldest_first", "after", "bounds"),
    [
        (False, None, (0, LARGEST)),
        (False, 50, (0, 49)),
        (True, 50, (51, LARGEST)),
    ],
)
def test_a_page_goes_on_behind_the_last_row(
    oldest_first: bool, after: int | None, bounds: tuple[int, int]
) -> None:
    """In its own direction."""
    plan = list_events(EventFilter(), "a b", limit=5, after=after, oldest_first=oldest_first)
    played = play(plan, [*SERVED, [], None])
    name = "list_oldest_events" if oldest_first else "list_newest_events"
    (params,) = played.params(name)
    assert (params["first_row"], params["last_row"]) == bounds


def test_a_time_is_the_servers_and_an_hour_of_disorder_is_allowed_for() -> None:
    """How long ago is counted by the server; a page never goes beyond the bounds that the times have set."""
    meant = EventFilter(since=timedelta(minutes=2), until=datetime(1970, 1, 1, 3, tzinfo=UTC))
    answers: list[Any] = [(5 * HOUR, 90), (5 * HOUR - HOUR, 80), (3 * HOUR, 95), (3 * HOUR, 99), [], None]
    played = play(list_events(meant, "a b", limit=5, after=70), [*SERVED, *answers])
    assert played.params("find_row_at") == [
        {"at": 120_000_000, "ago": True},
        {"at": 4 * HOUR, "ago": False},
        {"at": 3 * HOUR, "ago": False},
        {"at": 4 * HOUR, "ago": False},
    ]
    (params,) = played.params("list_newest_events")
    assert (params["since"], params["until"]) == (5 * HOUR, 3 * HOUR)
    assert (params["first_row"], params["last_row"]) == (80, 69)


@pytest.mark.parametrize(
    ("meant", "bounds"),
    [
        (EventFilter(states=(State.DEAD, State.WAITING)), (0, LARGEST)),
        (EventFilter(event_id="evt_1"), (0, LARGEST)),
        (EventFilter(rows=(1,)), (0, LARGEST)),
        (EventFilter(states=(State.DEAD, State.PROCESSED)), (80, 99)),
        (EventFilter(endpoint="shop"), (80, 99)),
    ],
)
def test_rows_are_narrowed_down_only_where_no_index_leads_to_few(
    meant: EventFilter, bounds: tuple[int, int]
) -> None:
    """The order of arrival is as good as the server's clock was."""
    meant = replace(meant, since=timedelta(minutes=2), until=timedelta(minutes=1))
    answers: list[Any] = [(5 * HOUR, 90), (4 * HOUR, 80), (6 * HOUR, 95), (7 * HOUR, 99), [], None]
    (params,) = play(list_events(meant, "a b", limit=5), [*SERVED, *answers]).params("list_newest_events")
    assert (params["since"], params["until"]) == (5 * HOUR, 6 * HOUR)
    assert (params["first_row"], params["last_row"]) == bounds


def test_events_are_counted_by_state() -> None:
    """With the same filter."""
    played = play(count_events(EventFilter(endpoint="shop"), "a b"), [*SERVED, [("dead", 3)], None])
    assert played.value == {State.DEAD: 3}
    assert played.params("count_events")[0]["endpoint"] == "shop"
    assert played.names[-1] == "rollback"


@pytest.mark.parametrize(
    ("name", "asked"),
    [("evt_1", [("evt_1", [])]), ("7", [("7", []), ("", [7])]), ("0", [("0", [])]), ("", [])],
)
def test_a_name_may_be_an_event_id_or_a_row(name: str, asked: list[tuple[str, list[int]]]) -> None:
    """Each is looked for, at the one endpoint that was named; what is found twice is one."""
    played = play(find_events(name, "a b", endpoint="shop"), [*SERVED, *[[ROW]] * len(asked), None])
    params = played.params("list_oldest_events")
    assert [(each["event_id"], each["rows"]) for each in params] == asked
    assert all((each["endpoint"], each["limit"]) == ("shop", 1000) for each in params)
    assert [event.row for event in played.value or ()] == [7] * bool(asked)


def test_all_of_an_event_is_read_by_its_row() -> None:
    """Its runs, what operators did, headers and bytes; None where these are gone."""
    (record,) = play(list_events(EventFilter(), "a b", limit=1), [*SERVED, [ROW], None]).value or ()
    run = (1, "w", 1_000_000, 0.5, "failed", "KeyError", "23505", "KeyError", "frame")
    action = (2_000_000, "ada", "retry", "why", None, "retrying")
    played = play(show_event(record, "a b"), [None, [run], [action], (b"{}", '[["A", "b"]]'), None])
    assert played.names == ["begin", "list_attempts", "list_audit", "show_body", "rollback"]
    for name in played.names[1:4]:
        assert played.params(name) == [{"row_id": 7}]
    details = played.value
    assert details is not None
    assert details.record is record
    assert details.body == b"{}"
    assert details.headers is not None
    assert details.headers.pairs == (("a", "b"),)
    (attempt,), (audit,) = details.attempts, details.audit
    assert (attempt.attempt, attempt.worker, attempt.seconds, attempt.outcome) == (1, "w", 0.5, "failed")
    assert (attempt.error_type, attempt.sqlstate, attempt.error, attempt.traceback) == run[5:]
    assert (audit.actor, audit.action, audit.reason, audit.before, audit.after) == (
        "ada",
        "retry",
        "why",
        "",
        "retrying",
    )
    gone = play(show_event(record, "a b"), [None, [], [], None, None]).value
    assert gone is not None
    assert (gone.body, gone.headers, gone.attempts, gone.audit) == (None, None, (), ())
