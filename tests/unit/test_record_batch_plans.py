"""What the plan of a body's events asks for: one transaction, a savepoint each, in the order of their keys."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.fixtures.arrivals import item, recording
from tests.fixtures.plans import Played, play
from tests.unit.test_record_plans import BEFORE, MICROSECONDS, RECORDED, handler, seals
from webhook_inbox.errors import (
    ConflictError,
    HandlerFailedError,
    HandlerTimeoutError,
    InboxError,
    KeyBusyError,
    StatementError,
    StoreUnavailableError,
    TransactionEndedError,
)
from webhook_inbox.model.event import EventKey
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet
from webhook_inbox.protocol.record import record_batch
from webhook_inbox.protocol.recording import Item

#: What each step of an event that is processed comes to: savepoint, record, run, release.
PROCESSED = (None, RECORDED, None, None)
GOOD = ["savepoint", "record_event", "run", "release"]
SEALED = ["seal_effect", "commit"]


def batch(items: list[Item], *answers: object, wait_seconds: float = 2.5) -> Played[tuple[EventResult, ...]]:
    """Play ``record_batch``."""
    return play(record_batch(items, recording(wait_seconds=wait_seconds)), [BEFORE, *answers])


def booked(*event_ids: str) -> list[Item]:
    """Events with a handler each."""
    return [item(handler(), event_id=event_id) for event_id in event_ids]


def outcomes(played: Played[tuple[EventResult, ...]]) -> list[tuple[str, Outcome]]:
    """What became of each event, in the body's order."""
    assert played.value is not None
    return [(result.event_id, result.outcome) for result in played.value]


def test_events_are_recorded_in_the_order_of_their_keys_and_told_in_the_bodys() -> None:
    """P-FLOW: two deliveries take their keys in one order, so that neither waits for the other."""
    items = booked("evt_c", "evt_a", "evt_b")
    rows = [(n, MICROSECONDS, "900") for n in (7, 8, 9)]
    played = batch(items, *(answer for row in rows for answer in (None, row, None, None)))
    assert played.names == ["begin", *GOOD, *GOOD, *GOOD, *SEALED]
    recorded = played.params("record_event")
    assert [params["event_id"] for params in recorded] == ["evt_a", "evt_b", "evt_c"]
    assert {params["state"] for params in recorded} == {State.PROCESSED}
    assert seals(played) == [("900", [7, 8, 9])]
    assert outcomes(played) == [(name, Outcome.PROCESSED) for name in ("evt_c", "evt_a", "evt_b")]


def test_every_column_of_the_key_counts_in_that_order() -> None:
    """By provider, endpoint, account, environment and id, as the unique key has them."""
    given = [
        ("b", "a", "a", "a", "a"),
        ("a", "b", "a", "a", "a"),
        ("a", "a", "b", "a", "a"),
        ("a", "a", "a", "b", "a"),
    ]
    names = ("provider", "endpoint", "account", "environment", "event_id")
    items = [
        Item(item(key=key_of(dict(zip(names, row, strict=True)))).arrival, (handler(),)) for row in given
    ]
    played = batch(items, *PROCESSED * 4)
    taken = [tuple(params[name] for name in names) for params in played.params("record_event")]
    assert taken == sorted(given)


def key_of(columns: dict[str, str]) -> Any:
    """A key of these columns."""
    return EventKey(**columns)


def test_a_duplicate_keeps_its_savepoint_and_is_looked_up() -> None:
    """P-STATE: what became of the first copy, within the same transaction; its mate is processed."""
    items = booked("evt_1", "evt_2")
    first = (7, "dead", MICROSECONDS, hashlib.sha256(items[0].arrival.body).digest(), "delivery")
    played = batch(items, None, None, None, first, *PROCESSED)
    assert played.names == ["begin", "savepoint", "record_event", "release", "find_event", *GOOD, *SEALED]
    assert outcomes(played) == [("evt_1", Outcome.DUPLICATE), ("evt_2", Outcome.PROCESSED)]
    assert played.value is not None
    assert played.value[0].state is State.DEAD


