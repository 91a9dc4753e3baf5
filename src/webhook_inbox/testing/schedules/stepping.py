"""
Make a connection stop before every exchange with the server, whatever its kind and whoever has opened it.

    psycopg     all that it sends passes ``Connection.wait``, of either kind; so do SQLAlchemy and Django on it
    asyncpg     all that runs a statement passes a method of its protocol; what looks up types does not count

Our own steps and a handler's statements are met alike, and nothing of the driver is replaced.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from typing import Any, Protocol

import psycopg
from psycopg.pq import TransactionStatus

from webhook_inbox.drivers.waiting import Doing, on_loop, on_thread

_STATEMENTS = "_webhook_inbox_statements"
#: What of asyncpg's protocol has the server run something; see ``asyncpg.connection.Connection``.
_EXCHANGES = frozenset(
    {"bind", "bind_execute", "bind_execute_many", "copy_in", "copy_out", "execute", "query"}
)
#: How the statements begin by which asyncpg looks up a type that it meets for the first time.
_LOOK_UPS = ("WITH RECURSIVE typeinfo_tree", "SELECT\n            t.oid", "SELECT current_setting('jit')")


class Crashed(KeyboardInterrupt):
    """End an actor where its process dies."""


class Line(ABC):
    """
    Hold a raw connection while somebody may stop and cut it.

    Attributes:
        pid: The process of the server that serves it.
    """

    pid: int

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Say whether a transaction is open, as far as the client knows."""

    @abstractmethod
    def sever(self) -> None:
        """Shut its socket down, from any thread: neither side hears of the other any more."""

    @abstractmethod
    def finish(self) -> None:
        """Have the client know that it is gone, at once."""

    @abstractmethod
    def lost(self) -> Exception:
        """Give what its driver raises for a connection that went away before an answer."""


class Gate(Protocol):
    """Name who decides when a connection may go on."""

    def attach(self, line: Line) -> None:
        """Learn which connection it is."""
        ...

    def exchange(self, perform: Callable[[], Any], statement: str) -> Doing[Any]:
        """
        Perform an exchange with the server when it is time for it.

        Args:
            perform: What the driver does; waited for by a doing.
            statement: Its text, where it is known.
        """
        ...


def stepped(raw: Any, gate: Gate | None) -> AbstractContextManager[None]:  # noqa: ANN401 - of any driver
    """Have *raw*, a connection of psycopg or asyncpg, ask *gate* before every exchange while the block runs."""
    if gate is None:
        return nullcontext()
    if isinstance(raw, psycopg.Connection | psycopg.AsyncConnection):
        return _psycopg(raw, gate)
    # A pool of asyncpg's hands out stand-ins, which name what is behind them in no public place.
    return _asyncpg(getattr(raw, "_con", raw), gate)


@contextmanager
def _psycopg(conn: Any, gate: Gate) -> Iterator[None]:  # noqa: ANN401 - of either kind
    own, wait, factory = vars(conn), conn.wait, conn.cursor_factory
    statements: deque[str] = deque()
    settle = on_loop if isinstance(conn, psycopg.AsyncConnection) else on_thread

    def stopped(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as psycopg has it
        statement = statements.popleft() if statements else ""
        return settle(gate.exchange(partial(wait, *arguments, **options), statement))

    own[_STATEMENTS], own["wait"] = statements, stopped
    conn.cursor_factory = _naming(factory)
    gate.attach(_PsycopgLine(conn))
    try:
        yield
    finally:
        conn.cursor_factory = factory
        del own[_STATEMENTS], own["wait"]


@cache
def _naming(factory: Any) -> Any:  # noqa: ANN401 - a class of cursors
    """Give *factory* with cursors that note, on their connection, which statement of the handler comes next."""

    def note(cursor: Any, query: object) -> None:  # noqa: ANN401 - of either kind
        vars(cursor.connection).get(_STATEMENTS, deque()).append(" ".join(str(query).split()))

    class Naming(factory):  # type: ignore[misc]  # a class that is known only here
        def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - psycopg's
            note(self, query)
            return super().execute(query, *arguments, **options)

    class AsyncNaming(factory):  # type: ignore[misc]  # as above
        async def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - psycopg's
            note(self, query)
            return await super().execute(query, *arguments, **options)

    return AsyncNaming if issubclass(factory, psycopg.AsyncCursor) else Naming


class _PsycopgLine(Line):
    """Hold a connection of psycopg, of either kind."""

    def __init__(self, conn: Any) -> None:  # noqa: ANN401 - of either kind
        self.pid = conn.info.backend_pid
        self._conn = conn

    @property
    def in_transaction(self) -> bool:
        return self._conn.info.transaction_status is not TransactionStatus.IDLE

    def sever(self) -> None:
        if not self._conn.closed:
            _shut_down(self._conn.fileno())

    def finish(self) -> None:
        self._conn.pgconn.finish()

    def lost(self) -> Exception:
        return psycopg.OperationalError("the connection was cut before the answer arrived")


@contextmanager
def _asyncpg(conn: Any, gate: Gate) -> Iterator[None]:  # noqa: ANN401 - asyncpg has no types
    protocol = conn._protocol  # noqa: SLF001 - what runs a statement has no public name
    conn._protocol = _Stopping(protocol, gate)  # noqa: SLF001 - as above
    gate.attach(_AsyncpgLine(conn))
    try:
        yield
    finally:
        if conn._protocol is not None:  # noqa: SLF001 - as above; None once it was given up
            conn._protocol = protocol  # noqa: SLF001 - as above


class _Stopping:
    """Stand before *protocol*, that of a connection of asyncpg's."""

    def __init__(self, protocol: Any, gate: Gate) -> None:  # noqa: ANN401 - asyncpg has no types
        self._protocol = protocol
        self._gate = gate

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever asyncpg's has
        method = getattr(self._protocol, name)
        if name not in _EXCHANGES:
            return method

        def stopped(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as asyncpg's
            statement = next(iter(arguments), options.get("state"))
            text = statement if isinstance(statement, str) else getattr(statement, "query", "")
            perform = partial(method, *arguments, **options)
            return perform() if text.startswith(_LOOK_UPS) else on_loop(self._gate.exchange(perform, text))

        return stopped


class _AsyncpgLine(Line):
    """Hold a connection of asyncpg's."""

    def __init__(self, conn: Any) -> None:  # noqa: ANN401 - asyncpg has no types
        self.pid = conn.get_server_pid()
        self._conn = conn
        # asyncpg names it in no public place.
        self._fileno = conn._transport.get_extra_info("socket").fileno()  # noqa: SLF001

    @property
    def in_transaction(self) -> bool:
        return bool(self._conn.is_in_transaction())

    def sever(self) -> None:
        if not self._conn.is_closed():
            _shut_down(self._fileno)

    def finish(self) -> None:
        self._conn.terminate()

    def lost(self) -> Exception:
        from asyncpg import ConnectionDoesNotExistError

        error: Exception = ConnectionDoesNotExistError("the connection was cut before the answer arrived")
        return error


def _shut_down(fileno: int) -> None:
    with socket.socket(fileno=os.dup(fileno)) as copy:
        copy.shutdown(socket.SHUT_RDWR)
