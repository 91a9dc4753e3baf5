"""
Lend a thread its own Django connection, inside ``transaction.atomic``.

A handler uses the ORM, ``atomic()`` and ``on_commit`` as in any view. What is ours runs on the psycopg connection
beneath Django's; Django's own account of the transaction is kept in step with ``Atomic`` blocks, so that its savepoints
and its hooks end as ours do:

    begin        atomic(durable=True) is entered
    savepoint    atomic() is entered; left well or with an error, which also drops its on_commit hooks
    commit       COMMIT on the wire, its tag believed; then the outer block is left, and the hooks are kept
    give back    the hooks of what was committed run, in autocommit mode, as Django runs them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from django.db import Error as DjangoError, connections, transaction
from django.db.transaction import TransactionManagementError
from psycopg_pool import PoolTimeout

from webhook_inbox.drivers.django_database import Django
from webhook_inbox.drivers.failures import store_error
from webhook_inbox.drivers.libpq_parts import dsn_of_parts
from webhook_inbox.drivers.psycopg_settings import pool_exhausted
from webhook_inbox.drivers.psycopg_wire import PsycopgWire
from webhook_inbox.drivers.waiting import Doing
from webhook_inbox.drivers.wire import Loan
from webhook_inbox.errors import ConfigurationError, StatementError, TransactionEndedError
from webhook_inbox.model.failure import describe
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.steps import Params, Row
from webhook_inbox.sql.statements import Statement
from webhook_inbox.telemetry import events

_POOL_CONNECTIONS = 4  # of psycopg_pool, where Django's OPTIONS["pool"] does not say
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
        with _unwrapped():
            block.__enter__()
        self._blocks.append(block)

    def _leave_block(self, *, undo: bool) -> None:
        block = self._blocks.pop()
        with _unwrapped():
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


class DjangoLoan(Loan):
    """Hold the thread's own connection while one plan has it."""

    def __init__(self, connection: Any, wire: DjangoWire, *, opened_here: bool) -> None:  # noqa: ANN401 - Django has no types
        self.conn = connection
        self.wire: DjangoWire = wire
        self._opened_here = opened_here

    def misuse(self, raised: BaseException) -> str | None:
        """Know Django's refusal to end the block, or to go on after an error that the handler has swallowed."""
        if isinstance(raised, TransactionManagementError):
            return "tried to end the transaction it was given, or swallowed a database error and went on"
        return None

    def give_back(self) -> Doing[None]:
        """Run the hooks of what was committed; keep the connection as long as ``CONN_MAX_AGE`` says."""
        for hook in self.wire.hooks:
            try:
                hook()
            except Exception as error:  # noqa: BLE001 - what was committed is committed
                events.COMMIT_HOOK_FAILED.log(describe(error))
        # A request of Django's own closes its connection when it ends; nobody does so for a thread of ours.
        if self._opened_here and self.conn.settings_dict["CONN_MAX_AGE"] == 0:
            self.conn.close()
        yield from ()

    def abandon(self) -> None:
        """Close it beneath Django: its thread finds it closed, should it come back."""
        self.wire.cut()


class DjangoLender:
    """
    Lend each thread its own connection to *database*.

    Raises:
        ConfigurationError: There is no such database in ``DATABASES``, or it is not PostgreSQL by psycopg 3.
    """

    def __init__(self, database: Django, *, settings: Settings) -> None:
        self._alias = database.alias
        self._testcase = database.testcase
        self._settings = settings
        if self._alias not in connections.databases:
            raise ConfigurationError(f"Django({self._alias!r}): settings.DATABASES has no such entry")
        if connections[self._alias].vendor != "postgresql" or not self._is_psycopg():
            raise ConfigurationError(
                f"Django({self._alias!r}): it is not PostgreSQL by psycopg 3; set ENGINE to "
                "django.db.backends.postgresql"
            )

    def _is_psycopg(self) -> bool:
        return bool(connections[self._alias].Database.__name__ == "psycopg")

    @property
    def connections_max(self) -> int | None:
        """Give the size of Django's own pool; None where each thread has a connection of its own."""
        pool = connections[self._alias].settings_dict["OPTIONS"].get("pool")
        if not pool:
            return None
        return int((pool.get("max_size") if isinstance(pool, dict) else None) or _POOL_CONNECTIONS)

    def dsn(self) -> str | None:
        """Give what Django connects to now: a test runner renames its database."""
        return dsn_of_parts(None, connections[self._alias].get_connection_params())

    def lend(self) -> Doing[Loan]:
        """Lend this thread its connection; see ``Lender.lend``."""
        connection = connections[self._alias]
        self._check(connection)
        if connection.connection is not None and connection.connection.closed:
            connection.close()
        opened_here = connection.connection is None
        try:
            with _unwrapped():
                connection.ensure_connection()
        except PoolTimeout as error:
            raise pool_exhausted(self._settings) from error
        except psycopg.Error as error:
            raise store_error(error, broken=True) from error
        wire = (TestCaseWire if self._testcase else DjangoWire)(connection)
        yield from ()
        return DjangoLoan(connection, wire, opened_here=opened_here)

    def _check(self, connection: Any) -> None:  # noqa: ANN401 - Django has no types
        if self._testcase != connection.in_atomic_block:
            raise ConfigurationError(
                f"Django({self._alias!r}, testcase=True) runs in the transaction of a TestCase, on the test's own "
                "thread: there is none"
                if self._testcase
                else f"Django({self._alias!r}): this thread is within atomic() already, so that nothing could be "
                "committed; mark the view with @transaction.non_atomic_requests where ATOMIC_REQUESTS is on, and in "
                "a TestCase use a TransactionTestCase or Django(..., testcase=True)"
            )
        if not connection.settings_dict["AUTOCOMMIT"]:
            raise ConfigurationError(f"Django({self._alias!r}): AUTOCOMMIT is off in settings.DATABASES")

    def forget_idle(self) -> Doing[None]:
        """Empty Django's own pool where it has one; other threads find out by themselves."""
        if pool := getattr(connections[self._alias], "pool", None):  # Django 4.2 and 5.0 have none
            pool.drain()
        yield from ()

    def close(self) -> Doing[None]:
        """Close nothing: the connections are Django's."""
        yield from ()


@contextmanager
def _unwrapped() -> Iterator[None]:
    """Raise psycopg's error in place of Django's around it."""
    try:
        yield
    except DjangoError as error:
        if isinstance(error.__cause__, psycopg.Error):
            raise error.__cause__ from None
        raise
