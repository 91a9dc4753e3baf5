"""This inbox's own worker: the events are received, signed, at the front door, and run by ``webhook-inbox worker``."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

import asyncpg
import psycopg
import uvloop

from benchmarks.harness.events import EVENT_TYPE, SECRET, event_body, signature
from benchmarks.process.business import (
    NUMBERED,
    PERCENT,
    PERCENT_SET,
    TABLES,
    Booking,
    Tally,
    does_business,
    set_params,
)
from benchmarks.process.peers.program import run
from webhook_inbox import Event, Inbox, Tx
from webhook_inbox.drivers.psycopg_sync import PsycopgDriver
from webhook_inbox.endpoint import Endpoint
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.migrate import DEFAULT_SCHEMA, migrate
from webhook_inbox.runtime.database import Database
from webhook_inbox.sources import Stripe

SHAPE_VARIABLE = "BENCHMARK_SHAPE"
#: One event in this many fails, always; 0: none does.
FAILING_VARIABLE = "BENCHMARK_FAILING_ONE_IN"
RECEIVING = 32
_BUSINESS = does_business()
_tally = Tally()


def make_inbox(database: Database | None = None) -> Inbox:
    """Make the inbox with the one endpoint that all events are for."""
    made = Inbox(database)
    _HANDLERS[os.environ.get(SHAPE_VARIABLE, "async")](made.endpoint("stripe", Stripe(SECRET)))
    return made


def _check(event: Event) -> Booking:
    booking = Booking.of(event.payload)
    failing_one_in = int(os.environ.get(FAILING_VARIABLE, "0"))
    if failing_one_in and int(booking.event_id[4:]) % failing_one_in == 0:
        raise ValueError("this event always fails")
    return booking


def _async(endpoint: Endpoint, *, pipeline: bool = False) -> None:
    @endpoint.on(EVENT_TYPE, pipeline=pipeline)
    async def book(tx: Tx[psycopg.AsyncConnection[Any]], event: Event) -> None:
        booking = _check(event)
        if not _BUSINESS:
            _tally.count()
            return
        for statement, params in zip(PERCENT, booking.params, strict=True):
            await tx.conn.execute(statement, params)


def _sync(endpoint: Endpoint, *, pipeline: bool = False) -> None:
    @endpoint.on(EVENT_TYPE, pipeline=pipeline)
    def book(tx: Tx[psycopg.Connection[Any]], event: Event) -> None:
        booking = _check(event)
        if not _BUSINESS:
            _tally.count()
            return
        for statement, params in zip(PERCENT, booking.params, strict=True):
            tx.conn.execute(statement, params)


def _set(endpoint: Endpoint) -> None:
    @endpoint.on_batch(EVENT_TYPE)
    async def book(tx: Tx[psycopg.AsyncConnection[Any]], events: list[Event]) -> None:
        bookings = [_check(event) for event in events]
        if not _BUSINESS:
            for _ in bookings:
                _tally.count()
            return
        for statement, params in zip(PERCENT_SET, set_params(bookings), strict=True):
            await tx.conn.execute(statement, params)


def _asyncpg(endpoint: Endpoint) -> None:
    @endpoint.on(EVENT_TYPE)
    async def book(tx: Tx[Any], event: Event) -> None:
        booking = _check(event)
        if not _BUSINESS:
            _tally.count()
            return
        for statement, params in zip(NUMBERED, booking.params, strict=True):
            await tx.conn.execute(statement, *params)


_HANDLERS: dict[str, Callable[[Endpoint], None]] = {
    "async": _async,
    "async-pipeline": partial(_async, pipeline=True),
    "sync": _sync,
    "sync-pipeline": partial(_sync, pipeline=True),
    "asyncpg": _asyncpg,
    "set": _set,
}


async def _setup(dsn: str, count: int) -> None:
    PsycopgDriver(dsn, settings=Settings()).run(lambda: migrate(DEFAULT_SCHEMA))
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLES)
    receiving = make_inbox(dsn)
    numbers = iter(range(count))

    async def deliver() -> None:
        for number in numbers:
            body = event_body(number)
            headers = (("stripe-signature", signature(body, int(time.time())).decode()),)
            receipt = await receiving.receive("stripe", headers=headers, body=body)
            if receipt.status != HTTPStatus.OK:
                raise RuntimeError(f"event {number} was answered {receipt.status}")

    async with receiving.running():
        await asyncio.gather(*(deliver() for _ in range(RECEIVING)))


def _work(dsn: str, settings: dict[str, Any]) -> None:
    """Be the worker; a setting is the inbox's own, but for ``shape`` and ``failing_one_in``."""
    own = {"shape": SHAPE_VARIABLE, "failing_one_in": FAILING_VARIABLE}
    chosen = {own.get(name, f"WEBHOOK_INBOX_{name.upper()}"): str(value) for name, value in settings.items()}
    os.environ.update(chosen, WEBHOOK_INBOX_DATABASE_URL=dsn)
    if settings["shape"] == "asyncpg":
        uvloop.run(_work_on_asyncpg(dsn, Settings.from_environment().connections_max))
        return
    command = ["-m", "webhook_inbox", "worker", f"{__spec__.name}:inbox", "--log-level", "error"]
    os.execv(sys.executable, [sys.executable, *command])  # noqa: S606 - our own interpreter


async def _work_on_asyncpg(dsn: str, connections: int) -> None:
    """Work in a program of the user's own, which has a pool and a loop already."""
    logging.basicConfig(level=logging.ERROR)
    async with asyncpg.create_pool(dsn, min_size=connections, max_size=connections) as pool:
        await make_inbox(pool).work()


if __name__ == "__main__":
    run(lambda dsn, count: asyncio.run(_setup(dsn, count)), _work)
else:
    inbox = make_inbox()
