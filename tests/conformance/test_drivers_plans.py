"""Every driver runs every step of a plan alike, and rolls back what a plan leaves open."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from tests.conformance.conftest import OpenBench
from tests.fixtures.drivers import BEGIN, Bench, Script, statement
from tests.fixtures.worlds import say
from webhook_inbox.errors import StatementError
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet, Steering
from webhook_inbox.protocol.steps import (
    All,
    Begin,
    Commit,
    One,
    Plan,
    Release,
    Rollback,
    RollbackTo,
    Run,
    Savepoint,
    Script as ScriptStep,
    Together,
)

INSERT = statement("INSERT INTO effect VALUES (%(n)s) RETURNING n", "n")
COUNT = statement("SELECT count(*) FROM effect")


def rows(witness: psycopg.Connection[Any]) -> list[int]:
    """What was committed to ``effect``."""
    return [n for (n,) in witness.execute("SELECT n FROM effect ORDER BY n")]


def insert(n: int) -> One:
    """The step that writes *n*."""
    return One(INSERT, {"n": n})


def run(bench: Bench, script: Script, *, seconds_max: float = 30.0) -> Run:
    """The step that runs *script* as the user's code."""
    return Run("tests.handler", bench.work(script), seconds_max)


def test_a_plan_gets_each_steps_result(bench: Bench) -> None:
    """``Begin`` and ``One`` give a row of plain tuples, ``All`` every row, ``Commit`` nothing; the value comes back."""

    def plan() -> Plan[list[Any]]:
        found: list[Any] = [(yield Begin(statement("SELECT %(n)s::int + 1", "n"), {"n": 1}))]
        found.append((yield insert(1)))
        found.append((yield One(statement("SELECT 1 WHERE false"))))
        found.append((yield All(statement("SELECT generate_series(1, 3)"))))
        found.append((yield Commit()))
        return found

    assert bench.run(plan) == [(2,), (1,), None, [(1,), (2,), (3,)], None]


def test_a_plan_runs_in_read_committed(bench: Bench) -> None:
    """Whatever the connection's own level is, a plan's transaction is READ COMMITTED."""

    def plan() -> Plan[Any]:
        row = yield Begin(statement("SELECT current_setting('transaction_isolation')"))
        yield Commit()
        return row[0]

    assert bench.run(plan) == "read committed"


