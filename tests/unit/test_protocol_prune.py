"""A walk that forgets goes from days to bodies to events, a step at a time, and ends where everything is too young."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixtures.plans import Played, play
from tests.unit.test_protocol_look import SERVED
from webhook_inbox.errors import KeyBusyError
from webhook_inbox.protocol.prune import (
    BATCH_ROWS,
    SURVIVORS_MAX,
    Position,
    Pruned,
    Retention,
    prune,
    prune_step,
)
from webhook_inbox.protocol.prune_spans import Due, Span, spans_of
from webhook_inbox.sql.statements import Statements

KEPT = (Retention("shop", 10, 20), Retention("billing", 15, 90))
ENDPOINTS = [("billing", "stripe", None, None), ("shop", "stripe", None, None), ("new", "", 5, "ada")]


def step(position: Position, answers: list[Any], **more: Any) -> Played[tuple[Pruned, Position]]:
    """Play one step."""
    return play(prune_step(KEPT, position, Statements.of("a b"), **more), answers)


def test_a_day_is_dropped_and_the_next_one_looked_for() -> None:
    """Where all of it is too old for every endpoint; one that is only paused has nothing there."""
    played = step(Position(), [None, ENDPOINTS, ("bodies_20300101",), None])
    assert played.names == ["begin", "list_endpoints", "drop_day", "commit"]
    assert played.params("drop_day") == [{"days": 15, "survivors_max": SURVIVORS_MAX}]
    assert played.params("begin") == [{"handler_ms": 30_000, "wait_ms": 200}]
    assert played.value == (Pruned(days=("bodies_20300101",)), Position())


@pytest.mark.parametrize(
    ("answers", "last"),
    [
        ([None, ENDPOINTS, (None,), None], "commit"),
        ([None, [*ENDPOINTS, ("former", "github", None, None)], None], "rollback"),
        ([None, ENDPOINTS, KeyBusyError("busy"), None], "rollback"),
    ],
    ids=["none is left", "a stranger's endpoint", "somebody is in the way"],
)
def test_then_bodies_go_one_by_one(answers: list[Any], last: str) -> None:
    """Nothing waits for a day that cannot be dropped."""
    played = step(Position(), answers)
    assert played.names[-1] == last
    assert played.value == (Pruned(), Position(stage="bodies"))


def at(stage: str, *spans: Span, dues: tuple[Due, ...] = ()) -> Position:
    """A place in a walk."""
    return Position(stage=stage, spans=spans, dues=dues)


NEXT = Span(at=50, until=60)


@pytest.mark.parametrize(
    ("looked", "following"),
    [
        (BATCH_ROWS, at("bodies", Span(at=8, row=9, until=10), NEXT)),
        (BATCH_ROWS - 1, at("bodies", NEXT)),
        (0, at("bodies", NEXT)),
    ],
)
def test_bodies_are_walked_from_where_the_last_step_ended(looked: int, following: Position) -> None:
    """By each endpoint's own age, until there are no more in that span."""
    answers = [None, (3, looked, 8, 9), None]
    played = step(at("bodies", Span(at=5, row=6, until=10), NEXT), answers, dry_run=True)
    assert played.names == ["begin", "prune_bodies", "commit"]
    assert played.params("prune_bodies") == [
        {
            "endpoints": ["shop", "billing"],
            "days": [10, 15],
            "limit": BATCH_ROWS,
            "dry_run": True,
            "after_at": 5,
            "after_row": 6,
            "until": 10,
        }
    ]
    assert played.value == (Pruned(bodies=3), following)


@pytest.mark.parametrize(
    ("old", "following"), [(1, at("events", Span(row=9, until=10), NEXT)), (0, at("events", NEXT))]
)
def test_events_are_walked_until_all_are_too_young(old: int, following: Position) -> None:
    """By their keys' ages."""
    played = step(at("events", Span(row=4, until=10), NEXT), [None, (2, old, 9), None])
    (params,) = played.params("prune_events")
    assert (params["days"], params["after_row"], params["until"]) == ([20, 90], 4, 10)
    assert played.value == (Pruned(events=2), following)


def test_a_walk_that_goes_on_asks_what_has_come_of_age() -> None:
    """Of events, where in the order of arrival that begins; all there is begins at the beginning."""
    rows = [("billing", 500, 700), ("shop", 900, 950)]
    dues = (Due("billing", 500, 700), Due("shop", 900, 950))
    played = step(Position(stage="bodies"), [None, rows, None])
    assert played.names == ["begin", "list_prunes", "commit"]
    assert played.params("list_prunes")[0]["days"] == [10, 15]
    assert played.value == (
        Pruned(),
        at("bodies", Span(at=500, until=700), Span(at=900, until=950), dues=dues),
    )
    played = step(Position(stage="events"), [None, rows, (500, 31), (900, 0), None])
    assert played.names == ["begin", "list_prunes", "find_row_at", "find_row_at", "commit"]
    assert [each["at"] for each in played.params("find_row_at")] == [500, 900]
    assert played.value is not None
    assert [span.row for span in played.value[1].spans or ()] == [30, 0]
    played = step(Position(stage="events"), [None, [("shop", 0, 950)], None])
    assert played.value == (Pruned(), at("events", Span(until=950), dues=(Due("shop", 0, 950),)))


def test_what_was_looked_through_is_written_down() -> None:
    """Once nothing of the stage is left; then the next one is asked for, or after a whole walk begun."""
    played = step(at("bodies", dues=(Due("shop", 0, 950), Due("billing", 500, 700))), [None, [], None])
    assert played.params("note_prunes") == [
        {
            "endpoints": ["shop", "billing"],
            "untils": [950, 700],
            "complete": [True, False],
            "stage": "bodies",
        }
    ]
    assert played.value == (Pruned(), Position(stage="events"))
    assert step(at("bodies"), []).value == (Pruned(), at("events", Span()))


def test_a_whole_walk_adds_up() -> None:
    """What each step has forgotten; a dry run leaves the days alone, and counts their bodies."""
    bodies, events = [None, (3, 5, 1, 2), None], [None, (2, 0, 9), None]
    counters: list[object] = [None, [], None]
    days = [None, ENDPOINTS, ("bodies_20300101",), None, None, ENDPOINTS, (None,), None]
    schema = SERVED[:4]
    assert play(prune(KEPT, "a b"), [*schema, *days, *bodies, *events, *counters]).value == Pruned(
        days=("bodies_20300101",), bodies=3, events=2
    )
    dry = play(prune(KEPT, "a b", dry_run=True), [*schema, *bodies, *events])
    assert dry.value == Pruned(bodies=3, events=2)
    assert not {"drop_day", "forget_counters"} & set(dry.names)


def test_without_endpoints_nothing_is_forgotten() -> None:
    """Nobody says how long anything is kept."""
    assert play(prune((), "a b"), SERVED[:4]).value == Pruned()


@pytest.mark.parametrize(
    ("dues", "spans"),
    [
        ([], ()),
        ([(5, 5), (9, 2)], ()),
        ([(50, 60), (10, 20)], (Span(at=10, until=20), Span(at=50, until=60))),
        ([(10, 20), (20, 30), (12, 15)], (Span(at=10, until=30),)),
        ([(50, 60), (0, 20), (0, 55)], (Span(until=60),)),
    ],
)
def test_spans_hold_what_is_due_and_nothing_between(
    dues: list[tuple[int, int]], spans: tuple[Span, ...]
) -> None:
    """However many endpoints there are, nothing is looked at twice."""
    assert spans_of([Due(f"e{number}", *due) for number, due in enumerate(dues)]) == spans
