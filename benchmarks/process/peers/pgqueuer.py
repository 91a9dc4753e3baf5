"""
PgQueuer on asyncpg and uvloop.

With the setting ``threads`` its handler is a ``def``: it takes no such function itself, and tells whoever registers one
to hand it to a thread. That one uses psycopg, since asyncpg has nothing for threads.
"""

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
from psycopg_pool import ConnectionPool

from benchmarks.process.business import NUMBERED, PERCENT, TABLES, Booking, Tally, does_business
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
    tally = Tally()
    connection = await asyncpg.connect(dsn)
    queue = PgQueuer(AsyncpgDriver(connection))
    if not does_business():

        @queue.entrypoint("book")
        async def run(job: Job) -> None:
            json.loads(job.payload)
            tally.count()

    elif settings.get("threads"):
        _on_threads(queue, dsn, settings["pool"])
    else:
        await _on_loop(queue, dsn, settings["pool"])
    await queue.run(batch_size=settings["batch"], dequeue_timeout=timedelta(seconds=30))


async def _on_loop(queue: PgQueuer, dsn: str, connections: int) -> None:
    pool = await asyncpg.create_pool(dsn, min_size=connections, max_size=connections)

    @queue.entrypoint("book")
    async def book(job: Job) -> None:
        booking = Booking.of(json.loads(job.payload))
        async with pool.acquire() as held, held.transaction():
            for statement, params in zip(NUMBERED, booking.params, strict=True):
                await held.execute(statement, *params)


def _on_threads(queue: PgQueuer, dsn: str, connections: int) -> None:
    pool = ConnectionPool(dsn, min_size=connections, max_size=connections, open=True)

    def book(payload: bytes) -> None:
        booking = Booking.of(json.loads(payload))
        with pool.connection() as held:
            for statement, params in zip(PERCENT, booking.params, strict=True):
                held.execute(statement, params)

    @queue.entrypoint("book")
    async def handed_on(job: Job) -> None:
        await asyncio.to_thread(book, job.payload)


if __name__ == "__main__":
    run(
        lambda dsn, count: asyncio.run(_setup(dsn, count)),
        lambda dsn, settings: uvloop.run(_work(dsn, settings)),
    )
