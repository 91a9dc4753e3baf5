"""Celery on Redis, prefork, acknowledged late."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import psycopg
from celery import Celery

from benchmarks.process.business import TABLES
from benchmarks.process.peers.program import bodies, run
from benchmarks.process.peers.psycopg_effects import Effects

_DSN = "BENCHMARK_DSN"
app = Celery("benchmark", broker=os.environ["BENCHMARK_REDIS"])
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    worker_hijack_root_logger=False,
)
_effects = Effects(os.environ.get(_DSN, ""))


@app.task(name="book")
def book(event: dict[str, Any]) -> None:
    """Have the effect of *event*."""
    _effects.book(event)


def setup(dsn: str, count: int) -> None:
    """Enqueue *count* events."""
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLES)
    with app.producer_or_acquire() as producer:
        for some in bodies(count):
            for body in some:
                book.apply_async((json.loads(body),), producer=producer)


def work(dsn: str, settings: dict[str, Any]) -> None:
    """Become the worker."""
    command = [
        sys.executable, "-m", "celery", "-A", "benchmarks.process.peers.celery", "worker", "--loglevel", "warning",
        "--pool", "prefork", "--concurrency", str(settings["concurrency"]),
        "--prefetch-multiplier", str(settings["prefetch"]),
        "--without-gossip", "--without-mingle", "--without-heartbeat",
    ]  # fmt: skip
    os.execve(sys.executable, command, {**os.environ, _DSN: dsn})  # noqa: S606 - our own interpreter


if __name__ == "__main__":
    run(setup, work)
