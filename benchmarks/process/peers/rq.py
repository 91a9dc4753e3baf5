"""RQ's SimpleWorker, which runs jobs in its own process; its default forks for each."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

import psycopg
from redis import Redis
from rq import Queue, SimpleWorker

from benchmarks.process.business import TABLES
from benchmarks.process.peers.program import bodies, run
from benchmarks.process.peers.psycopg_effects import Effects

effects: list[Effects] = []


def book(event: dict[str, Any]) -> None:
    """Have the effect of *event*."""
    effects[0].book(event)


def _queue() -> Queue:
    return Queue("events", connection=Redis.from_url(os.environ["BENCHMARK_REDIS"]))


def setup(dsn: str, count: int) -> None:
    """Enqueue *count* events."""
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLES)
    queue = _queue()
    for some in bodies(count):
        queue.enqueue_many(
            [Queue.prepare_data(book, args=(json.loads(body),), result_ttl=0) for body in some]
        )


def work(dsn: str, _settings: dict[str, Any]) -> None:
    """Be the worker."""
    effects.append(Effects(dsn))
    queue = _queue()
    SimpleWorker([queue], connection=queue.connection).work(logging_level="WARNING")


if __name__ == "__main__":
    # A job is known by the path of its function, which is not the path of a program.
    itself = importlib.import_module("benchmarks.process.peers.rq")

    run(itself.setup, itself.work)
