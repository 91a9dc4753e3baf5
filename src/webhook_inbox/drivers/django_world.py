"""
Lend a thread its own Django connection, inside ``transaction.atomic``.

A handler uses the ORM, ``atomic()`` and ``on_commit`` as in any view; see ``django_wire`` for how that is kept in step.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import psycopg
from django.db import connections
from django.db.transaction import TransactionManagementError
from psycopg_pool import PoolTimeout

from webhook_inbox.drivers.django_database import Django
from webhook_inbox.drivers.django_wire import DjangoWire, TestCaseWire, unwrapped
from webhook_inbox.drivers.failures import store_error
from webhook_inbox.drivers.libpq_parts import dsn_of_parts
from webhook_inbox.drivers.psycopg_settings import pool_exhausted
from webhook_inbox.drivers.waiting import Doing
from webhook_inbox.drivers.wire import Loan
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.failure import describe
from webhook_inbox.model.settings import Settings
from webhook_inbox.telemetry import events

_POOL_CONNECTIONS = 4  # of psycopg_pool, where Django's OPTIONS["pool"] does not say


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
        # A request of Django's own sees to the connection that it has opened; to one of ours nobody does.
        if self._opened_here:
            self.conn.close_if_unusable_or_obsolete()
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
        self._opened: WeakSet[Any] = WeakSet()
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
        opens = connection.connection is None
        try:
            with unwrapped():
                connection.ensure_connection()
        except PoolTimeout as error:
            raise pool_exhausted(self._settings) from error
        except psycopg.Error as error:
            raise store_error(error, broken=True) from error
        wire = (TestCaseWire if self._testcase else DjangoWire)(connection)
        if opens:
            self._opened.add(wire.raw)
        yield from ()
        return DjangoLoan(connection, wire, opened_here=wire.raw in self._opened)

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
