"""Lend connections of an asyncpg pool that the user gave."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import asyncpg

from webhook_inbox.drivers.asyncpg_wire import AsyncpgWire, EndedError, InTransaction
from webhook_inbox.drivers.failures import store_error
from webhook_inbox.drivers.libpq_parts import dsn_of_parts
from webhook_inbox.drivers.psycopg_settings import pool_exhausted
from webhook_inbox.drivers.unawaited import Unawaited
from webhook_inbox.drivers.waiting import Doing
from webhook_inbox.drivers.wire import Loan
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.model.settings import Settings


class AsyncpgLoan(Loan):
    """Hold a connection of *pool* while one plan has it."""

    def __init__(self, pool: Any, conn: Any) -> None:  # noqa: ANN401 - asyncpg has no types
        self._pool = pool
        self._lent = conn
        self.wire = AsyncpgWire(conn)
        self._unawaited = Unawaited()
        self.conn = InTransaction(conn, self.wire, self._unawaited)

    def misuse(self, raised: BaseException) -> str | None:
        """Know our refusal to run what would be committed by itself."""
        return "ended the transaction it was given, and went on" if isinstance(raised, EndedError) else None

    def check_awaited(self, handler: str) -> None:
        """Look at what our stand-in has made."""
        self._unawaited.check(handler)

    def give_back(self) -> Doing[None]:
        """Release it; the pool resets the session, or replaces one that is closed."""
        with suppress(*self.wire.errors):  # of a reset that failed: the pool has closed the connection
            yield self._pool.release(self._lent)

    def abandon(self) -> None:
        """Do nothing: a handler on an event loop is never left to itself."""


class AsyncpgLender:
    """
    Lend connections of *pool*, an open ``asyncpg.Pool``.

    Args:
        settings: How long to wait for one.
    """

    def __init__(self, pool: Any, *, settings: Settings) -> None:  # noqa: ANN401 - asyncpg has no types
        self._pool = pool
        self._settings = settings

    def dsn(self) -> str | None:
        """Give what the pool connects to; None where libpq cannot be told, or asyncpg no longer says."""
        arguments = getattr(self._pool, "_connect_args", ())
        parts: object = getattr(self._pool, "_connect_kwargs", None)
        if not isinstance(parts, Mapping):
            return None
        return dsn_of_parts(arguments[0] if arguments else None, parts)

    def lend(self) -> Doing[Loan]:
        """Lend a free connection; see ``Lender.lend``."""
        try:
            conn = yield self._pool.acquire(timeout=self._settings.connection_wait_seconds)
        except TimeoutError as error:
            raise pool_exhausted(self._settings) from error
        except asyncpg.InterfaceError as error:
            raise StoreUnavailableError("the connection pool is closed, or was never opened") from error
        except (asyncpg.PostgresError, OSError) as error:
            raise store_error(error, broken=True) from error
        return AsyncpgLoan(self._pool, conn)

    def forget_idle(self) -> Doing[None]:
        """Have the pool replace every connection before it is used again."""
        yield self._pool.expire_connections()

    def close(self) -> Doing[None]:
        """Close nothing: the pool is the user's."""
        yield from ()
