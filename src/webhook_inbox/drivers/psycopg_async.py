"""Run plans on psycopg's asynchronous connections; the twin of ``psycopg_sync``, step for step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from webhook_inbox.drivers.failures import caused_by, handler_error, store_error
from webhook_inbox.drivers.per_loop import PerLoop
from webhook_inbox.drivers.psycopg_flight import commits, fly
from webhook_inbox.drivers.psycopg_loop import LoopConnection
from webhook_inbox.drivers.psycopg_settings import (
    CLOSE_SECONDS_MAX,
    STALE_POOL_SQLSTATES,
    WHICH_SERVER,
    connect_arguments,
    pool_exhausted,
    prepares,
)
from webhook_inbox.drivers.psycopg_state import (
    STILL_AT_WORK,
    TURN_SECONDS_MAX,
    check_lent,
    ended_by,
    lost,
    statements_noted,
    unfit,
)
from webhook_inbox.drivers.silence import Wait, Watch
from webhook_inbox.drivers.waiting import is_cancelled
from webhook_inbox.drivers.walk import NotBegunError, Walk, too_long
from webhook_inbox.errors import InboxError, StoreUnavailableError, TransactionEndedError
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.steering import STEERING, Steering
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.protocol.steps import (
    Params,
    Plan,
    Rollback,
    Row,
    Run,
    Script,
    Step,
    Together,
    parts,
)
from webhook_inbox.sql.statements import Statement

T = TypeVar("T")


class AsyncPsycopgSession:
    """Hand a handler its connection, and run our own statements on it."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self.conn = conn
        self.ended = 0

    async def execute(self, statement: Statement, params: Params) -> Row | None:
        """Run *statement*; give its first row, or None."""
        try:
            return await (await _execute(self.conn, statement, params)).fetchone()
        finally:
            self.ended += 1


class AsyncPsycopgRunner:
    """
    Run plans on one connection, which is idle before and after each.

    Args:
        conn: Any psycopg connection; its row factory and cursor factory do not matter.
        probe: Told each fault point, ``<plan>.<step>.before`` and ``.after``.
        wait: Told what is waited for; the driver's watch gives up a connection that goes silent.
    """

    def __init__(
        self, conn: psycopg.AsyncConnection[Any], *, probe: Probe = no_probe, wait: Wait | None = None
    ) -> None:
        self._conn = conn
        self._probe = probe
        self._wait = wait or Wait(conn)
        self.began = False

    async def run(self, plan: Plan[T]) -> T:
        """Run *plan* to its end; roll back what it leaves open, and close a connection that cannot be."""
        walk = Walk(plan, probe=self._probe)
        async with _in_our_mode(self._conn):
            try:
                while (step := walk.step()) is not None:
                    self._wait.expect(step)
                    try:
                        walk.succeeded(await self._perform(step))
                    except InboxError as error:
                        walk.failed(error)
                    except psycopg.Error as error:
                        walk.failed(caused_by(error, store_error(error, broken=lost(self._conn, error))))
                return walk.value
            except TransactionEndedError:
                await self._conn.close()  # what else the handler has left in the session, nobody knows
                raise
            finally:
                walk.close()
                await self._leave()

    async def _perform(self, step: Step) -> object:
        match step:
            case Run():
                return await self._run_handler(step)
            case Script(_, text):
                await self._script(text)
                return None
            case _:
                flight = fly(self._conn, parts(step))
                self.began |= commits(step)  # lost on the way, nobody knows whether it was
                await self._turn()
                try:
                    results = await self._conn.wait(flight)
                finally:
                    self._conn.lock.release()
                self.began = True
                return results if isinstance(step, Together) else results[0]

    async def _run_handler(self, step: Run) -> Steering | None:
        started = time.monotonic()
        try:
            async with (
                asyncio.timeout(step.seconds_max) as limit,
                self._conn.pipeline() if step.pipeline else nullcontext(),
            ):
                with statements_noted(self._conn) as unawaited:
                    await step.work(AsyncPsycopgSession(self._conn))
                    unawaited.check(step.name)
        except STEERING as steering:
            return steering
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as raised:
            if is_cancelled(raised):
                raise
            # The server may have ended the session of a handler that overran: its own doing, not an outage.
            if limit.expired() or time.monotonic() - started > step.seconds_max:
                raise too_long(step) from raised
            raise handler_error(
                raised, handler=step.name, broken=self._conn.broken, pipeline=step.pipeline
            ) from raised
        if ended := ended_by(self._conn, step.name):
            raise ended
        if time.monotonic() - started > step.seconds_max:
            raise too_long(step)  # it never gave the loop a chance to stop it, or ignored the attempt
        return None

    async def _script(self, text: str) -> None:
        async with psycopg.AsyncCursor(self._conn, row_factory=tuple_row) as cursor:
            await cursor.execute(text)

    async def _turn(self) -> None:
        """Have the connection to ourselves: a handler may have left a task of its own at work on it."""
        lock = self._conn.lock
        if not lock.locked():
            await lock.acquire()
            return
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                await lock.acquire()
        except TimeoutError:
            raise TransactionEndedError(STILL_AT_WORK) from None

    async def _leave(self) -> None:
        if self._conn.closed:
            return
        try:
            await self._turn()  # what a handler has left under way ends first
            try:
                if unfit(self._conn):
                    await self._conn.close()
                elif self._conn.info.transaction_status is not TransactionStatus.IDLE:
                    await self._conn.wait(fly(self._conn, (Rollback(),)))
            finally:
                self._conn.lock.release()
        except (psycopg.Error, TransactionEndedError):
            await self._conn.close()


