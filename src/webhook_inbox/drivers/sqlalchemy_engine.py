"""
Lend connections of a SQLAlchemy engine, and give each handler a session of its own on them.

What is ours runs on the driver's connection beneath SQLAlchemy's, psycopg's or asyncpg's; what is the handler's goes
through a fresh ``Session`` bound to that connection, which is in our transaction. It is flushed when the handler
returns, and never committed: the plan commits. A session that ends the transaction all the same is seen by
SQLAlchemy's own transaction object, whichever way it was ended (P-ONCE).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import wraps
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import (
    DBAPIError,
    InvalidRequestError,
    PendingRollbackError,
    SQLAlchemyError,
    TimeoutError as PoolTimeout,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, sessionmaker

from webhook_inbox.drivers.failures import store_error
from webhook_inbox.drivers.libpq_parts import dsn_of_parts
from webhook_inbox.drivers.psycopg_settings import pool_exhausted
from webhook_inbox.drivers.psycopg_wire import PsycopgWire
from webhook_inbox.drivers.unawaited import Unawaited
from webhook_inbox.drivers.waiting import Doing
from webhook_inbox.drivers.wire import Loan, Wire
from webhook_inbox.errors import ConfigurationError, HandlerFailedError
from webhook_inbox.model.settings import Settings


class _EndedError(InvalidRequestError):
    """Refuse to run a statement of a handler's that has ended its transaction: it would be committed by itself."""


Given: TypeAlias = Engine | AsyncEngine | sessionmaker[Any] | async_sessionmaker[Any]
_DRIVERS = {False: ("psycopg",), True: ("psycopg", "psycopg_async", "asyncpg")}


#: What sends statements, of a session and of a connection.
_SESSIONS = ("delete", "execute", "flush", "merge", "run_sync", "scalar", "scalars")


