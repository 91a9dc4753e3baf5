"""A statement that an async handler forgot to await is its failure: no event is processed without its effect."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import text

from tests.conformance.conftest import OpenBench
from tests.fixtures.arrivals import item, recording
from tests.fixtures.benches import EVERY, AsyncpgSqlAlchemyBench, AsyncSqlAlchemyBench
from tests.fixtures.drivers import Bench, LoopBench
from tests.fixtures.worlds import say
from webhook_inbox.errors import HandlerFailedError
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.handlers import Handler, Pattern
from webhook_inbox.protocol.record import record_one

Handle: TypeAlias = Callable[[Any], Awaitable[None]]
EFFECT = "INSERT INTO effect VALUES (1)"


LOOPS = [each for each in EVERY if each.kind == "async"]
SESSIONS = [AsyncSqlAlchemyBench, AsyncpgSqlAlchemyBench]


def on(benches: list[Any]) -> pytest.MarkDecorator:
    """Run the test on each of *benches*."""
    return pytest.mark.parametrize("open_bench", benches, indirect=True, ids=lambda bench: bench.label)


def processed(bench: Bench, handle: Handle, event_id: str = "evt_1") -> Outcome:
    """What becomes of an event whose handler does *handle* with its Tx."""

    async def handler(tx: Any, event: Any) -> None:
        await handle(tx)

    named = Handler(Pattern("*"), handler, "async", "tests.handler")
    return bench.run(lambda: record_one(item(named, event_id=event_id), recording())).outcome


async def forgets(tx: Any) -> None:
    """Call for the only statement, and let it be."""
    say_without_await(tx.conn)


async def forgets_the_last(tx: Any) -> None:
    """Do one of two."""
    await say(tx.conn, EFFECT)
    say_without_await(tx.conn)


async def forgets_the_first(tx: Any) -> None:
    """Do the other of two, twice."""
    kept = say_without_await(tx.conn)
    await say(tx.conn, EFFECT)
    await say(tx.conn, EFFECT)
    del kept


async def leaves_it_to_a_task(tx: Any) -> None:
    """Return before the task has begun."""
    asyncio.get_running_loop().create_task(say_without_await(tx.conn)).add_done_callback(
        lambda task: task.exception()
    )


def say_without_await(conn: Any) -> Any:
    """Give the coroutine of the method that a handler of that world would await."""
    return conn.exec_driver_sql(EFFECT) if hasattr(conn, "exec_driver_sql") else conn.execute(EFFECT)


@on(LOOPS)
@pytest.mark.parametrize("mistake", [forgets, forgets_the_last, forgets_the_first, leaves_it_to_a_task])
def test_a_forgotten_await_fails_by_name(
    bench: Bench, effects: psycopg.Connection[Any], mistake: Handle
) -> None:
    """P-ONCE: nothing is applied, the failure says which handler and which method, and nothing warns later."""
    with pytest.raises(HandlerFailedError, match="tests.handler called .*exec.* without await"):
        processed(bench, mistake)
    gc.collect()
    assert effects.execute("SELECT count(*) FROM effect").fetchone() == (0,)
    assert effects.execute("SELECT count(*) FROM webhooks.inbox").fetchone() == (0,)


async def gathers(tx: Any) -> None:
    """Have several under way before any is awaited."""
    made = [say_without_await(tx.conn) for _ in range(3)]
    for each in made:
        await each


async def closes(tx: Any) -> None:
    """Think better of it."""
    say_without_await(tx.conn).close()
    await say(tx.conn, EFFECT)


async def uses_a_task(tx: Any) -> None:
    """Await by way of a task."""
    await asyncio.wait_for(say_without_await(tx.conn), 20)


@on(LOOPS)
@pytest.mark.parametrize(("handle", "effect"), [(gathers, 3), (closes, 1), (uses_a_task, 1)])
def test_however_it_is_awaited_it_is_no_mistake(
    bench: Bench, effects: psycopg.Connection[Any], handle: Handle, effect: int
) -> None:
    """Later, by a task, or closed on purpose; and the connection serves the next handler as the first."""
    for count in (1, 2):
        assert processed(bench, handle, f"evt_{count}") is Outcome.PROCESSED
        assert effects.execute("SELECT count(*) FROM effect").fetchone() == (effect * count,)


async def forgets_the_cursors(tx: Any) -> None:
    """Call for a statement of a cursor's."""
    async with tx.conn.cursor() as cursor:
        cursor.execute(EFFECT)


async def forgets_the_cursors_many(tx: Any) -> None:
    """Call for several."""
    async with tx.conn.cursor(row_factory=dict_row) as cursor:
        cursor.executemany("INSERT INTO effect VALUES (%s)", [(1,), (2,)])


@on([LoopBench])
@pytest.mark.parametrize("pool", [None, {}, {"kwargs": {"cursor_factory": psycopg.AsyncClientCursor}}])
@pytest.mark.parametrize("mistake", [forgets_the_cursors, forgets_the_cursors_many])
def test_cursors_of_psycopgs_are_held_to_it_too(
    open_bench: OpenBench,
    database: str,
    effects: psycopg.Connection[Any],
    mistake: Handle,
    pool: dict[str, Any] | None,
) -> None:
    """Whatever class the user's own are of; a connection that goes on is as it was before."""
    bench = open_bench(database, pool=pool, connections_max=1)
    with pytest.raises(HandlerFailedError, match="called cursor.execute.* without await"):
        processed(bench, mistake)
    assert effects.execute("SELECT count(*) FROM effect").fetchone() == (0,)
    given = psycopg.AsyncClientCursor if pool else psycopg.AsyncCursor
    kept = bench.borrow(lambda conn: (conn.cursor_factory, set(vars(conn))))  # type: ignore[attr-defined]  # LoopBench has it
    assert kept[0] is given
    assert not {"execute", "_webhook_inbox_unawaited"} & kept[1]


async def forgets_the_sessions(tx: Any) -> None:
    """Call for a statement of the session's."""
    tx.session.execute(text(EFFECT))


async def forgets_the_callable(tx: Any) -> None:
    """Have a function run that never is."""
    tx.session.run_sync(lambda session: session.execute(text(EFFECT)))


async def forgets_the_sessions_connection(tx: Any) -> None:
    """Come by the connection through the session."""
    (await tx.session.connection()).execute(text(EFFECT))


@on(SESSIONS)
@pytest.mark.parametrize(
    "mistake", [forgets_the_sessions, forgets_the_callable, forgets_the_sessions_connection]
)
def test_a_session_is_held_to_it_too(bench: Bench, effects: psycopg.Connection[Any], mistake: Handle) -> None:
    """SQLAlchemy's own account of what is new would not show it: the statement is nowhere."""
    with pytest.raises(HandlerFailedError, match="called tx[.].* without await"):
        processed(bench, mistake)
    assert effects.execute("SELECT count(*) FROM effect").fetchone() == (0,)
