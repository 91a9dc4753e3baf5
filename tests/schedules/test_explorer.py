"""The explorer tries what it says it tries: each order once, each fault at each step, the same each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import psycopg
import pytest
from hypothesis import given, strategies

from tests.schedules.stage import SQL, Connection, rows
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.protocol.lease import bookkeeping
from webhook_inbox.protocol.steps import Commit, One, Plan, Run, Session
from webhook_inbox.sql.statements import Statement
from webhook_inbox.testing.schedules import ALL_FAULTS, Ending, Explorer, Fault, Move, Scenario, Schedule

READ = Statement("read", "SELECT count(*) FROM effects", ())
MOVES = strategies.builds(
    Move, strategies.integers(0, 25), strategies.none() | strategies.sampled_from(Fault)
)


def writing(event_id: str) -> One:
    """A step that writes a row."""
    text = "INSERT INTO effects (event_id) VALUES (%(id)s)"
    return One(Statement("write", text + " RETURNING id", ("id",)), {"id": event_id})


def locking(number: int) -> One:
    """A step that waits for a lock and keeps it."""
    return One(Statement("lock", "SELECT pg_advisory_xact_lock(%(n)s)", ("n",)), {"n": number})


def plan(*steps: One) -> Plan[str]:
    """Perform *steps* in a transaction."""
    yield bookkeeping(SQL)
    for step in steps:
        _ = yield step
    yield Commit()
    return "done"


def scenario(
    *plans: Callable[[], Plan[Any]],
    check: Callable[[Connection, Sequence[Ending]], None] = lambda conn, endings: None,
) -> Scenario:
    """Plans that begin with no effect there."""

    def prepare(conn: Connection) -> list[Plan[Any]]:
        conn.execute("DELETE FROM effects")
        return [each() for each in plans]

    return Scenario(prepare=prepare, check=check)


def effects(conn: Connection) -> list[str]:
    """The effects there are, in the order in which they were written."""
    return [row["event_id"] for row in rows(conn, "SELECT event_id FROM effects ORDER BY id")]


@given(strategies.lists(MOVES))
def test_a_schedule_is_read_as_it_was_written(moves: list[Move]) -> None:
    """The text of a schedule is the schedule."""
    schedule = Schedule(tuple(moves))
    assert Schedule.parse(str(schedule)) == schedule


@pytest.mark.parametrize("text", ["a", "A!!", "A#", "A-B", "1"])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    """Nobody replays something else than was meant."""
    with pytest.raises(ValueError):
        Schedule.parse(text)


@pytest.mark.parametrize(("reads", "others"), [(1, 1), (2, 2), (3, 2)])
def test_every_order_is_tried_once(explorer: Explorer, reads: int, others: int) -> None:
    """Plans that never wait have as many schedules as their steps have interleavings; BEGIN is none of them."""
    seen: list[str] = []
    orders = scenario(
        lambda: plan(*[writing("A")] * reads),
        lambda: plan(*[writing("B")] * others),
        check=lambda conn, _: seen.append("".join(effects(conn))),
    )
    report = explorer.explore(orders)
    assert report.schedules == comb(reads + others + 2, reads + 1)
    assert set(seen) == {order for order in seen if (order.count("A"), order.count("B")) == (reads, others)}
    assert len(set(seen)) == comb(reads + others, reads)
    assert str(report).endswith("all there are")


def test_a_bound_on_turns_leaves_out_those_with_more(explorer: Explorer) -> None:
    """With no turn there is one schedule; the report says what it is all of."""
    orders = scenario(lambda: plan(writing("A")), lambda: plan(writing("B")))
    counts = [explorer.explore(orders, turns_max=turns).schedules for turns in (0, 1, 2)]
    assert counts[0] == 1
    assert counts == sorted(set(counts))
    assert str(explorer.explore(orders, turns_max=0)).endswith("all with at most 0 turns")


def test_every_fault_is_tried_at_every_step(explorer: Explorer) -> None:
    """Of three steps: a crash and a cut before each, and a lost reply of the COMMIT, which alone has an effect."""
    seen: set[tuple[str, bool]] = set()

    def check(conn: Connection, endings: Sequence[Ending]) -> None:
        (ending,) = endings
        kind = "crashed" if ending.crashed else type(ending.error).__name__ if ending.error else ending.value
        seen.add((kind, bool(effects(conn))))

    report = explorer.explore(
        scenario(lambda: plan(writing("A"), writing("A")), check=check), faults=ALL_FAULTS
    )
    assert (report.schedules, report.faulted) == (8, 7)
    assert seen == {
        ("done", True),
        ("crashed", False),
        (StoreUnavailableError.__name__, False),
        (StoreUnavailableError.__name__, True),
    }


def test_a_crash_frees_the_locks_before_the_others_go_on(explorer: Explorer) -> None:
    """Who waits for one that crashes goes on; who comes later and does not wait finds the lock free, however quick."""
    found: list[bool] = []

    def trying() -> Plan[bool]:
        yield bookkeeping(SQL)
        row = yield One(Statement("try", "SELECT pg_try_advisory_xact_lock(1)", ()))
        yield Commit()
        return bool(row[0])

    def holding() -> Plan[str]:
        return plan(locking(1), writing("A"))

    both = scenario(holding, holding, check=lambda conn, _: found.append(effects(conn) == ["A"]))
    assert explorer.replay(both, "A B A! B").waits == 1
    late = scenario(holding, trying, check=lambda _, endings: found.append(endings[1].value))
    for _ in range(20):
        explorer.replay(late, "A A! B")
    assert found == [True] * 21


def test_a_wait_in_a_circle_is_left_to_the_server(explorer: Explorer) -> None:
    """A deadlock ends as in production: the server ends one of the two."""
    endings: list[Ending] = []
    circle = scenario(
        lambda: plan(locking(1), locking(2)),
        lambda: plan(locking(2), locking(1)),
        check=lambda _, ended: endings.extend(ended),
    )
    explorer.replay(circle, "A B A B")
    assert sum(ending.value == "done" for ending in endings) == 1
    assert sum(ending.error is not None for ending in endings) == 1


def test_a_handler_stops_before_each_of_its_statements(explorer: Explorer) -> None:
    """Whatever a handler sends is a step of its own, also through a cursor and in a savepoint."""

    def work(session: Session) -> None:
        session.conn.execute("INSERT INTO effects (event_id) VALUES ('1')")
        with session.conn.transaction(), session.conn.cursor() as cursor:
            cursor.execute("INSERT INTO effects (event_id) VALUES ('2')")

    def running() -> Plan[None]:
        yield bookkeeping(SQL)
        yield Run("handler", work, 30.0)
        yield Commit()

    def fails(*_: object) -> None:
        raise AssertionError("to be shown the story")

    (broken,) = explorer.explore(scenario(running, check=fails)).broken
    assert broken.story == [
        "A begin",
        "A handler: INSERT INTO effects (event_id) VALUES ('1')",
        "A handler: a statement",
        "A handler: INSERT INTO effects (event_id) VALUES ('2')",
        "A handler: a statement",
        "A commit",
    ]


def test_a_broken_promise_comes_with_its_shortest_schedule(explorer: Explorer) -> None:
    """What needs two turns is found in none with fewer, and its story is the same when it runs again."""

    def check(conn: Connection, _: Sequence[Ending]) -> None:
        assert effects(conn) != ["A", "B", "A"], "B is in between"

    between = scenario(lambda: plan(writing("A"), writing("A")), lambda: plan(writing("B")), check=check)
    (broken,) = explorer.explore(between).broken
    assert str(broken.schedule) == "A B"
    again = explorer.replay(between, str(broken.schedule))
    assert again.broken == [broken]
    assert "B is in between" in str(again)


def test_what_is_cut_short_says_so(explorer: Explorer) -> None:
    """Nobody takes a part for the whole."""
    orders = scenario(lambda: plan(writing("A")), lambda: plan(writing("B")))
    assert "3 schedules" in explorer.explore(orders, schedules_max=3).cut_short
    assert "s are over" in explorer.explore(orders, seconds_max=0.0).cut_short
    assert "steps" in explorer.explore(orders, steps_max=1).cut_short


def test_a_schedule_of_another_scenario_is_refused(explorer: Explorer) -> None:
    """A move of one that has ended is an error, and the next schedule finds the connections in order."""
    orders = scenario(lambda: plan(writing("A")))
    with pytest.raises(ValueError, match="cannot move"):
        explorer.replay(orders, "A B")
    assert explorer.explore(orders).schedules == 1
    assert isinstance(explorer._monitor, psycopg.Connection)
