"""Bring events into a database through the front door, and have a worker run them; all in this process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from http import HTTPStatus

from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.events import EVENT_TYPE, SECRET, event_body, signature
from webhook_inbox import Event, Inbox, Tx
from webhook_inbox.sources import Stripe

ENDPOINT = "stripe"
_AT_ONCE = 64


def receive(dsn: str, *, first: int, count: int) -> None:
    """Receive *count* events, from number *first* on; they wait for a worker."""
    asyncio.run(_receive(_inbox(dsn), iter(range(first, first + count))))


def work_off(dsn: str, *, expected: int) -> None:
    """Run the events that wait, with a handler that does nothing; there are *expected* of them."""
    runs = asyncio.run(_work_off(_inbox(dsn)))
    if runs != expected:
        raise InvariantError(f"{expected} events waited, and {runs} were run")


def _inbox(dsn: str) -> Inbox:
    inbox = Inbox(dsn, prepared_statements=True, batch_events_max=100)

    @inbox.endpoint(ENDPOINT, Stripe(SECRET)).on_batch(EVENT_TYPE)
    async def do_nothing(tx: Tx[object], events: list[Event]) -> None:
        pass

    return inbox


async def _receive(inbox: Inbox, numbers: Iterator[int]) -> None:
    async def deliver() -> None:
        for number in numbers:
            body = event_body(number)
            headers = (("stripe-signature", signature(body, int(time.time())).decode()),)
            receipt = await inbox.receive(ENDPOINT, headers=headers, body=body)
            if receipt.status != HTTPStatus.OK:
                raise BenchmarkError(f"event {number} was answered {receipt.status}")

    async with inbox.running():
        await asyncio.gather(*(deliver() for _ in range(_AT_ONCE)))


async def _work_off(inbox: Inbox) -> int:
    async with inbox.running():
        return sum((await inbox.work(drain=True)).values())