@pytest.mark.parametrize(
    "error", [KeyBusyError("busy"), StatementError("cannot be stored", sqlstate="22P05")]
)
def test_an_event_that_cannot_be_recorded_is_left_out(error: InboxError) -> None:
    """P-FLOW: its savepoint is undone; the others are recorded, and it shall come again."""
    played = batch(booked("evt_1", "evt_2"), None, error, None, *PROCESSED)
    assert played.names == ["begin", "savepoint", "record_event", "rollback_to", *GOOD, *SEALED]
    assert outcomes(played) == [("evt_1", Outcome.UNAVAILABLE), ("evt_2", Outcome.PROCESSED)]
    assert played.value is not None
    assert (played.value[0].state, played.value[0].reason) == (None, str(error))


@pytest.mark.parametrize(("wait_seconds", "waits"), [(2.5, [2500, 2500, 50]), (0.02, [20, 20, 20])])
def test_after_one_key_was_busy_its_mates_are_not_waited_for_as_long(
    wait_seconds: float, waits: list[int]
) -> None:
    """P-FLOW: the same rival holds them, most likely; a body of many must not wait for each of them in turn."""
    busy = (None, KeyBusyError("busy"), None)
    played = batch(booked("evt_1", "evt_2", "evt_3"), *PROCESSED, *busy, *busy, wait_seconds=wait_seconds)
    assert [params["wait_ms"] for params in played.params("record_event")] == waits


@pytest.mark.parametrize(
    ("verdict", "outcome", "state", "reason", "attempts"),
    [
        (Ignore("why"), Outcome.IGNORED, State.IGNORED, "why", 1),
        (GiveUp("why"), Outcome.DEAD, State.DEAD, "why", 1),
        (NotYet("why"), Outcome.QUEUED, State.WAITING, "why", 0),
        (
            HandlerFailedError("x"),
            Outcome.QUEUED,
            State.WAITING,
            "webhook_inbox.errors.HandlerFailedError",
            1,
        ),
        (
            HandlerTimeoutError("x"),
            Outcome.QUEUED,
            State.WAITING,
            "webhook_inbox.errors.HandlerTimeoutError",
            1,
        ),
    ],
)
def test_an_event_without_an_effect_is_recorded_anew_in_a_savepoint_of_its_own(
    verdict: Exception, outcome: Outcome, state: State, reason: str, attempts: int
) -> None:
    """P-FLOW, P-KEEP: its writes are undone, its record and bytes stay, its mate is processed."""
    items = [item(handler(), event_id="evt_1", keep_body=False), *booked("evt_2")]
    played = batch(items, None, RECORDED, verdict, None, None, (8, MICROSECONDS, "900"), None, *PROCESSED)
    settled = ["savepoint", "record_event", "run", "rollback_to", "savepoint", "record_event", "release"]
    assert played.names == ["begin", *settled, *GOOD, *SEALED]
    assert outcomes(played) == [("evt_1", outcome), ("evt_2", Outcome.PROCESSED)]
    again = played.params("record_event")[1]
    assert (again["event_id"], again["state"], again["attempts"]) == ("evt_1", state, attempts)
    assert again["last_error"].startswith(reason)
    assert again["keep_body"]
    assert seals(played) == [("900", [7])]


def test_a_key_that_was_given_up_with_the_savepoint_and_taken_by_a_rival_is_left_to_it() -> None:
    """P-DUP: the rival's handler is at work on it; the event shall come again, its mate is processed."""
    played = batch(
        booked("evt_1", "evt_2"),
        None,
        RECORDED,
        Ignore("x"),
        None,
        None,
        KeyBusyError("busy"),
        None,
        *PROCESSED,
    )
    assert played.names[1:8] == [
        "savepoint",
        "record_event",
        "run",
        "rollback_to",
        "savepoint",
        "record_event",
        "rollback_to",
    ]
    assert outcomes(played) == [("evt_1", Outcome.UNAVAILABLE), ("evt_2", Outcome.PROCESSED)]
    assert played.value is not None
    assert played.value[0].reason == "busy"


