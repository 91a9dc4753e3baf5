"""chancy with its asyncio executor."""

from __future__ import annotations

import asyncio
import importlib
import json
from typing import Any

import psycopg
from chancy import Chancy, Job, Queue, Worker

from benchmarks.process.business import TABLES
from benchmarks.process.peers.program import bodies, run
from benchmarks.process.peers.psycopg_effects import AsyncEffects

effects: list[AsyncEffects] = []


async def book(*, event: dict[str, Any]) -> None:
    """Have the effect of *event*."""
    await effects[0].book(event)


async def setup(dsn: str, count: int) -> None:
    """Enqueue *count* events."""
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLES)
    async with Chancy(dsn) as chancy:
        await chancy.migrate()
        await chancy.declare(Queue("default"))
        for some in bodies(count):
            jobs = [Job.from_func(book, kwargs={"event": json.loads(body)}) for body in some]
            async for _ in chancy.push_many(jobs):
                pass


async def work(dsn: str, settings: dict[str, Any]) -> None:
    """Be the worker."""
    concurrency = settings["concurrency"]
    effects.append(AsyncEffects(dsn, settings["pool"]))
    queue = Queue("default", concurrency=concurrency, executor=Chancy.Executor.Async, eager_polling=True)
    async with effects[0].pool, Chancy(dsn) as chancy:
        await chancy.declare(queue, upsert=True)
        async with Worker(chancy) as worker:
            await worker.wait_for_shutdown()


if __name__ == "__main__":
    # A job is known by the path of its function, which is not the path of a program.
    itself = importlib.import_module("benchmarks.process.peers.chancy")

    run(
        lambda dsn, count: asyncio.run(itself.setup(dsn, count)),
        lambda dsn, settings: asyncio.run(itself.work(dsn, settings)),
    )