def test_what_goes_together_comes_back_together(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """One result a step, in their order, whether or not the driver sends them in one flight."""

    def plan() -> Plan[tuple[Any, ...]]:
        results: tuple[Any, ...] = yield Together(
            (
                BEGIN,
                insert(1),
                Savepoint(),
                insert(2),
                RollbackTo(),
                Savepoint(),
                insert(3),
                Release(),
                Commit(),
            )
        )
        return results

    assert bench.run(plan)[1:] == ((1,), None, (2,), None, None, (3,), None, None)
    assert rows(effects) == [1, 3]


def test_the_first_error_ends_what_goes_together(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """P-ONCE: it is the one that is thrown; no later step is performed, the COMMIT least of all."""
    divide = One(statement("SELECT 1 / 0"))

    def plan() -> Plan[str | None]:
        try:
            yield Together((BEGIN, insert(1), divide, One(statement("SELECT 'x'::int")), Commit()))
        except StatementError as error:
            yield Rollback()
            return error.sqlstate
        raise AssertionError("the second statement did not fail")

    assert bench.run(plan) == "22012"
    assert rows(effects) == []


def test_what_is_committed_is_there(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """A plan that commits leaves its rows; a script of several statements runs in the same transaction."""

    def plan() -> Plan[None]:
        yield BEGIN
        yield ScriptStep("two", "INSERT INTO effect VALUES (1); INSERT INTO effect VALUES (2)")
        yield insert(3)
        yield Commit()

    bench.run(plan)
    assert rows(effects) == [1, 2, 3]


def test_savepoints_undo_and_keep(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """``RollbackTo`` undoes its part alone, and an error inside it; ``Release`` keeps it."""

    def plan() -> Plan[int]:
        yield BEGIN
        yield Savepoint()
        yield insert(1)
        yield Release()
        yield Savepoint()
        yield insert(2)
        with pytest.raises(StatementError):
            yield One(statement("SELECT 1 / 0"))
        yield RollbackTo()
        yield insert(3)
        count = yield One(COUNT)
        yield Commit()
        return int(count[0])

    assert bench.run(plan) == 2
    assert rows(effects) == [1, 3]


def test_several_savepoints_follow_one_another(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """A savepoint that was undone or kept is forgotten: the next one undoes its own part only."""

    def plan() -> Plan[None]:
        yield BEGIN
        for n in range(4):
            yield Savepoint()
            yield insert(n)
            yield RollbackTo() if n % 2 else Release()
        yield Commit()

    bench.run(plan)
    assert rows(effects) == [0, 2]


def test_rollback_undoes_and_a_plan_may_begin_again(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """A plan may roll back and begin a second transaction on the same connection."""

    def plan() -> Plan[None]:
        yield BEGIN
        yield insert(1)
        yield Rollback()
        yield BEGIN
        yield insert(2)
        yield Commit()

    bench.run(plan)
    assert rows(effects) == [2]


def leaves_open() -> Plan[str]:
    """Return with the transaction open."""
    yield BEGIN
    yield insert(1)
    return "done"


def raises_midway() -> Plan[str]:
    """Raise with the transaction open."""
    yield BEGIN
    yield insert(1)
    raise StatementError("the plan's own")


def raises_out_of_a_failed_statement() -> Plan[str]:
    """Let a statement's error through."""
    yield BEGIN
    yield insert(1)
    yield One(statement("SELECT 1 / 0"))
    return "unreachable"


@pytest.mark.parametrize("plan", [leaves_open, raises_midway, raises_out_of_a_failed_statement])
def test_a_plan_that_ends_with_its_transaction_open_is_rolled_back(
    bench: Bench, effects: psycopg.Connection[Any], plan: Any
) -> None:
    """P-ONCE: however it ends, nothing of it stays, and the next plan finds an idle connection."""
    for _ in range(3):
        with suppress(StatementError):
            bench.run(plan)
    assert rows(effects) == []
    idle = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'webhook-inbox' AND state <> 'idle'"
    )
    assert effects.execute(idle).fetchone() == (0,)


@pytest.mark.parametrize("plan", [leaves_open, raises_midway, raises_out_of_a_failed_statement])
def test_a_connection_outlives_a_plan_that_failed(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any], plan: Any
) -> None:
    """It is rolled back, not thrown away: failing events must not cost a new session each."""
    bench = open_bench(database, connections_max=1)

    def session() -> Plan[int]:
        row = yield Begin(statement("SELECT pg_backend_pid()"))
        yield Rollback()
        return int(row[0])

    before = bench.run(session)
    with suppress(StatementError):
        bench.run(plan)
    assert bench.run(session) == before


def test_a_plan_can_handle_a_steps_error(bench: Bench) -> None:
    """A statement's error is thrown into the plan, with its SQLSTATE and the driver's error as its cause."""

    def plan() -> Plan[tuple[str | None, str]]:
        yield BEGIN
        try:
            yield One(statement("SELECT 1 / 0"))
        except StatementError as error:
            yield Rollback()
            return error.sqlstate, type(error.__cause__).__name__.removesuffix("Error")
        raise AssertionError("the statement did not fail")

    assert bench.run(plan) == ("22012", "DivisionByZero")


def test_a_handler_runs_on_the_plans_transaction(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """P-ONCE: what the handler writes is seen by the plan before the commit, and commits with it."""

    def handler(conn: Any) -> Generator[Any, Any, None]:
        yield say(conn, "INSERT INTO effect VALUES (1)")

    def plan() -> Plan[tuple[object, int]]:
        yield BEGIN
        given = yield run(bench, handler)
        count = yield One(COUNT)
        assert rows(effects) == []
        yield Commit()
        return given, count[0]

    assert bench.run(plan) == (None, 1)
    assert rows(effects) == [1]


@pytest.mark.parametrize("steering", [Ignore("not ours"), GiveUp("unknown plan"), NotYet("no order yet")])
def test_steering_comes_to_the_plan_as_a_value(bench: Bench, steering: Steering) -> None:
    """What a handler raises to steer is the result of ``Run``, not an error."""

    def handler(conn: Any) -> Generator[Any, Any, None]:
        yield say(conn, "SELECT 1")
        raise steering

    def plan() -> Plan[object]:
        yield BEGIN
        given = yield run(bench, handler)
        yield Rollback()
        return given

    assert bench.run(plan) is steering


def test_a_plan_is_told_every_fault_point_in_order(open_bench: Any, database: str) -> None:
    """The probe stands before and after every step, named for the plan and the step."""
    told: list[str] = []
    bench = open_bench(database, probe=told.append)

    def watched() -> Plan[None]:
        yield BEGIN
        yield Savepoint()
        with pytest.raises(StatementError):
            yield One(statement("SELECT 1 / 0"))
        yield RollbackTo()
        yield run(bench, lambda conn: iter_of(say(conn, "SELECT 1")))
        yield Commit()

    bench.run(watched)
    steps = ["begin", "savepoint", "test", "rollback_to", "run", "commit"]
    assert told == [f"watched.{step}.{when}" for step in steps for when in ("before", "after")]


def iter_of(value: Any) -> Generator[Any, Any, None]:
    """A script of one step."""
    yield value
