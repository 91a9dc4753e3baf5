"""
Say what one kind of connection must be able to do, for plans to run on it.

    Lender ── lend() ──► Loan ── wire ──► Wire          a pool, an engine, Django's thread
                          │                 └─ SQL: begin, rows, savepoints, commit
                          └─ what a handler gets: its connection, its session; what it did to them

A *wire* speaks SQL on one connection of one driver (psycopg, asyncpg). A *loan* is that connection while a plan has it,
as the user's world knows it (a SQLAlchemy session, Django's ``connection``). So each world is a page, and each driver
is a page, and nothing of the plans is said twice. Methods that wait are doings (``waiting``): the same text serves
threads and event loops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from webhook_inbox.drivers.waiting import Doing
from webhook_inbox.drivers.walk import commands
from webhook_inbox.protocol.steps import Params, Release, RollbackTo, Row, Savepoint
from webhook_inbox.sql.statements import Statement


class Wire(ABC):
    """
    Speak SQL on one connection, which is idle before and after each plan.

    Attributes:
        raw: That connection, as its driver knows it.
    """

    raw: Any
    #: What this driver raises for what the server, the connection or a value has done.
    errors: tuple[type[Exception], ...]
    #: Whether the driver itself opens a transaction for a statement that finds none.
    opens_transactions = True

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Say whether the connection is unusable."""

    @property
    @abstractmethod
    def broken(self) -> bool:
        """Say whether it was lost, rather than closed from this side."""

    @abstractmethod
    def fileno(self) -> int:
        """Give the number of its socket."""

    @abstractmethod
    def lost(self, error: BaseException) -> bool:
        """Say whether *error*, one of ``errors``, is that of a connection that cannot go on."""

    @property
    def holds(self) -> bool:
        """Say whether whatever is run now is part of a transaction, on a connection that lives."""
        return True

    @abstractmethod
    def ended(self) -> str | None:
        """Say what a handler, which has just returned, did to the transaction; None where it is open (P-ONCE)."""

    @abstractmethod
    def enter(self) -> Doing[None]:
        """Set the connection to our ways."""

    @abstractmethod
    def begin(self, statement: Statement, params: Params) -> Doing[Row | None]:
        """Open a READ COMMITTED transaction, run *statement* in it, and give its first row."""

    @abstractmethod
    def rows(self, statement: Statement, params: Params) -> Doing[list[Row]]:
        """Run one of our statements, and give its rows as plain tuples."""

    @abstractmethod
    def script(self, text: str) -> Doing[None]:
        """Run several statements that have neither parameters nor a result."""

    def savepoint(self) -> Doing[None]:
        """Start a part of the transaction that can be undone alone."""
        yield from self.script("; ".join(commands(Savepoint())))

    def rollback_to(self) -> Doing[None]:
        """Undo that part, and forget its savepoint."""
        yield from self.script("; ".join(commands(RollbackTo())))

    def release(self) -> Doing[None]:
        """Keep that part, and forget its savepoint."""
        yield from self.script("; ".join(commands(Release())))

    @abstractmethod
    def commit(self) -> Doing[None]:
        """
        Commit the transaction that was begun.

        Raises:
            TransactionEndedError: There is none, or it is aborted (P-ONCE).
        """

    @abstractmethod
    def rollback(self) -> Doing[None]:
        """Roll back."""

    @abstractmethod
    def leave(self) -> Doing[None]:
        """Roll back what is open, and set the connection to its owner's ways; close one that cannot be. Never fails."""

    @abstractmethod
    def close(self) -> Doing[None]:
        """Close the connection: nobody shall use it again."""

    @abstractmethod
    def cut(self) -> None:
        """Close it from another thread, whatever its own is doing."""


class Loan(ABC):
    """
    Hold a connection while one plan has it.

    Attributes:
        wire: Speaks SQL on it.
        conn: What a handler gets as ``tx.conn``.
        session: What a handler gets as ``tx.session``; None where its world knows none.
    """

    wire: Wire
    conn: Any
    session: Any = None

    def start(self) -> Doing[None]:
        """Prepare for a transaction that is about to begin."""
        yield from ()

    def open(self) -> None:
        """Prepare what a handler is about to get."""
        self.session = None

    def finish(self) -> Doing[None]:
        """Send what the handler, which has just returned, has left to be sent (an ORM's flush)."""
        yield from ()

    def ended(self) -> str | None:
        """Say what the handler did to its transaction, as ``Wire.ended``."""
        return self.wire.ended()

    def misuse(self, raised: BaseException) -> str | None:  # noqa: ARG002 - for worlds that refuse
        """Say what the handler did to its transaction where *raised* is how its world refuses to go on after that."""
        return None

    def check_awaited(self, handler: str) -> None:  # noqa: B027 - a thread awaits nothing
        """
        Refuse to go on where *handler*, which has just returned, called for a statement and did not await it.

        Raises:
            HandlerFailedError: It did (P-ONCE).
        """

    @abstractmethod
    def give_back(self) -> Doing[None]:
        """Give the connection back to whoever lent it; once, whatever happened."""

    @abstractmethod
    def abandon(self) -> None:
        """Give it back, closed, from another thread: the one that had it does not come back."""


class Lender(Protocol):
    """Lend connections: a pool, an engine, a thread's own."""

    def lend(self) -> Doing[Loan]:
        """
        Lend a free connection.

        Raises:
            StoreUnavailableError: There is none in time.
        """
        ...

    def forget_idle(self) -> Doing[None]:
        """Do without the connections that lie idle: they are dead, most likely, as one of them was."""
        ...

    def close(self) -> Doing[None]:
        """Close what was opened here; what the user gave stays open."""
        ...
