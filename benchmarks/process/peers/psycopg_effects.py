"""Have the effect on psycopg: what a careful user of a queue without a driver of its own writes."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg_pool import AsyncConnectionPool

from benchmarks.process.business import PERCENT, Booking, Tally, does_business

_tally = Tally()
_BUSINESS = does_business()


class AsyncEffects:
    """Book events on connections of a pool of our own; one transaction each."""

    def __init__(self, dsn: str, connections: int) -> None:
        self.pool = AsyncConnectionPool(dsn, min_size=connections, max_size=connections, open=False)

    async def book(self, event: dict[str, Any]) -> None:
        """Have the effect of *event*."""
        if not _BUSINESS:
            _tally.count()
            return
        async with self.pool.connection() as held:
            for statement, params in zip(PERCENT, Booking.of(event).params, strict=True):
                await held.execute(statement, params)


class Effects:
    """Book events on one connection, opened when it is first needed: after the fork of a worker that forks."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: psycopg.Connection[Any] | None = None

    def book(self, event: dict[str, Any]) -> None:
        """Have the effect of *event*."""
        if not _BUSINESS:
            _tally.count()
            return
        if self._connection is None:
            self._connection = psycopg.connect(self._dsn, autocommit=True)
        with self._connection.transaction():
            for statement, params in zip(PERCENT, Booking.of(event).params, strict=True):
                self._connection.execute(statement, params)
