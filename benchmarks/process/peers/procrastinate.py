"""procrastinate with its asynchronous psycopg connector."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import procrastinate
import psycopg
from psycopg_pool import AsyncConnectionPool

from benchmarks.process.business import PERCENT, TABLES, Booking, Tally, does_business
from benchmarks.process.peers.program import bodies, run


async def _setup(dsn: str, count: int) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLES)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for some in bodies(count):
            deferrer = app.configure_task("book", allow_unknown=True)
            await deferrer.batch_defer_async(*({"event": json.loads(body)} for body in some))


async def _work(dsn: str, settings: dict[str, Any]) -> None:
    connector = procrastinate.PsycopgConnector(conninfo=dsn, min_size=4, max_size=settings["pool"])
    app = procrastinate.App(connector=connector)
    size = settings["concurrency"]
    tally, business = Tally(), does_business()
    async with AsyncConnectionPool(dsn, min_size=size, max_size=size) as pool, app.open_async():

        @app.task(name="book")
        async def book(event: dict[str, Any]) -> None:
            if not business:
                tally.count()
                return
            async with pool.connection() as held:
                for statement, params in zip(PERCENT, Booking.of(event).params, strict=True):
                    await held.execute(statement, params)

        await app.run_worker_async(concurrency=size, listen_notify=True)


if __name__ == "__main__":
    run(
        lambda dsn, count: asyncio.run(_setup(dsn, count)),
        lambda dsn, settings: asyncio.run(_work(dsn, settings)),
    )