def test_a_key_that_was_given_up_and_recorded_by_a_rival_is_a_duplicate() -> None:
    """P-DUP, P-STATE: the rival has committed meanwhile."""
    items = booked("evt_1")
    first = (9, "processed", MICROSECONDS, hashlib.sha256(items[0].arrival.body).digest(), "delivery")
    played = batch(items, None, RECORDED, Ignore("x"), None, None, None, first, None)
    assert played.names[-5:] == ["savepoint", "record_event", "find_event", "release", "commit"]
    assert outcomes(played) == [("evt_1", Outcome.DUPLICATE)]


def test_an_event_without_a_handler_is_recorded_beside_its_mates() -> None:
    """No run, no mark, and nothing of it to seal."""
    items = [item(event_id="evt_1", settled=State.QUARANTINED), *booked("evt_2")]
    played = batch(items, None, RECORDED, None, *PROCESSED)
    assert played.names == ["begin", "savepoint", "record_event", "release", *GOOD, *SEALED]
    assert [params["state"] for params in played.params("record_event")] == [
        State.QUARANTINED,
        State.PROCESSED,
    ]
    assert seals(played) == [("900", [7])]
    assert outcomes(played) == [("evt_1", Outcome.QUARANTINED), ("evt_2", Outcome.PROCESSED)]


@pytest.mark.parametrize(
    "error", [StoreUnavailableError("away"), ConflictError("x"), TransactionEndedError("x")]
)
@pytest.mark.parametrize("position", range(5))
def test_what_ends_the_transaction_ends_the_plan(position: int, error: InboxError) -> None:
    """P-ONCE: nothing of the body is stored by this run, and nothing is answered for it."""
    answers: list[object] = [*PROCESSED, None]
    answers[position] = error
    played = batch(booked("evt_1"), *answers)
    named = position == 4 and isinstance(error, TransactionEndedError)
    assert played.error is not None
    assert (played.error.__cause__ if named else played.error) is error
    assert len(played.steps) == position + 2


def test_a_handler_whose_session_ended_with_it_is_blamed_for_the_whole() -> None:
    """P-FLOW: the savepoint cannot be undone on a lost session; the flow learns whose fault it was."""
    failed = HandlerTimeoutError("out of time")
    cause = RuntimeError()
    failed.__cause__ = cause
    played = batch(booked("evt_1"), None, RECORDED, failed, StoreUnavailableError("lost"))
    assert played.error is failed
    assert played.error.__cause__ is cause


def test_a_session_that_ended_by_itself_is_nobodys_fault() -> None:
    """P-ACK: a verdict whose savepoint cannot be undone is not kept: the database is away."""
    lost = StoreUnavailableError("lost")
    assert batch(booked("evt_1"), None, RECORDED, Ignore("x"), lost).error is lost


@pytest.mark.parametrize(
    "answers", [(None, RECORDED, None), (None, RECORDED, Ignore("x"))], ids=["keep", "undo"]
)
def test_a_savepoint_that_a_handler_ended_is_named(answers: tuple[object, ...]) -> None:
    """P-ONCE: kept or to be undone, it is not there any more: 3B001."""
    gone = StatementError("x", sqlstate="3B001")
    played = batch(booked("evt_1"), *answers, gone)
    assert type(played.error) is TransactionEndedError
    assert str(played.error) == "billing.book ended the savepoint around it"
    assert played.error.__cause__ is gone


def test_a_commit_that_the_server_refuses_names_every_handler() -> None:
    """P-FLOW: nobody knows whose constraint it was; the flow goes one by one then."""
    items = [item(handler(name), event_id=f"evt_{name}") for name in ("a", "b")]
    played = batch(items, *PROCESSED, *PROCESSED, None, StatementError("x", sqlstate="23503"))
    assert type(played.error) is HandlerFailedError
    assert str(played.error) == "the server refused to commit what a, b wrote (SQLSTATE 23503)"
