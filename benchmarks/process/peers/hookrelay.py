"""hookrelay's worker on its PostgreSQL backend."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
import uvloop
from hookrelay import WebhookEvent, Worker
from hookrelay.backends.postgres import PostgresBackend
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.process.business import NUMBERED, TABLES, Booking, Tally, does_business
from benchmarks.process.peers.program import bodies, run

_ENQUEUING = 16


def _engine(dsn: str, connections: int) -> AsyncEngine:
    url = dsn.replace("postgresql://", "postgresql+asyncpg://")
    return create_async_engine(url, pool_size=connections, max_overflow=0)


async def _setup(dsn: str, count: int) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(TABLES)
    await connection.close()
    backend = PostgresBackend(_engine(dsn, _ENQUEUING))
    await backend.init_schema()
    remaining = (body for some in bodies(count) for body in some)

    async def enqueue() -> None:
        for body in remaining:
            event = json.loads(body)
            await backend.enqueue(WebhookEvent(source="stripe", payload=event, idempotency_key=event["id"]))

    await asyncio.gather(*(enqueue() for _ in range(_ENQUEUING)))


async def _work(dsn: str, settings: dict[str, Any]) -> None:
    concurrency = settings["concurrency"]
    pool = await asyncpg.create_pool(dsn, min_size=concurrency, max_size=concurrency)
    backend = PostgresBackend(_engine(dsn, concurrency))
    tally, business = Tally(), does_business()

    async def book(event: WebhookEvent) -> None:
        if not business:
            tally.count()
            return
        async with pool.acquire() as held, held.transaction():
            for statement, params in zip(NUMBERED, Booking.of(event.payload).params, strict=True):
                await held.execute(statement, *params)

    await Worker(backend, book, batch_size=settings["batch"], concurrency=concurrency).run_forever()


if __name__ == "__main__":
    run(
        lambda dsn, count: asyncio.run(_setup(dsn, count)),
        lambda dsn, settings: uvloop.run(_work(dsn, settings)),
    )
