"""
Speak SQL beneath one of Django's connections, and keep Django's own account of the transaction.

What is ours runs on the psycopg connection beneath; Django's blocks are entered and left in step with it, so that its
savepoints and its hooks end as ours do:

    begin        atomic(durable=True) is entered
    savepoint    atomic() is entered; left well, or as after an error, which also drops its on_commit hooks
    commit       COMMIT on the wire, its tag believed; then the outer block is left, and the hooks are kept
    give back    the hooks of what was committed run, in autocommit mode, as Django runs them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from django.db import Error as DjangoError, connections, transaction

from webhook_inbox.drivers.psycopg_wire import PsycopgWire
from webhook_inbox.drivers.waiting import Doing
from webhook_inbox.errors import StatementError, TransactionEndedError
from webhook_inbox.protocol.steps import Params, Row
from webhook_inbox.sql.statements import Statement

_NO_SAVEPOINT = "3B001"


class DjangoWire(PsycopgWire):
    """
    Speak SQL beneath one of Django's connections, and keep Django's account of its transaction.

    Attributes:
        hooks: What handlers gave to ``on_commit`` and was committed.
    """

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - Django has no types
        super().__init__(connection.connection)
        self._connection = connection
        self._blocks: list[Any] = []
        self.hooks: list[Callable[[], object]] = []

    @property
    def closed(self) -> bool:
        """Say whether the connection is unusable, or Django has given it back to its pool."""
        return super().closed or self._connection.connection is not self.raw

    def begin(self, statement: Statement, params: Params) -> Doing[Row | None]:
        """Enter the outer block, and open the transaction with *statement*."""
        self._enter_block(durable=True)
        return (yield from super().begin(statement, params))

    def savepoint(self) -> Doing[None]:
        """Enter an inner block."""
        self._enter_block(durable=False)
        yield from ()

    def rollback_to(self) -> Doing[None]:
        """Leave the inner block as after an error."""
        self._leave_block(undo=True)
        if self._connection.needs_rollback:  # what Django says of a savepoint that is gone
            raise StatementError("the savepoint is gone", sqlstate=_NO_SAVEPOINT)
        yield from ()

    def release(self) -> Doing[None]:
        """Leave the inner block well."""
        self._leave_block(undo=False)
        yield from ()

    def commit(self) -> Doing[None]:
        """Commit on the wire, and leave the outer block, in which Django finds nothing left to commit."""
        if self._connection.needs_rollback or len(self._blocks) != 1:
            raise TransactionEndedError("there is no healthy transaction to commit")
        yield from super().commit()
        hooks, self._connection.run_on_commit = self._connection.run_on_commit, []
        self.hooks += [hook for _, hook, _ in hooks]
        self._leave_block(undo=False)

    def rollback(self) -> Doing[None]:
        """Leave every block as after an error."""
        while self._blocks:
            self._leave_block(undo=True)
        yield from ()

    def ended(self) -> str | None:
        """Say what a handler did to the transaction, through Django or past it."""
        connection = self._connection
        if what := super().ended():
            return what
        if self.closed and not self.broken:
            return "closed the connection it was given"
        if connection.needs_rollback:
            return "swallowed a database error, or called set_rollback(True)"
        if not connection.in_atomic_block or connection.atomic_blocks[-1:] != self._blocks[-1:]:
            return "left an atomic() block open, or ended one that was not its own"
        return None

    def leave(self) -> Doing[None]:
        """Leave what blocks are open; see ``Wire.leave``."""
        connection = self._connection
        if self.closed:
            connection.close()  # within a block: Django then leaves the rollback to the server
        with suppress(DjangoError, psycopg.Error):
            yield from self.rollback()
        if (
            connection.in_atomic_block
        ):  # a block that the handler has left open would be this thread's for ever
            yield from self.close()
            connection.close()
            del connections[connection.alias]
        elif not self.closed:
            yield from super().leave()
        if self.closed:
            connection.close()

    def close(self) -> Doing[None]:
        """Close the connection, if it is still this thread's."""
        if not self.closed:
            yield from super().close()

    def _enter_block(self, *, durable: bool) -> None:
        block = transaction.atomic(using=self._connection.alias, durable=durable)
        with unwrapped():
            block.__enter__()
        self._blocks.append(block)

    def _leave_block(self, *, undo: bool) -> None:
        block = self._blocks.pop()
        with unwrapped():
            if undo:
                block.__exit__(RuntimeError, RuntimeError(), None)
            else:
                block.__exit__(None, None, None)


class TestCaseWire(DjangoWire):
    """Run plans as savepoints of the transaction that a ``TestCase`` has opened; nothing is committed."""

    __test__ = False  # no test, for pytest

    def enter(self) -> Doing[None]:
        """Leave the connection as the test has it."""
        yield from ()

    def leave(self) -> Doing[None]:
        """Undo what is not committed, of this plan alone."""
        yield from self.rollback()

    def begin(self, statement: Statement, params: Params) -> Doing[Row | None]:
        """Enter a block within the test's, which is a savepoint."""
        self._enter_block(durable=False)
        return next(iter((yield from self.rows(statement, params))), None)

    def commit(self) -> Doing[None]:
        """Leave the block; the hooks stay with the test's transaction (``captureOnCommitCallbacks``)."""
        if self._connection.needs_rollback or len(self._blocks) != 1:
            raise TransactionEndedError("there is no healthy transaction to commit")
        yield from self.release()


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise psycopg's error in place of Django's around it."""
    try:
        yield
    except DjangoError as error:
        if isinstance(error.__cause__, psycopg.Error):
            raise error.__cause__ from None
        raise
