"""A driver borrows a connection and gives it back as it was, whatever happened to its plan."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, tuple_row

from tests.conformance.conftest import OpenBench
from tests.faults.proxy import Fate, Proxy, at_commit_reply
from tests.fixtures.arrivals import item, recording
from tests.fixtures.benches import AsyncpgBench
from tests.fixtures.drivers import BEGIN, DRIVERS, Bench, Script, statement
from tests.fixtures.programs import eventually
from tests.fixtures.worlds import say
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.errors import (
    HandlerFailedError,
    HandlerTimeoutError,
    InboxError,
    StoreUnavailableError,
)
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.steps import Begin, Commit, One, Plan, Run
from webhook_inbox.testing.databases import apply_migrations

Steps: TypeAlias = Generator[Any, Any, None]
INSERT = One(statement("INSERT INTO effect VALUES (1) RETURNING n"))
ON_PSYCOPGS_POOLS = pytest.mark.parametrize(
    "open_bench", DRIVERS, ids=lambda driver: driver.label, indirect=True
)
SESSIONS = """
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


def committing() -> Plan[None]:
    """A plan that does its work."""
    yield BEGIN
    yield INSERT
    yield Commit()


def running(bench: Bench, script: Script, *, seconds_max: float = 30.0) -> Callable[[], Plan[None]]:
    """A plan that writes, lets a handler run, and commits."""

    def plan() -> Plan[None]:
        yield BEGIN
        yield INSERT
        yield Run("tests.handler", bench.work(script), seconds_max)
        yield Commit()

    return plan


def count(witness: psycopg.Connection[Any]) -> int:
    """How many effects were committed."""
    row = witness.execute("SELECT count(*) FROM effect").fetchone()
    assert row is not None
    return int(row[0])


def end_every_session(witness: psycopg.Connection[Any]) -> None:
    """End the sessions of everybody else on this database, until there are none: a pool may be opening some."""
    end = f"SELECT pg_terminate_backend(pid) FROM ({SESSIONS}) others"
    eventually(lambda: not witness.execute(end).fetchall(), what="the sessions have ended")


def assert_idle(witness: psycopg.Connection[Any]) -> None:
    """See that no session is in a transaction, or at work."""
    busy = f"SELECT state, query FROM pg_stat_activity WHERE pid IN ({SESSIONS}) AND state <> 'idle'"
    eventually(lambda: not witness.execute(busy).fetchall(), what="every session is idle", seconds=5)


def users_own(conn: Any) -> Steps:
    """Configure a connection in the way of no plan of ours."""
    conn.row_factory = dict_row
    conn.cursor_factory = (
        psycopg.AsyncClientCursor if isinstance(conn, psycopg.AsyncConnection) else psycopg.ClientCursor
    )
    yield conn.set_autocommit(True)
    yield conn.set_isolation_level(IsolationLevel.SERIALIZABLE)


def settings_of(conn: Any) -> tuple[Any, ...]:
    """What a user may have configured of a connection, and where its transaction stands."""
    return (
        conn.autocommit,
        conn.isolation_level,
        conn.row_factory,
        conn.cursor_factory.__name__.removeprefix("Async"),
        conn.info.transaction_status,
    )


def changes_everything(conn: Any) -> Steps:
    """Change whatever a handler can change of its connection."""
    conn.row_factory = tuple_row
    conn.cursor_factory = psycopg.Cursor
    yield conn.rollback()
    yield conn.set_autocommit(False)
    yield conn.set_isolation_level(IsolationLevel.REPEATABLE_READ)


def writes(conn: Any) -> Steps:
    """Write and return."""
    yield say(conn, "INSERT INTO effect VALUES (2)")


def fails(conn: Any) -> Steps:
    """Write, change a session setting, and fail."""
    yield say(conn, "SET search_path = nowhere")
    yield say(conn, "INSERT INTO public.effect VALUES (2)")
    raise ValueError("the handler's own")


@ON_PSYCOPGS_POOLS
@pytest.mark.parametrize("script", [writes, fails, changes_everything])
def test_a_users_own_pool_gets_its_connections_back_as_they_were(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any], script: Script
) -> None:
    """Autocommit, isolation level, row and cursor factory are the user's, before and after; a changed one is closed."""
    bench: Any = open_bench(database, pool={"min_size": 1, "max_size": 1, "configure": users_own})
    before = bench.borrow(settings_of)
    assert before == (True, IsolationLevel.SERIALIZABLE, dict_row, "ClientCursor", TransactionStatus.IDLE)
    for _ in range(2):
        with suppress(InboxError):
            bench.run(running(bench, script))
        assert bench.borrow(settings_of) == before
        found = bench.borrow(lambda conn: conn.info.backend_pid)
        row = effects.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", [found]).fetchone()
        assert row == ("idle",)
    assert count(effects) == (4 if script is writes else 0)