def _noting(name: str) -> Any:  # noqa: ANN401 - the method of that name, typed by SQLAlchemy
    method: Any = getattr(AsyncConnection, name)

    @wraps(method)
    def noted(conn: _NotingConnection, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - its
        return conn.unawaited.note(f"tx.conn.{name}", method(conn, *arguments, **options))

    return noted


class _NotingConnection(AsyncConnection):
    """Be an ``AsyncConnection`` that keeps account of what it is called for."""

    __slots__ = ("unawaited",)

    def __init__(self, engine: AsyncEngine, sync_connection: Connection | None = None) -> None:
        super().__init__(engine, sync_connection)
        self.unawaited = Unawaited()

    execute: Any = _noting("execute")
    exec_driver_sql: Any = _noting("exec_driver_sql")
    run_sync: Any = _noting("run_sync")
    scalar: Any = _noting("scalar")
    scalars: Any = _noting("scalars")


class SqlAlchemyLoan(Loan):
    """Hold a SQLAlchemy connection, synchronous or asynchronous, while one plan has it."""

    def __init__(self, conn: Connection | AsyncConnection, wire: Wire, sessions: Any) -> None:  # noqa: ANN401 - of either kind
        self.conn: Any = conn
        self.wire = wire
        self._sessions = sessions
        self._root: Any = None
        self._strayed: list[Any] = []
        self._lent = True
        if not wire.opens_transactions:
            event.listen(_sync(conn), "before_cursor_execute", self._held)

    def _held(self, *_: object) -> None:
        if not self.wire.holds:
            raise _EndedError("the transaction that was given has ended")

    def open(self) -> None:
        """Make a fresh session, in the transaction that SQLAlchemy believes it has begun itself."""
        self.session = self._sessions(
            bind=self.conn, binds=None, twophase=False, join_transaction_mode="control_fully"
        )
        event.listen(_sync(self.session), "after_begin", self._began)
        if isinstance(self.conn, _NotingConnection):
            for name in _SESSIONS:
                noting = self.conn.unawaited.noting(f"tx.session.{name}", getattr(self.session, name))
                setattr(self.session, name, noting)
        # A session that has not begun would end nothing by commit() or rollback(), and its handler believe it had.
        _sync(self.session).connection()

    def _began(self, *begun: object) -> None:
        _, _, connection = begun  # the session and its transaction come before it
        if connection is not _sync(self.conn):
            self._strayed.append(self.session)

    def start(self) -> Doing[None]:
        """Have SQLAlchemy believe that it begins; its former transaction has ended on the wire."""
        if self._root is not None and self._root.is_active:
            yield self._root.close()
        self._root = yield self.conn.begin()

    def check_awaited(self, handler: str) -> None:
        """Look at what connection and session were called for."""
        if isinstance(self.conn, _NotingConnection):
            self.conn.unawaited.check(handler)

    def finish(self) -> Doing[None]:
        """Flush the session."""
        if not self.conn.closed and self._root.is_active:
            yield self.session.flush()
        if self._strayed:
            raise HandlerFailedError(
                "the session went to another connection than the event's, where nothing would be committed: "
                "a session class with its own get_bind() cannot be used"
            )

    def ended(self) -> str | None:
        """Say what the handler did to its transaction, through SQLAlchemy or past it."""
        if self.wire.closed:
            return self.wire.ended()
        if self.conn.closed or self.conn.invalidated:
            return "closed the connection it was given"
        if not self._root.is_active or self.conn.get_transaction() is not self._root:
            return "committed or rolled back the transaction it was given"
        return self.wire.ended()

    def misuse(self, raised: BaseException) -> str | None:
        """Know SQLAlchemy's refusal to go on after an error that the handler has swallowed."""
        if isinstance(raised, _EndedError):
            return "ended the transaction it was given, and went on"
        if isinstance(raised, PendingRollbackError):
            return "swallowed a database error, which has aborted the transaction it was given"
        return None

    def give_back(self) -> Doing[None]:
        """Give it back to the engine's pool, which replaces one that is closed."""
        if self._lent and not self.conn.closed:
            self._lent = False
            if self.wire.closed:
                yield self.conn.invalidate()
            yield self.conn.close()
        for session in self._strayed:
            with suppress(SQLAlchemyError):
                yield session.close()

    def abandon(self) -> None:
        """Give it back, closed, from another thread."""
        self.wire.cut()
        if self._lent:
            self._lent = False
            self.conn.invalidate()
            self.conn.close()


class SqlAlchemyLender:
    """
    Lend connections of an engine, and make sessions as the user makes them.

    Args:
        given: An engine, or a ``sessionmaker`` that is bound to one; of either kind.
        settings: How long to wait for a connection of an asynchronous engine. A synchronous one waits as long as its
            own ``pool_timeout`` says.

    Raises:
        ConfigurationError: A session maker without an engine, or an engine on another driver than psycopg or asyncpg.
    """

    def __init__(self, given: Given, *, settings: Settings) -> None:
        self.engine, self._sessions = _engine_and_sessions(given)
        self._settings = settings
        self._is_async = isinstance(self.engine, AsyncEngine)
        _check(self.engine)
        self._errors: tuple[type[Exception], ...] = (DBAPIError, OSError)
        if self.engine.dialect.driver == "asyncpg":
            from webhook_inbox.drivers.asyncpg_wire import AsyncpgWire

            self._errors += AsyncpgWire.errors  # SQLAlchemy 2.0 lets them through where it connects

    @property
    def connections_max(self) -> int | None:
        """Give how many connections the engine's pool keeps; None where it keeps none, or as many as it makes."""
        size = getattr(self.engine.pool, "size", None)
        return int(size()) or None if callable(size) else None

    def dsn(self) -> str | None:
        """Give what the engine's URL says; its ``connect_args``, ``creator`` and listeners are not to be seen there."""
        engine = _sync(self.engine)
        _, parts = engine.dialect.create_connect_args(engine.url)
        return dsn_of_parts(None, parts)

    def lend(self) -> Doing[Loan]:
        """Lend a free connection; see ``Lender.lend``."""
        try:
            conn = yield self._connect()
        except (PoolTimeout, TimeoutError) as error:
            raise pool_exhausted(self._settings) from error
        except self._errors as error:
            raise store_error(getattr(error, "orig", None) or error, broken=True) from error
        try:
            wire = yield from _wire_of(conn)
        except BaseException:
            yield conn.close()
            raise
        return SqlAlchemyLoan(conn, wire, self._sessions)

    def _connect(self) -> Any:  # noqa: ANN401 - a connection, or an awaitable of one
        if not self._is_async:
            return self.engine.connect()
        return _connected(self.engine, self._settings.connection_wait_seconds)

    def forget_idle(self) -> Doing[None]:
        """Have the engine close what lies idle in its pool."""
        yield self.engine.dispose()

    def close(self) -> Doing[None]:
        """
        Leave the engine open: it is the user's.

        What lies idle in an asynchronous one is closed all the same, while its event loop runs: it is of no use on the
        next one, where SQLAlchemy would take it out of its pool and fail.
        """
        if self._is_async:
            yield from self.forget_idle()


async def _connected(engine: AsyncEngine, seconds_max: float) -> AsyncConnection:
    async with asyncio.timeout(seconds_max):
        return await _NotingConnection(engine)


def _wire_of(conn: Any) -> Doing[Wire]:  # noqa: ANN401 - a connection of either kind
    if isinstance(conn, Connection):
        beneath: Any = conn.connection.driver_connection
        return PsycopgWire(beneath)
    # In this mode SQLAlchemy leaves the transaction to us; psycopg's own is set, and set back, by its wire.
    raw = (yield conn.get_raw_connection()).driver_connection
    if conn.dialect.driver != "asyncpg":
        return PsycopgWire(raw)
    from webhook_inbox.drivers.asyncpg_wire import AsyncpgWire

    yield conn.execution_options(isolation_level="AUTOCOMMIT")
    return AsyncpgWire(raw)


def _engine_and_sessions(given: Given) -> tuple[Any, Any]:
    match given:
        case Engine():
            return given, sessionmaker(class_=Session)
        case AsyncEngine():
            return given, async_sessionmaker(class_=AsyncSession)
        case _:
            engine = given.kw.get("bind")
            if not isinstance(engine, Engine | AsyncEngine):
                raise ConfigurationError(
                    "Inbox(sessionmaker): it is bound to no engine; write sessionmaker(engine), without binds"
                )
            return engine, given


def _check(engine: Engine | AsyncEngine) -> None:
    driver = engine.dialect.driver
    allowed = _DRIVERS[isinstance(engine, AsyncEngine)]
    if engine.dialect.name != "postgresql" or driver not in allowed:
        raise ConfigurationError(
            f"Inbox(engine): it is one of {engine.dialect.name}+{driver}; make it with "
            + " or ".join(f"postgresql+{each}://" for each in allowed)
        )


def _sync(given: Any) -> Any:  # noqa: ANN401 - a session, connection or engine of either kind
    for name in ("sync_session", "sync_connection", "sync_engine"):
        if (found := getattr(given, name, None)) is not None:
            return found
    return given
