"""Run one statement of ours on a connection that the user holds, in the transaction that is open on it."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from webhook_inbox.drivers.psycopg_wire import PsycopgWire
from webhook_inbox.drivers.waiting import Doing, on_loop, on_thread
from webhook_inbox.drivers.wire import Wire
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.protocol.steps import Params
from webhook_inbox.sql.statements import Statement

T = TypeVar("T")
_NOT_OPEN = (
    "no transaction is open on the connection given; what is written there would be committed by itself"
)


def execute_on(conn: Any, statement: Statement, params: Params, *, gives: T) -> Any:  # noqa: ANN401 - see below
    """
    Run *statement* on *conn*.

    Args:
        conn: A connection of psycopg or asyncpg, a connection or session of SQLAlchemy on one of them, or Django's.

    Returns:
        *gives*; an awaitable of it where *conn* is asynchronous, and nothing is run before that is awaited.

    Raises:
        ConfigurationError: It is none of these, or no transaction is open on it.
        Exception: The driver's own, as for any statement of the user's on that connection.
    """
    libraries = {kind.__module__.partition(".")[0] for kind in type(conn).__mro__}
    if isinstance(conn, psycopg.Connection):
        return on_thread(_run(_psycopg(conn), statement, params, gives))
    if isinstance(conn, psycopg.AsyncConnection):
        return on_loop(_run(_psycopg(conn), statement, params, gives))
    if "asyncpg" in libraries:
        return on_loop(_run(_asyncpg(conn), statement, params, gives))
    if "sqlalchemy" in libraries:
        return _on_sqlalchemy(conn, statement, params, gives)
    if "django" in libraries:
        return on_thread(_run(_django(conn), statement, params, gives))
    raise _unknown(conn)


def _unknown(conn: object) -> ConfigurationError:
    kind = type(conn)
    library = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return ConfigurationError(
        f"inbox.emit(conn, ...): a {library}{kind.__qualname__} is no connection that we know; give one of psycopg 3 "
        "or asyncpg, a SQLAlchemy connection or session on one of them, or django.db.connection"
    )


def _run(wire: Wire, statement: Statement, params: Params, gives: T) -> Doing[T]:
    yield from wire.rows(statement, params)
    return gives


def _psycopg(conn: Any) -> Wire:  # noqa: ANN401 - of either kind
    if not isinstance(conn, psycopg.Connection | psycopg.AsyncConnection):
        raise _unknown(conn)  # beneath SQLAlchemy or Django, where it may be psycopg2's
    if conn.autocommit and conn.info.transaction_status is TransactionStatus.IDLE:
        raise ConfigurationError(f"inbox.emit(conn, ...): {_NOT_OPEN}")
    return PsycopgWire(conn)


def _asyncpg(conn: Any) -> Wire:  # noqa: ANN401 - asyncpg has no types
    from webhook_inbox.drivers.asyncpg_wire import AsyncpgWire

    if not hasattr(conn, "is_in_transaction"):
        raise _unknown(conn)  # a pool, say
    if not conn.is_in_transaction():
        raise ConfigurationError(f"inbox.emit(conn, ...): {_NOT_OPEN}")
    return AsyncpgWire(conn)


def _django(conn: Any) -> Wire:  # noqa: ANN401 - Django has no types
    if not conn.in_atomic_block:
        raise ConfigurationError(f"inbox.emit(conn, ...): {_NOT_OPEN}; use transaction.atomic()")
    return _psycopg(conn.connection)


def _on_sqlalchemy(conn: Any, statement: Statement, params: Params, gives: T) -> Any:  # noqa: ANN401 - as execute_on
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    if isinstance(conn, async_scoped_session):
        conn = conn()
    if isinstance(conn, AsyncConnection | AsyncSession):
        return on_loop(_beneath(conn, statement, params, gives))
    connection = conn.connection() if hasattr(conn, "get_bind") else conn
    if not hasattr(connection, "in_transaction"):
        raise _unknown(conn)  # an engine, say
    if not connection.in_transaction():
        connection.begin()  # as its own execute would
    return on_thread(_run(_psycopg(connection.connection.driver_connection), statement, params, gives))


def _beneath(conn: Any, statement: Statement, params: Params, gives: T) -> Doing[T]:  # noqa: ANN401 - of either kind
    connection = (yield conn.connection()) if hasattr(conn, "get_bind") else conn
    # Whatever a driver does lazily to open a transaction, SQLAlchemy's own statement has it do.
    yield connection.exec_driver_sql("SELECT 1")
    raw = (yield connection.get_raw_connection()).driver_connection
    wire = _asyncpg(raw) if connection.dialect.driver == "asyncpg" else _psycopg(raw)
    return (yield from _run(wire, statement, params, gives))
