"""Run plans on psycopg's synchronous connections."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from webhook_inbox.drivers.driver import tell_nobody
from webhook_inbox.drivers.failures import caused_by, handler_error, store_error
from webhook_inbox.drivers.psycopg_flight import commits, fly
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
    unfit,
)
from webhook_inbox.drivers.silence import Wait, Watch
from webhook_inbox.drivers.walk import NotBegunError, Walk, refuse_awaitable, too_long
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


class PsycopgSession:
    """Hand a handler its connection, and run our own statements on it."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn
        self.ended = 0

    def execute(self, statement: Statement, params: Params) -> Row | None:
        """Run *statement*; give its first row, or None."""
        try:
            return _execute(self.conn, statement, params).fetchone()
        finally:
            self.ended += 1


class PsycopgRunner:
    """
    Run plans on one connection, which is idle before and after each.

    Args:
        conn: Any psycopg connection; its row factory and cursor factory do not matter.
        probe: Told each fault point, ``<plan>.<step>.before`` and ``.after``.
        wait: Told what is waited for; the driver's watch gives up a connection that goes silent.
    """

    def __init__(
        self, conn: psycopg.Connection[Any], *, probe: Probe = no_probe, wait: Wait | None = None
    ) -> None:
        self._conn = conn
        self._probe = probe
        self._wait = wait or Wait(conn)
        self.began = False

    def run(self, plan: Plan[T]) -> T:
        """Run *plan* to its end; roll back what it leaves open, and close a connection that cannot be."""
        walk = Walk(plan, probe=self._probe)
        with _in_our_mode(self._conn):
            try:
                while (step := walk.step()) is not None:
                    self._wait.expect(step)
                    try:
                        walk.succeeded(self._perform(step))
                    except InboxError as error:
                        walk.failed(error)
                    except psycopg.Error as error:
                        walk.failed(caused_by(error, store_error(error, broken=lost(self._conn, error))))
                return walk.value
            except TransactionEndedError:
                self._conn.close()  # what else the handler has left in the session, nobody knows
                raise
            finally:
                walk.close()
                self._leave()

    def _perform(self, step: Step) -> object:
        match step:
            case Run():
                return self._run_handler(step)
            case Script(_, text):
                self._script(text)
                return None
            case _:
                flight = fly(self._conn, parts(step))
                self.began |= commits(step)  # lost on the way, nobody knows whether it was
                self._turn()
                try:
                    results = self._conn.wait(flight)
                finally:
                    self._conn.lock.release()
                self.began = True
                return results if isinstance(step, Together) else results[0]

    def _run_handler(self, step: Run) -> Steering | None:
        started = time.monotonic()
        try:
            with self._conn.pipeline() if step.pipeline else nullcontext():
                refuse_awaitable(step, step.work(PsycopgSession(self._conn)))
        except STEERING as steering:
            return steering
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as raised:
            # The server may have ended the session of a handler that overran: its own doing, not an outage.
            if time.monotonic() - started > step.seconds_max:
                raise too_long(step) from raised
            raise handler_error(
                raised, handler=step.name, broken=self._conn.broken, pipeline=step.pipeline
            ) from raised
        if ended := ended_by(self._conn, step.name):
            raise ended
        if time.monotonic() - started > step.seconds_max:
            raise too_long(step)
        return None

    def _script(self, text: str) -> None:
        with psycopg.Cursor(self._conn, row_factory=tuple_row) as cursor:
            cursor.execute(text)

    def _turn(self) -> None:
        """Have the connection to ourselves: a handler may have left a thread of its own at work on it."""
        if not self._conn.lock.acquire(timeout=TURN_SECONDS_MAX):
            raise TransactionEndedError(STILL_AT_WORK)

    def _leave(self) -> None:
        if self._conn.closed:
            return
        try:
            self._turn()  # what a handler has left under way ends first
            try:
                if unfit(self._conn):
                    self._conn.close()
                elif self._conn.info.transaction_status is not TransactionStatus.IDLE:
                    self._conn.wait(fly(self._conn, (Rollback(),)))
            finally:
                self._conn.lock.release()
        except (psycopg.Error, TransactionEndedError):
            self._conn.close()


