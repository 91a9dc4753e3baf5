"""PgQueuer on asyncpg and uvloop."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from benchmarks.process.business import NUMBERED, TABLES, Booking, Tally, does_business
from benchmarks.process.peers.program import bodies, run


async def _setup(dsn: str, count: int) -> None:
    connection = await asyncpg.connect(dsn)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    await connection.execute(TABLES)
    for some in bodies(count):
        await queries.enqueue(["book"] * len(some), list(some), [0] * len(some))
    await connection.close()


async def _work(dsn: str, settings: dict[str, Any]) -> None:
    connection = await asyncpg.connect(dsn)
    pool = await asyncpg.create_pool(dsn, min_size=settings["pool"], max_size=settings["pool"])
    queue = PgQueuer(AsyncpgDriver(connection))
    tally, business = Tally(), does_business()

    @queue.entrypoint("book")
    async def book(job: Job) -> None:
        event = json.loads(job.payload)
        if not business:
            tally.count()
            return
        async with pool.acquire() as held, held.transaction():
            for statement, params in zip(NUMBERED, Booking.of(event).params, strict=True):
                await held.execute(statement, *params)

    await queue.run(batch_size=settings["batch"], dequeue_timeout=timedelta(seconds=30))


if __name__ == "__main__":
    run(
        lambda dsn, count: asyncio.run(_setup(dsn, count)),
        lambda dsn, settings: uvloop.run(_work(dsn, settings)),
    )
