"""Oban for Python, on uvloop as its own command line runs it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import oban
import uvloop
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from benchmarks.process.business import TABLES
from benchmarks.process.peers.program import bodies, run
from benchmarks.process.peers.psycopg_effects import AsyncEffects

_effects: list[AsyncEffects] = []


@oban.worker(queue="events")
class Book:
    """Have the effect of one event."""

    async def process(self, job: oban.Job) -> None:
        """Run *job*."""
        await _effects[0].book(job.args)


async def _setup(dsn: str, count: int) -> None:
    async with AsyncConnectionPool(dsn, min_size=1, max_size=4) as pool:
        async with pool.connection() as held:
            await held.execute(TABLES)
        await install(pool)
        client = oban.Oban(pool=pool)
        for some in bodies(count):
            await client.enqueue_many(Book.new(json.loads(body)) for body in some)


async def _work(dsn: str, settings: dict[str, Any]) -> None:
    limit = settings["limit"]
    _effects.append(AsyncEffects(dsn, limit))
    async with (
        _effects[0].pool,
        AsyncConnectionPool(dsn, min_size=4, max_size=settings["pool"]) as pool,
        oban.Oban(pool=pool, queues={"events": limit}),
    ):
        await asyncio.Event().wait()


if __name__ == "__main__":
    run(
        lambda dsn, count: asyncio.run(_setup(dsn, count)),
        lambda dsn, settings: uvloop.run(_work(dsn, settings)),
    )
