"""What an action asks of the database, batch by batch, and what it says of events that it leaves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixtures.plans import Played, play
from tests.unit.test_protocol_look import ROW, SERVED
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol import operate as module
from webhook_inbox.protocol.operate import DISCARD, REPLAY, RETRY, Action, Left, Operated, Operator, operate
from webhook_inbox.protocol.status import STATEMENT_SECONDS_MAX

ADA = Operator("ada", "why")


def rows(*numbers: int, state: str = "dead", holder: str | None = None) -> list[tuple[Any, ...]]:
    """Events of these rows."""
    return [(number, *ROW[1:7], state, *ROW[8:-1], holder) for number in numbers]


def acted(action: Action, meant: EventFilter, answers: list[Any], **more: Any) -> Played[Operated]:
    """Play an action on a schema that is served."""
    return play(operate(action, meant, ADA, "a b", **more), [*SERVED, *answers])


def test_each_batch_is_a_transaction_and_the_next_begins_behind_it() -> None:
    """Due at the rate that is asked for; whoever asks is told after each commit."""
    seen: list[int] = []
    answers = [
        rows(3, 5),
        [(3,), (5,)],
        [(3,), (5,)],
        None,
        None,
        rows(9),
        [(9,)],
        [(9,)],
        None,
        None,
        [],
        None,
    ]
    played = acted(RETRY, EventFilter(endpoint="shop"), answers, every_seconds=0.5, progress=seen.append)
    assert played.value == Operated(changed=3)
    assert seen == [2, 3]
    batch = ["list_oldest_events", "lock_events", "operate_events", "commit", "begin"]
    assert played.names[4:] == ["begin", *batch, *batch, "list_oldest_events", "rollback"]
    listed = played.params("list_oldest_events")
    assert [(each["first_row"], each["limit"]) for each in listed] == [(0, 500), (6, 500), (10, 500)]
    first, second = played.params("operate_events")
    assert first == {
        "rows": [3, 5],
        "to_state": "retrying",
        "with_body": True,
        "origin": "",
        "last_error": "",
        "first_due_seconds": 0.0,
        "every_seconds": 0.5,
        "actor": "ada",
        "action": "retry",
        "reason": "why",
    }
    assert (second["rows"], second["first_due_seconds"]) == ([9], 1.0)
    assert played.params("lock_events")[0] == {
        "rows": [3, 5],
        "from_states": ["dead", "retrying", "waiting"],
    }
    (begin, *_) = played.params("begin")
    assert begin == {"handler_ms": STATEMENT_SECONDS_MAX * 1000, "wait_ms": 5000}


def test_what_was_not_changed_is_looked_at_again() -> None:
    """As it is now, by its row; all else of the batch is committed."""
    answers = [rows(3, 5), [(5,)], [(5,)], rows(3, state="processed"), None, None, [], None]
    played = acted(RETRY, EventFilter(states=(State.DEAD,)), answers)
    assert played.value is not None
    assert (played.value.changed, [each.event.row for each in played.value.left]) == (1, [3])
    assert "--force" in played.value.left[0].why
    assert played.params("lock_events")[0]["from_states"] == ["dead"]
    assert played.params("operate_events")[0]["rows"] == [5]
    again = played.params("list_oldest_events")[1]
    assert (again["rows"], again["states"], again["limit"]) == ([3], [], 1)


@pytest.mark.parametrize(
    ("action", "state", "why"),
    [
        (RETRY, "leased", "it is being run by w-1; see what comes of it"),
        (DISCARD, "leased", "it is being run by w-1; see what comes of it"),
        (RETRY, "dead", "its bytes are not kept any more, so there is nothing to run"),
        (RETRY, "ignored", "it is ignored; events replay runs it"),
        (RETRY, "quarantined", "it is quarantined; events replay reads it again"),
        (REPLAY, "dead", "it is dead; events retry runs it again"),
        (REPLAY, "waiting", "it is waiting; events retry has it run now"),
        (REPLAY, "retrying", "it is retrying; events retry has it run now"),
        (
            REPLAY,
            "processed",
            "it is processed; a second run has its effect once more. If that is meant: events replay --force --reason",
        ),
        (DISCARD, "processed", "it is processed; there is nothing to discard"),
        (DISCARD, "ignored", "it is ignored; there is nothing to discard"),
    ],
)
def test_who_is_told_what_was_left_is_told_what_can_be_done(action: Action, state: str, why: str) -> None:
    """By the state in which it is now."""
    found = rows(3, state=state, holder="w-1" if state == "leased" else None)
    played = acted(action, EventFilter(rows=(3,)), [found, [], [], found, None, None, [], None])
    assert played.value is not None
    assert [each.why for each in played.value.left] == [why]
    assert all(isinstance(each, Left) for each in played.value.left)


def test_each_action_says_from_where_to_where() -> None:
    """And a replay by which way the event came; a discarded one by whom it was."""
    answers = [rows(3), [(3,)], [(3,)], None, None, [], None]
    played = {action.name: acted(action, EventFilter(), answers) for action in (RETRY, REPLAY, DISCARD)}
    asked = {name: each.params("operate_events")[0] for name, each in played.items()}
    states = {name: each.params("lock_events")[0]["from_states"] for name, each in played.items()}
    assert [(name, each["to_state"], each["with_body"], each["origin"]) for name, each in asked.items()] == [
        ("retry", "retrying", True, ""),
        ("replay", "waiting", True, "replay"),
        ("discard", "ignored", False, ""),
    ]
    assert states["replay"] == ["ignored"]
    assert states["discard"] == ["dead", "quarantined", "retrying", "waiting"]
    assert asked["discard"]["last_error"] == "discarded by ada: why"
    assert module.REPLAY_PROCESSED.states == (State.IGNORED, State.PROCESSED)
    assert [each.rereads for each in (RETRY, REPLAY, DISCARD)] == [False, True, False]
