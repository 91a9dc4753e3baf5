"""Speak SQL on one of psycopg's connections, of either kind: one that a SQLAlchemy engine or Django has opened."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from webhook_inbox.drivers.psycopg_state import Connection, check_lent, lost, unfit, what_ended
from webhook_inbox.drivers.standby import confirmed_by_standby
from webhook_inbox.drivers.waiting import Doing
from webhook_inbox.drivers.wire import Wire
from webhook_inbox.errors import TransactionEndedError
from webhook_inbox.protocol.steps import Params, Row
from webhook_inbox.sql.statements import Statement


class PsycopgWire(Wire):
    """
    Speak SQL on a psycopg connection.

    Args:
        raw: Of either kind; its row factory and cursor factory do not matter. How its owner has set it, it is again
            when the plan ends.
    """

    errors = (psycopg.Error,)

    def __init__(self, raw: Connection) -> None:
        self.raw: Any = raw  # what either kind gives is waited for, or not, by the doing
        self._cursor: Any = (
            psycopg.AsyncCursor if isinstance(raw, psycopg.AsyncConnection) else psycopg.Cursor
        )
        self._owners: tuple[Any, ...] | None = None

    @property
    def closed(self) -> bool:
        """Say whether the connection is unusable."""
        return bool(self.raw.closed)

    @property
    def broken(self) -> bool:
        """Say whether it was lost, rather than closed from this side."""
        return bool(self.raw.broken)

    def fileno(self) -> int:
        """Give the number of its socket."""
        return int(self.raw.fileno())

    def lost(self, error: BaseException) -> bool:
        """Say whether *error* is that of a connection that cannot go on."""
        return isinstance(error, psycopg.Error) and lost(self.raw, error)

    def ended(self) -> str | None:
        """Say what a handler did to the transaction; see ``Wire.ended``."""
        return what_ended(self.raw)

    def enter(self) -> Doing[None]:
        """Run in READ COMMITTED, with every statement inside a transaction."""
        raw = self.raw
        check_lent(raw)
        self._owners = (raw.autocommit, raw.isolation_level, raw.row_factory, raw.cursor_factory)
        yield from self._set_mode(autocommit=False, isolation_level=IsolationLevel.READ_COMMITTED)

    def begin(self, statement: Statement, params: Params) -> Doing[Row | None]:
        """Run *statement* as the first of a transaction, which psycopg opens for it."""
        cursor = yield from self._execute(statement.text, params)
        row: Row | None = yield cursor.fetchone()
        return row

    def rows(self, statement: Statement, params: Params) -> Doing[list[Row]]:
        """Run one of our statements, and give its rows."""
        cursor = yield from self._execute(statement.text, params)
        found: list[Row] = yield cursor.fetchall()
        return found

    def script(self, text: str) -> Doing[None]:
        """Run several statements that have neither parameters nor a result."""
        yield from self._execute(text, None)

    def commit(self) -> Doing[None]:
        """Commit; see ``Wire.commit``."""
        # psycopg would open a transaction for the COMMIT if there were none, and the server would confirm that one.
        # A pipeline of the handler's that is still open would hold the server's answer back.
        if unfit(self.raw) or self.raw.info.transaction_status is not TransactionStatus.INTRANS:
            raise TransactionEndedError("there is no healthy transaction to commit")
        with confirmed_by_standby(self.raw):
            cursor = yield from self._execute("COMMIT", None)
        if cursor.statusmessage != "COMMIT":
            raise TransactionEndedError(f"the server answered {cursor.statusmessage} to COMMIT")

    def rollback(self) -> Doing[None]:
        """Roll back."""
        yield from self._execute("ROLLBACK", None)

    def leave(self) -> Doing[None]:
        """Give the connection its owner's ways back; see ``Wire.leave``."""
        raw = self.raw
        if self._owners is None:  # it was never ours
            return
        autocommit, isolation_level, raw.row_factory, raw.cursor_factory = self._owners
        if raw.closed:
            return
        try:
            if raw.info.transaction_status is not TransactionStatus.IDLE:
                yield from self.rollback()
            if not unfit(raw):
                yield from self._set_mode(autocommit=autocommit, isolation_level=isolation_level)
        except psycopg.Error:
            yield raw.close()
        if unfit(raw):
            yield raw.close()

    def close(self) -> Doing[None]:
        """Close the connection."""
        yield self.raw.close()

    def cut(self) -> None:
        """Close it from another thread: one of psycopg's does not mind."""
        self.raw.close()

    def _execute(self, text: str, params: Params | None) -> Doing[Any]:
        # The text is one of our files, with a quoted schema name: data is never put into it.
        return (yield self._cursor(self.raw, row_factory=tuple_row).execute(text, params))

    def _set_mode(self, *, autocommit: bool, isolation_level: IsolationLevel | None) -> Doing[None]:
        if self.raw.autocommit != autocommit:
            yield self.raw.set_autocommit(autocommit)
        if self.raw.isolation_level != isolation_level:
            yield self.raw.set_isolation_level(isolation_level)
