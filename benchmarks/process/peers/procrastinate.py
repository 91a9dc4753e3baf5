"""procrastinate with its asynchronous psycopg connector."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import procrastinate
import psycopg

from benchmarks.process.business import TABLES
from benchmarks.process.peers.program import bodies, run
from benchmarks.process.peers.psycopg_effects import AsyncEffects


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
    effects = AsyncEffects(dsn, settings["concurrency"])

    @app.task(name="book")
    async def book(event: dict[str, Any]) -> None:
        await effects.book(event)

    async with effects.pool, app.open_async():
        await app.run_worker_async(concurrency=settings["concurrency"], listen_notify=True)


if __name__ == "__main__":
    run(
        lambda dsn, count: asyncio.run(_setup(dsn, count)),
        lambda dsn, settings: asyncio.run(_work(dsn, settings)),
    )
