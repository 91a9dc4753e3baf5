"""See what a handler has done to psycopg's connection, from the client's side and without asking the server."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from webhook_inbox.drivers.failures import transaction_ended
from webhook_inbox.drivers.unawaited import Unawaited
from webhook_inbox.errors import ConfigurationError, StoreUnavailableError, TransactionEndedError

Connection: TypeAlias = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

# What a handler has left at work on its connection, a task or a thread, has this long to end.
TURN_SECONDS_MAX = 5.0
STILL_AT_WORK = (
    "a handler has left a COPY, a stream or another statement under way on the connection it was given"
)
# Where the account of a handler's statements is kept, on its connection.
_UNAWAITED = "_webhook_inbox_unawaited"
_ENDED = {
    TransactionStatus.IDLE: "committed or rolled back the transaction it was given",
    TransactionStatus.INERROR: "swallowed a database error, which has aborted the transaction it was given",
    TransactionStatus.ACTIVE: "left a COPY, a stream or another statement unfinished",
}


def check_lent(conn: Connection) -> None:
    """
    Refuse a connection, just lent, on which no plan can run.

    Raises:
        ConfigurationError: It would give every text as bytes.
        StoreUnavailableError: Somebody's transaction is open on it, or it is lost.
    """
    if conn.info.transaction_status is not TransactionStatus.IDLE:
        raise StoreUnavailableError("the pool gave a connection that is not idle")
    if conn.info.encoding == "ascii":
        raise ConfigurationError(
            "the pool gave a connection whose client_encoding is SQL_ASCII, in which psycopg gives text as bytes; "
            "have it connect with client_encoding=utf8"
        )


def ended_by(conn: Connection, handler: str) -> TransactionEndedError | None:
    """
    Say what *handler*, which has just returned, did to its transaction; None where it is open and healthy (P-ONCE).

    A connection that was lost is no fault of the handler's: the next statement will meet that.
    """
    what = what_ended(conn)
    return None if what is None else transaction_ended(handler, what)


def what_ended(conn: Connection) -> str | None:
    """Say what was done to the transaction on *conn*, as the end of a sentence; None where it is open and healthy."""
    if conn.closed:
        return None if conn.broken else "closed the connection it was given"
    if conn.info.pipeline_status is not PipelineStatus.OFF:
        return "left a pipeline open"
    if in_transaction_context(conn):
        return "left a conn.transaction() block open"
    return _ENDED.get(conn.info.transaction_status)


def lost(conn: Connection, error: psycopg.Error) -> bool:
    """
    Say whether *error* is that of a connection that cannot go on.

    What psycopg itself refuses to send, for instance a value that it cannot adapt, has no SQLSTATE either.
    """
    return conn.closed or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None)


def in_transaction_context(conn: Connection) -> bool:
    """
    Say whether a ``conn.transaction()`` block was entered and not left.

    psycopg tells it by no public name while the transaction is open; one that no longer has this attribute is taken
    to have no such block.
    """
    return bool(getattr(conn, "_num_transactions", 0))


def ended_while_idle(conn: Connection) -> bool:
    """
    Say whether the server has ended the session of an idle connection, as far as this side has heard.

    It has nothing else to say that would need an answer; nothing is sent.
    """
    said = select.poll()
    said.register(conn.fileno(), select.POLLIN)
    try:
        while said.poll(0):
            conn.pgconn.consume_input()
    except psycopg.OperationalError:
        return True
    return False


def unfit(conn: Connection) -> bool:
    """Say whether an idle connection still carries something of a handler's, so that it must not serve others."""
    return in_transaction_context(conn) or conn.info.pipeline_status is not PipelineStatus.OFF


@contextmanager
def statements_noted(conn: psycopg.AsyncConnection[Any]) -> Iterator[Unawaited]:
    """Keep account of the statements that are called for on *conn*, and on cursors it makes, while the block runs."""
    own, factory, unawaited = vars(conn), conn.cursor_factory, Unawaited()
    own["execute"] = unawaited.noting("tx.conn.execute", conn.execute)
    own[_UNAWAITED] = unawaited
    conn.cursor_factory = _noting(factory)  # type: ignore[arg-type]  # a class is hashable
    try:
        yield unawaited
    finally:
        conn.cursor_factory = factory
        del own["execute"], own[_UNAWAITED]


@cache
def _noting(factory: Any) -> Any:  # noqa: ANN401 - a class of AsyncCursors
    """Give *factory* with an account, on its connection, of the statements that its cursors are called for."""
    if not isinstance(factory, type):
        return factory

    class Noting(factory):  # type: ignore[misc]  # a class that is known only here
        __slots__ = ()

        def execute(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - psycopg's
            return _noted(self, "cursor.execute", super().execute(*arguments, **options))

        def executemany(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - psycopg's
            return _noted(self, "cursor.executemany", super().executemany(*arguments, **options))

    return Noting


def _noted(cursor: psycopg.AsyncCursor[Any], name: str, made: Any) -> Any:  # noqa: ANN401 - a coroutine
    unawaited: Unawaited | None = vars(cursor.connection).get(_UNAWAITED)
    return made if unawaited is None else unawaited.note(name, made)