class AsyncPsycopgDriver:
    """
    Run plans on connections of a pool: the user's own, or one made from a DSN when it is first needed.

    Args:
        database: A DSN in libpq's form, or an open ``psycopg_pool.AsyncConnectionPool``.
        settings: Sizes and limits of a pool made here.
        probe: Told each fault point.
    """

    def __init__(
        self, database: str | AsyncConnectionPool[Any], *, settings: Settings, probe: Probe = no_probe
    ) -> None:
        self._given = database
        self._settings = settings
        self._probe = probe
        self._watch = Watch()
        self._pools = PerLoop(self._new_pool)

    async def run(self, plan: Callable[[], Plan[T]]) -> T:
        """Run a fresh plan on a free connection; see ``Driver.run``."""
        try:
            return await self._run_once(plan)
        except NotBegunError:
            # The pool handed out a connection that had died while idle (a restart, a failover). Nothing was
            # begun on it, so nothing can have been applied: do without its neighbours, and try once more. To ask
            # them how they are would be to wait for those that have gone silent.
            await (await self._open_pool()).drain()
        try:
            return await self._run_once(plan)
        except NotBegunError as error:
            raise error.reason from error.reason.__cause__

    async def _run_once(self, plan: Callable[[], Plan[T]]) -> T:
        pool = await self._open_pool()
        async with self._borrowed(pool) as conn:
            with self._watch.over(conn) as wait:
                runner = AsyncPsycopgRunner(conn, probe=self._probe, wait=wait)
                try:
                    return await runner.run(plan())
                except StoreUnavailableError as error:
                    if not runner.began and conn.closed and not wait.given_up:
                        raise NotBegunError(error) from None
                    if error.sqlstate in STALE_POOL_SQLSTATES:
                        await conn.close()
                        await pool.drain()
                    raise
                finally:
                    if wait.given_up:  # its neighbours are silent too, most likely
                        await pool.drain()

    @asynccontextmanager
    async def _borrowed(self, pool: AsyncConnectionPool[Any]) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        try:
            conn = await pool.getconn(timeout=self._settings.connection_wait_seconds)
        except PoolTimeout as error:
            raise pool_exhausted(self._settings) from error
        except PoolClosed as error:
            raise StoreUnavailableError("the connection pool is closed, or was never opened") from error
        except psycopg.Error as error:
            raise store_error(error, broken=True) from error
        try:
            yield conn
        finally:
            await pool.putconn(conn)

    async def _open_pool(self) -> AsyncConnectionPool[Any]:
        if not isinstance(self._given, str):
            return self._given
        pool = self._pools.here()
        if pool.closed:
            await pool.open()
        return pool

    def _new_pool(self) -> AsyncConnectionPool[Any]:
        configure = _configure if self._settings.prepared_statements else None
        arguments = connect_arguments(str(self._given), self._settings)
        return AsyncConnectionPool(**arguments, configure=configure, connection_class=LoopConnection)

    async def close(self) -> None:
        """Close the pool made here on this event loop; the next plan makes a new one."""
        pool = self._pools.take()
        if pool is not None:
            await pool.close(timeout=CLOSE_SECONDS_MAX)

    def give_up(self) -> None:
        """Cut the connections of plans that are under way; see ``Driver.give_up``."""
        self._watch.give_up()


async def _execute(
    conn: psycopg.AsyncConnection[Any], statement: Statement, params: Params
) -> psycopg.AsyncCursor[Row]:
    # The text is one of our files, with a quoted schema name: data is never put into it.
    return await psycopg.AsyncCursor(conn, row_factory=tuple_row).execute(statement.text, params)


async def _configure(conn: psycopg.AsyncConnection[Any]) -> None:
    """Let *conn*, which is new, prepare statements unless a pooler stands before the server."""
    async with conn.transaction(), psycopg.AsyncCursor(conn, row_factory=tuple_row) as cursor:
        await cursor.execute(WHICH_SERVER)
        (server_pid,) = await cursor.fetchone() or (None,)
    conn.prepare_threshold = prepares(conn, server_pid)


@asynccontextmanager
async def _in_our_mode(conn: psycopg.AsyncConnection[Any]) -> AsyncIterator[None]:
    """
    Run in READ COMMITTED, with every statement inside a transaction; a user's own pool gets its connection
    back as it was, or closed.
    """
    check_lent(conn)
    autocommit, isolation_level = conn.autocommit, conn.isolation_level
    row_factory, cursor_factory = conn.row_factory, conn.cursor_factory
    await _set_mode(conn, autocommit=False, isolation_level=IsolationLevel.READ_COMMITTED)
    try:
        yield
    finally:
        conn.row_factory, conn.cursor_factory = row_factory, cursor_factory
        if not conn.closed:
            try:
                await _set_mode(conn, autocommit=autocommit, isolation_level=isolation_level)
            except psycopg.Error:
                await conn.close()


async def _set_mode(
    conn: psycopg.AsyncConnection[Any], *, autocommit: bool, isolation_level: IsolationLevel | None
) -> None:
    if conn.autocommit != autocommit:
        await conn.set_autocommit(autocommit)
    if conn.isolation_level != isolation_level:
        await conn.set_isolation_level(isolation_level)