class _Loan:
    """Hold a connection of a pool, and give it back once: what is abandoned is not there to be given back."""

    def __init__(self, pool: ConnectionPool[Any], conn: psycopg.Connection[Any]) -> None:
        self.conn = conn
        self._pool: ConnectionPool[Any] | None = pool

    def end(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.putconn(self.conn)

    def abandon(self) -> None:
        """End it for a thread that does not come back; the pool makes another connection in its place."""
        self.conn.close()
        self.end()


class PsycopgDriver:
    """
    Run plans on connections of a pool: the user's own, or one made from a DSN when it is first needed.

    Args:
        database: A DSN in libpq's form, or an open ``psycopg_pool.ConnectionPool``.
        settings: Sizes and limits of a pool made here.
        probe: Told each fault point.
    """

    def __init__(
        self, database: str | ConnectionPool[Any], *, settings: Settings, probe: Probe = no_probe
    ) -> None:
        self._given = database
        self._settings = settings
        self._probe = probe
        self._watch = Watch()
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Any] | None = None
        self._opened_by = 0

    def run(self, plan: Callable[[], Plan[T]], *, abandoned: Callable[[], None] = tell_nobody) -> T:
        """Run a fresh plan on a free connection; see ``Driver.run``."""
        try:
            return self._run_once(plan, abandoned)
        except NotBegunError:
            # The pool handed out a connection that had died while idle (a restart, a failover). Nothing was
            # begun on it, so nothing can have been applied: do without its neighbours, and try once more. To ask
            # them how they are would be to wait for those that have gone silent.
            self._open_pool().drain()
        try:
            return self._run_once(plan, abandoned)
        except NotBegunError as error:
            raise error.reason from error.reason.__cause__

    def _run_once(self, plan: Callable[[], Plan[T]], abandoned: Callable[[], None]) -> T:
        pool = self._open_pool()

        def abandon() -> None:
            loan.abandon()
            abandoned()

        with self._borrowed(pool) as loan, self._watch.over(loan.conn, abandon) as wait:
            conn = loan.conn
            runner = PsycopgRunner(conn, probe=self._probe, wait=wait)
            try:
                return runner.run(plan())
            except StoreUnavailableError as error:
                if not runner.began and conn.closed and not wait.given_up:
                    raise NotBegunError(error) from None
                if error.sqlstate in STALE_POOL_SQLSTATES:
                    conn.close()
                    pool.drain()
                raise
            finally:
                if wait.given_up:  # its neighbours are silent too, most likely
                    pool.drain()

    @contextmanager
    def _borrowed(self, pool: ConnectionPool[Any]) -> Iterator[_Loan]:
        try:
            loan = _Loan(pool, pool.getconn(timeout=self._settings.connection_wait_seconds))
        except PoolTimeout as error:
            raise pool_exhausted(self._settings) from error
        except PoolClosed as error:
            raise StoreUnavailableError("the connection pool is closed, or was never opened") from error
        except psycopg.Error as error:
            raise store_error(error, broken=True) from error
        try:
            yield loan
        finally:
            loan.end()

    def _open_pool(self) -> ConnectionPool[Any]:
        if not isinstance(self._given, str):
            return self._given
        with self._lock:
            # After a fork, the pool's sockets are the parent's as well, and its threads are the parent's alone.
            if self._pool is None or self._opened_by != os.getpid():
                configure = _configure if self._settings.prepared_statements else None
                arguments = connect_arguments(self._given, self._settings)
                pool = ConnectionPool(**arguments, configure=configure)
                pool.open()
                self._pool, self._opened_by = pool, os.getpid()
            return self._pool

    def close(self) -> None:
        """Close the pool made here; the next plan makes a new one."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(timeout=CLOSE_SECONDS_MAX)

    def give_up(self) -> None:
        """Cut the connections of plans that are under way; see ``Driver.give_up``."""
        self._watch.give_up()


def _execute(conn: psycopg.Connection[Any], statement: Statement, params: Params) -> psycopg.Cursor[Row]:
    # The text is one of our files, with a quoted schema name: data is never put into it.
    return psycopg.Cursor(conn, row_factory=tuple_row).execute(statement.text, params)


def _configure(conn: psycopg.Connection[Any]) -> None:
    """Let *conn*, which is new, prepare statements unless a pooler stands before the server."""
    with conn.transaction(), psycopg.Cursor(conn, row_factory=tuple_row) as cursor:
        cursor.execute(WHICH_SERVER)
        (server_pid,) = cursor.fetchone() or (None,)
    conn.prepare_threshold = prepares(conn, server_pid)


@contextmanager
def _in_our_mode(conn: psycopg.Connection[Any]) -> Iterator[None]:
    """
    Run in READ COMMITTED, with every statement inside a transaction; a user's own pool gets its connection
    back as it was, or closed.
    """
    check_lent(conn)
    autocommit, isolation_level = conn.autocommit, conn.isolation_level
    row_factory, cursor_factory = conn.row_factory, conn.cursor_factory
    _set_mode(conn, autocommit=False, isolation_level=IsolationLevel.READ_COMMITTED)
    try:
        yield
    finally:
        conn.row_factory, conn.cursor_factory = row_factory, cursor_factory
        if not conn.closed:
            try:
                _set_mode(conn, autocommit=autocommit, isolation_level=isolation_level)
            except psycopg.Error:
                conn.close()


def _set_mode(
    conn: psycopg.Connection[Any], *, autocommit: bool, isolation_level: IsolationLevel | None
) -> None:
    if conn.autocommit != autocommit:
        conn.autocommit = autocommit
    if conn.isolation_level != isolation_level:
        conn.isolation_level = isolation_level
