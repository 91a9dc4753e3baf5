"""Receive in this process, without a server, and keep the sender's account."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import psycopg

from tests.faults import asgi
from tests.faults.app import make_inbox
from tests.faults.bench import Bench
from tests.faults.ledger import Answer
from tests.faults.paths import Expected, applied, stripe_letter
from tests.faults.sender import Letter

#: Limits so short that a test can wait for them.
IMPATIENT: dict[str, Any] = {
    "connections_max": 2,
    "connection_wait_seconds": 0.3,
    "duplicate_wait_seconds": 0.3,
    "handler_seconds_max": 0.5,
}
#: What those add up to, with the grace.
HANG_SECONDS_MAX = 7.0
SETTLE_SECONDS_MAX = 20.0


class Receiver:
    """An inbox in this process, and a sender that keeps account."""

    def __init__(
        self, bench: Bench, dsn: str, kind: str, names: Iterator[int] | None = None, **settings: Any
    ) -> None:
        self._bench = bench
        self.inbox = make_inbox(dsn, **settings)
        self._app = self.inbox.asgi()
        self._kind = kind
        self._names = count(1) if names is None else names
        self.expected: list[Expected] = []

    def letter(self, event_type: str = "test.paid", **data: object) -> Letter:
        """A new event that shall be processed."""
        letter = stripe_letter(f"evt_of_receiver_{next(self._names)}", event_type, self._kind, **data)
        self.expected.append(applied(letter))
        return letter

    async def attempt(self, letter: Letter) -> Answer:
        """Deliver once."""
        answer = await asgi.deliver(self._app, letter)
        self._bench.ledger.record(letter.event, letter.path, letter.body, answer)
        return answer

    async def settle(self, letter: Letter) -> Answer:
        """Deliver until it is heard."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while not (answer := await self.attempt(letter)).heard:
            assert time.monotonic() < deadline, f"{letter.event} is not acknowledged: {answer}"
            await asyncio.sleep(0.05)
        return answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Close the connections in the end."""
        async with self.inbox.running():
            yield


def stored(dsn: str, event_id: str) -> bool:
    """Whether the event is in the inbox at this moment."""
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT FROM webhooks.inbox WHERE event_id = %s", (event_id,)).fetchall()
        return len(found) == 1