@ON_PSYCOPGS_POOLS
def test_a_handler_sees_the_connection_as_its_user_configured_it(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """Rows come as the user's row factory makes them; our own statements do not mind."""
    bench = open_bench(database, pool={"min_size": 1, "max_size": 1, "configure": users_own})
    seen: list[Any] = []

    def script(tx: Any, event: Any) -> Steps:
        cursor = yield say(tx.conn, "SELECT 1 AS n")
        seen.append((yield cursor.fetchone()))
        yield tx.emit("Booked", {"n": 1})

    result = bench.run(lambda: record_one(item(bench.handler(script)), recording()))
    assert (result.outcome, seen) == (Outcome.PROCESSED, [{"n": 1}])


def test_what_a_failed_handler_set_is_gone(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """A setting goes with the transaction that is rolled back: the next plan finds its tables."""
    for _ in range(3):
        with pytest.raises(HandlerFailedError):
            bench.run(running(bench, fails))
        bench.run(committing)
    assert count(effects) == 3


def test_what_a_plan_sets_ends_with_it(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """Limits and durability are local to the transaction: the session has the operator's settings again."""
    effects.execute(f"ALTER DATABASE {effects.info.dbname} SET synchronous_commit = off")
    bench = open_bench(database, connections_max=1)
    names = ("statement_timeout", "idle_in_transaction_session_timeout", "lock_timeout", "synchronous_commit")
    shown = statement(f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}")

    def looks() -> Plan[Any]:
        row = yield Begin(shown)
        yield Commit()
        return row

    before = bench.run(looks)
    for event_id in ("evt_1", "evt_1", "evt_2"):
        given = item(bench.handler(lambda tx, event: writes(tx.conn)), event_id=event_id)
        bench.run(partial(record_one, given, recording()))
        assert bench.run(looks) == before
    assert before[3] == "off"


@ON_PSYCOPGS_POOLS
def test_closing_a_driver_leaves_the_users_pool_open(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """A pool that was given is closed by whoever gave it; a driver that was closed serves again."""
    given: Any = open_bench(database, pool={"min_size": 1, "max_size": 1})
    given.close_driver()
    assert given.borrow(lambda conn: conn.info.transaction_status) is TransactionStatus.IDLE
    given.run(committing)
    own = open_bench(database)
    own.run(committing)
    own.close_driver()
    own.run(committing)
    assert count(effects) == 3


@pytest.mark.parametrize(
    "open_bench", [*DRIVERS, AsyncpgBench], ids=lambda driver: driver.label, indirect=True
)
def test_a_pool_that_is_closed_says_so(open_bench: OpenBench, database: str) -> None:
    """A user's pool that was never opened, or is closed already, is named as such."""
    bench = open_bench(database, pool={"min_size": 1, "max_size": 1})
    bench.close_pool()
    with pytest.raises(StoreUnavailableError, match="closed, or was never opened"):
        bench.run(committing)


def test_no_more_connections_than_the_pool_may_have(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """Eight plans at once on two connections: never a third session, and every plan runs."""
    bench = open_bench(database, connections_max=2, connection_wait_seconds=30.0)
    seen: list[int] = []

    def script(conn: Any) -> Steps:
        yield say(conn, "INSERT INTO effect VALUES (2)")
        with psycopg.connect(database, autocommit=True) as other:
            ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND application_name = 'webhook-inbox'"
            row = other.execute(ours, [other.info.dbname]).fetchone()
            assert row is not None
            seen.append(row[0])

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(bench.run, running(bench, script)) for _ in range(8)]:
            done.result(60)
    assert count(effects) == 16
    assert max(seen) == 2


def test_an_exhausted_pool_is_unavailable_within_the_wait(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """No connection came free: unavailable after ``connection_wait_seconds``, and the plan was never begun."""
    bench = open_bench(database, connections_max=1, connection_wait_seconds=0.3)
    inside, leave = threading.Event(), threading.Event()

    def script(conn: Any) -> Steps:
        yield say(conn, "SELECT 1")
        inside.set()
        yield in_thread(bench, lambda: leave.wait(30))

    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(bench.run, running(bench, script))
        assert inside.wait(30)
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="connections_max"):
            bench.run(committing)
        assert 0.3 <= time.monotonic() - began < 3
        leave.set()
        first.result(30)
    bench.run(committing)
    assert count(effects) == 2


def in_thread(bench: Bench, wait: Callable[[], Any]) -> Any:
    """Wait without stopping an event loop."""
    return asyncio.to_thread(wait) if bench.kind == "async" else wait()


def test_idle_connections_that_died_are_replaced_unnoticed(
    bench: Bench, effects: psycopg.Connection[Any]
) -> None:
    """Nothing was begun on them, so nothing can have been applied: the plan runs once, on a new connection."""
    for _ in range(3):
        with ThreadPoolExecutor(2) as threads:  # both connections of the pool
            list(threads.map(bench.run, [committing] * 4))
        end_every_session(effects)
        runs: list[int] = []

        def counted(runs: list[int] = runs) -> Plan[None]:
            yield BEGIN
            runs.append(1)
            yield INSERT
            yield Commit()

        bench.run(counted)
        bench.run(committing)
        assert runs == [1]
    assert count(effects) == 18


def test_a_server_that_was_restarted_is_met_unnoticed(
    open_bench: OpenBench, cluster: EmbeddedPostgres
) -> None:
    """Every pooled connection is dead at once; the next event is recorded without a 503."""
    apply_migrations(cluster.dsn)
    bench = open_bench(cluster.dsn)
    for number in range(3):
        for copy in ("a", "b"):
            ignored = item(event_id=f"evt_{number}_{copy}", settled="ignored")
            result = bench.run(partial(record_one, ignored, recording()))
            assert result.outcome is Outcome.IGNORED
        cluster.restart("immediate" if number % 2 else "fast")


def test_a_connection_that_dies_after_the_beginning_is_not_tried_again(
    bench: Bench, effects: psycopg.Connection[Any]
) -> None:
    """P-ACK: once begun, nobody can know what was applied: the plan raises, and runs once."""
    runs = []

    def plan() -> Plan[None]:
        row = yield One(statement("SELECT pg_backend_pid()"))
        runs.append(1)
        effects.execute("SELECT pg_terminate_backend(%s)", [row[0]])
        yield INSERT
        yield Commit()

    def begun() -> Plan[None]:
        yield BEGIN
        yield from plan()

    with pytest.raises(StoreUnavailableError):
        bench.run(begun)
    assert runs == [1]
    assert count(effects) == 0
    bench.run(committing)


def test_a_commit_whose_answer_is_lost_is_in_doubt(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """P-ACK: the server has committed and its answer never came: unavailable, never a success and never tried again."""
    with Proxy(database) as proxy:
        bench = open_bench(proxy.dsn)
        bench.run(committing)
        proxy.arm(at_commit_reply(Fate.CUT_BEFORE))
        with pytest.raises(StoreUnavailableError):
            bench.run(committing)
        assert count(effects) == 2
        proxy.heal()
        bench.run(committing)
        assert count(effects) == 3
        bench.close_driver()


@pytest.mark.parametrize("raised", [SystemExit(3), asyncio.CancelledError(), BaseException("odd")], ids=repr)
def test_whatever_a_handler_raises_is_its_failure(
    bench: Bench, effects: psycopg.Connection[Any], raised: BaseException
) -> None:
    """P-CALM: ``sys.exit()`` in a handler ends the event, not the process; the connection goes back idle."""

    def script(conn: Any) -> Steps:
        yield say(conn, "INSERT INTO effect VALUES (2)")
        raise raised

    for _ in range(3):
        with pytest.raises(HandlerFailedError) as caught:
            bench.run(running(bench, script))
        assert caught.value.__cause__ is raised
    assert count(effects) == 0
    assert_idle(effects)


def test_a_generator_exit_goes_through_and_leaves_nothing(
    bench: Bench, effects: psycopg.Connection[Any]
) -> None:
    """P-ONCE: what ends a coroutine or generator is no failure to answer; the connection goes back idle."""

    def script(conn: Any) -> Steps:
        yield say(conn, "INSERT INTO effect VALUES (2)")
        raise GeneratorExit

    with pytest.raises(GeneratorExit):
        bench.run(running(bench, script))
    assert count(effects) == 0
    assert_idle(effects)
    bench.run(committing)


def test_a_handler_that_overruns_is_out_of_time(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """Longer than ``handler_seconds_max``: rolled back, however it ends, and the connection goes back idle."""

    def returns(conn: Any) -> Steps:
        yield say(conn, "SELECT pg_sleep(0.3)")

    def raises(conn: Any) -> Steps:
        yield say(conn, "SELECT pg_sleep(0.3)")
        raise ValueError

    for script in (returns, raises):
        with pytest.raises(HandlerTimeoutError, match="handler_seconds_max"):
            bench.run(running(bench, script, seconds_max=0.1))
    assert count(effects) == 0
    assert_idle(effects)
