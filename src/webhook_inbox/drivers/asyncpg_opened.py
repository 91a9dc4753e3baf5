"""
Open an asyncpg pool where the first connection is wanted, and close it with the driver.

A pool of asyncpg's lives on one event loop, so a module that is imported before there is one cannot hold it. It can
hold what opens it: ``Inbox(partial(asyncpg.create_pool, dsn))``.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import asyncpg

from webhook_inbox.drivers.asyncpg_pool import AsyncpgLender
from webhook_inbox.drivers.failures import store_error
from webhook_inbox.drivers.libpq_parts import dsn_of_parts
from webhook_inbox.drivers.waiting import Doing
from webhook_inbox.drivers.wire import Loan
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.model.failure import describe
from webhook_inbox.model.settings import Settings

_CONNECTIONS = 10  # of asyncpg, where max_size does not say
_CLOSE_SECONDS_MAX = 5.0


class OpenedLender(AsyncpgLender):
    """
    Lend connections of a pool of our own.

    Args:
        opens: ``asyncpg.create_pool`` with its arguments.
        settings: How long to wait for a connection.
    """

    def __init__(self, opens: partial[Any], *, settings: Settings) -> None:
        super().__init__(None, settings=settings)
        self._opens = opens
        self._opening: asyncio.Task[Any] | None = None

    @property
    def connections_max(self) -> int:
        """Give how many connections the pool may have."""
        return int(self._opens.keywords.get("max_size", _CONNECTIONS))

    def dsn(self) -> str | None:
        """Give what the pool connects to; None where libpq cannot be told."""
        given = {"dsn": next(iter(self._opens.args), None), **self._opens.keywords}
        return dsn_of_parts(given.pop("dsn"), given)

    def lend(self) -> Doing[Loan]:
        """Lend a free connection, of a pool that is open by then; see ``Lender.lend``."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        opening = self._opening
        try:
            # Others may wait for it too: who is cancelled leaves it to them.
            self._pool = yield asyncio.shield(opening)
        except Exception as error:
            if self._opening is opening:
                self._opening = None
            if isinstance(error, asyncpg.PostgresError | asyncpg.InterfaceError | OSError):
                raise store_error(error, broken=True) from error
            # The user's init, setup or reset; what was away for a moment there must not be kept as the pool.
            raise StoreUnavailableError(f"the pool could not be opened: {describe(error)}") from error
        return (yield from super().lend())

    async def _open(self) -> Any:  # noqa: ANN401 - asyncpg has no types
        return await self._opens()

    def close(self) -> Doing[None]:
        """Close the pool, and let the next connection open another: maybe on another event loop."""
        opening, self._opening = self._opening, None
        if opening is not None:
            yield _closed(opening)


async def _closed(opening: asyncio.Task[Any]) -> None:
    if not opening.done():
        opening.cancel()
    await asyncio.wait({opening})
    if opening.cancelled() or opening.exception() is not None:
        return
    try:
        async with asyncio.timeout(_CLOSE_SECONDS_MAX):
            await opening.result().close()
    except TimeoutError:
        opening.result().terminate()
