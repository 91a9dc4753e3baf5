"""
Speak SQL on one of asyncpg's connections.

asyncpg lets the server say of what type a parameter is, and encodes the value by the connection's codecs, which are the
user's to change: a pool whose ``init`` teaches it ``jsonb`` would quote our JSON once more. So what a codec may be
for is sent as text, and the server casts it.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg

from webhook_inbox.drivers.parameters import numbered
from webhook_inbox.drivers.standby import confirmed_to_asyncpg
from webhook_inbox.drivers.unawaited import Unawaited
from webhook_inbox.drivers.waiting import Doing
from webhook_inbox.drivers.wire import Wire
from webhook_inbox.errors import TransactionEndedError
from webhook_inbox.protocol.steps import Params, Row
from webhook_inbox.sql.statements import Statement

# What a codec of the user's may be for.
AS_TEXT = frozenset({"jsonb", "numeric", "timestamptz", "uuid"})
_ABORTED = "25P02"


class EndedError(asyncpg.InterfaceError):
    """Refuse to run a statement of a handler's that has ended its transaction: it would be committed by itself."""


class InTransaction(getattr(asyncpg.connection, "_ConnectionProxy", object)):  # type: ignore[misc]
    """
    Stand before *target*, the connection of a handler or one of its prepared statements, while *wire* holds.

    asyncpg opens no transaction by itself: once a handler has sent ROLLBACK, each of its statements would be committed
    alone, without its event (P-ONCE). What it calls for is noted in *unawaited*.
    """

    def __init__(self, target: Any, wire: AsyncpgWire, unawaited: Unawaited) -> None:  # noqa: ANN401 - asyncpg has no types
        self._target = target
        self._wire = wire
        self._unawaited = unawaited

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever asyncpg's has
        if not self._wire.holds:
            raise EndedError("the transaction that was given has ended")
        found = getattr(self._target, name)
        return self._unawaited.noting(name, found) if callable(found) else found

    async def prepare(self, *arguments: Any, **options: Any) -> InTransaction:  # noqa: ANN401 - as asyncpg's
        """Prepare a statement, which is held to the transaction too."""
        prepared = await self.__getattr__("prepare")(*arguments, **options)
        return InTransaction(prepared, self._wire, self._unawaited)


class AsyncpgWire(Wire):
    """
    Speak SQL on an asyncpg connection.

    Args:
        conn: As the pool hands it out, or a bare one.
    """

    errors = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, ValueError)
    opens_transactions = False

    def __init__(self, conn: Any) -> None:  # noqa: ANN401 - asyncpg has no types
        self.raw = conn
        self._transaction: Any = None
        self._healthy = False

    @property
    def closed(self) -> bool:
        """Say whether the connection is unusable."""
        try:
            return bool(self.raw.is_closed())
        except asyncpg.InterfaceError:  # a pool has taken it back as soon as it was closed
            return True

    @property
    def broken(self) -> bool:
        """Say whether it is unusable; asyncpg does not tell who has ended it."""
        return self.closed

    def fileno(self) -> int:
        """Give the number of its socket."""
        # asyncpg names it in no public place.
        return int(self.raw._transport.get_extra_info("socket").fileno())  # noqa: SLF001

    def lost(self, error: BaseException) -> bool:
        """Say whether *error* is that of a connection that cannot go on."""
        return self.closed or isinstance(error, OSError)

    @property
    def holds(self) -> bool:
        """Say whether a statement would be part of a transaction: asyncpg opens none by itself."""
        return self.closed or bool(self.raw.is_in_transaction())

    def ended(self) -> str | None:
        """Say what a handler did to the transaction; that it aborted it, only our next statement can tell."""
        self._healthy = False
        if self.closed:
            return "closed the connection it was given, or went on after it was lost"
        if not self.raw.is_in_transaction():
            return "committed or rolled back the transaction it was given"
        return None

    def enter(self) -> Doing[None]:
        """Need nothing: every transaction says its isolation level."""
        yield from ()

    def begin(self, statement: Statement, params: Params) -> Doing[Row | None]:
        """Open a transaction as asyncpg knows it, so that a handler's ``conn.transaction()`` is a savepoint of it."""
        self._transaction = self.raw.transaction(isolation="read_committed")
        yield self._transaction.start()
        return next(iter((yield from self.rows(statement, params))), None)

    def rows(self, statement: Statement, params: Params) -> Doing[list[Row]]:
        """Run one of our statements, and give its rows."""
        text, names = numbered(statement.text, AS_TEXT)
        values = [_sent(params[name]) for name in names]
        self._healthy = False
        found = yield self.raw.fetch(text, *values)
        self._healthy = True
        return [tuple(row) for row in found]

    def script(self, text: str) -> Doing[None]:
        """Run several statements that have neither parameters nor a result."""
        self._healthy = False
        yield self.raw.execute(text)
        self._healthy = True

    def commit(self) -> Doing[None]:
        """Commit; see ``Wire.commit``."""
        if self._transaction is None or self.closed or not self.raw.is_in_transaction():
            raise TransactionEndedError("there is no healthy transaction to commit")
        # asyncpg keeps the server's tag to itself. A COMMIT is answered ROLLBACK in an aborted transaction alone, and
        # in such a one no statement succeeds: our last one has, or this one does.
        try:
            if not self._healthy:
                yield self.raw.execute("SELECT")
            transaction, self._transaction = self._transaction, None
            with confirmed_to_asyncpg(self.raw):
                yield transaction.commit()
        except asyncpg.PostgresError as error:
            if error.sqlstate == _ABORTED:
                raise TransactionEndedError("there is no healthy transaction to commit") from error
            raise

    def rollback(self) -> Doing[None]:
        """Roll back."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            yield transaction.rollback()

    def leave(self) -> Doing[None]:
        """Roll back what is open; see ``Wire.leave``."""
        try:
            if not self.closed:
                yield from self.rollback()
            if not self.closed and self.raw.is_in_transaction():
                yield self.raw.execute("ROLLBACK")
        except self.errors:
            yield from self.close()

    def close(self) -> Doing[None]:
        """Close the connection."""
        if not self.closed:
            self.raw.terminate()
        yield from ()

    def cut(self) -> None:
        """Do nothing: a handler on an event loop is never left to itself."""


def _sent(value: object) -> object:
    """
    Give *value* as asyncpg is to send it.

    Raises:
        ValueError: A text that PostgreSQL cannot hold; sent, it would abort the transaction.
    """
    match value:
        case list() | tuple():
            return [_sent(each) for each in value]
        case str():
            if "\x00" in value:
                raise ValueError("a text with a NUL")
            return value
        case datetime():
            return value.isoformat()
        case UUID() | Decimal():
            return str(value)
        case _:
            return value
