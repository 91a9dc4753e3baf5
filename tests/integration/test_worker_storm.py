"""Everything at once: sessions killed, rows locked, handlers that fail; in the end each effect is there once."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any, Self

import psycopg
import pytest

from tests.fixtures.queue import EFFECTS, Queue, body_of, until

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"
EVENTS = 300
KILL = """
SELECT pg_terminate_backend(pid) FROM (
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'webhook-inbox' AND pid <> pg_backend_pid()
    ORDER BY random() LIMIT 1
) victim
"""


class Trouble:
    """Kill sessions of ours and lock rows, at random, until told to end."""

    def __init__(self, dsn: str, seed: int) -> None:
        self._dsn = dsn
        self._chance = random.Random(seed)
        self._end = threading.Event()
        self.made = 0
        self._threads = [threading.Thread(target=each) for each in (self._kill, self._lock)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(20)

    def _kill(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True, application_name="trouble") as conn:
            while not self._end.wait(self._chance.random() * 0.1):
                conn.execute(KILL)
                self.made += 1

    def _lock(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True, application_name="trouble") as conn:
            while not self._end.wait(self._chance.random() * 0.2):
                with conn.transaction():
                    conn.execute(
                        "SELECT id FROM webhooks.inbox ORDER BY random() LIMIT 5 FOR UPDATE SKIP LOCKED"
                    )
                    self._end.wait(self._chance.random() * 0.3)
                self.made += 1


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_each_effect_is_there_once_whatever_happens(kind: str, database: str) -> None:
    """
    P-ONCE, P-FENCE, P-FLOW, P-COUNT: 300 events sent until acknowledged, by two workers, one event in ten failing at
    first, sessions killed and rows locked all the while: every effect once, no event left behind, none dead.
    """
    seed = random.SystemRandom().getrandbits(32)

    def worker() -> Queue:
        box = Queue(
            database,
            duplicate_wait_seconds=0.3,
            lease_seconds=3,
            backoff_seconds_max=0.2,
            batch_events_max=8,
            connections_max=6,
        )

        if kind == "sync":

            @box.billing.on("invoice.paid")
            def book(tx: Any, event: Any) -> None:
                tx.conn.execute(INSERT, [event.id, ""])
                tx.emit("Booked", {"event": event.id})
                if event.attempt == 1 and event.id.endswith("7"):
                    raise ValueError
        else:

            @box.billing.on("invoice.paid")
            async def book_async(tx: Any, event: Any) -> None:
                await tx.conn.execute(INSERT, [event.id, ""])
                await tx.emit("Booked", {"event": event.id})
                if event.attempt == 1 and event.id.endswith("7"):
                    raise ValueError

        return box

    async def send(box: Queue, event_id: str) -> None:
        for _ in range(100):
            if (await box.deliver(body_of(event_id))).status == 200:
                return
        raise AssertionError(f"{event_id} was never acknowledged")

    async def story() -> None:
        first, second = worker(), worker()
        first.rows(EFFECTS)
        ids = [f"evt_{number:03}" for number in range(EVENTS)]
        async with first.working(), second.working():
            with Trouble(database, seed) as trouble:
                for start in range(0, EVENTS, 20):
                    await asyncio.gather(
                        *(send(chance_of(first, second), each) for each in ids[start : start + 20])
                    )
                await asyncio.sleep(1)
            await until(lambda: first.states() == {"processed": EVENTS}, 60)
        assert trouble.made > 10
        assert sorted(first.effects()) == sorted(ids), f"seed {seed}"
        (outbox,) = first.rows("SELECT count(*) AS n, count(DISTINCT inbox_id) AS d FROM {s}.outbox")
        assert outbox["n"] == outbox["d"] == EVENTS
        assert not first.rows(
            "SELECT 1 FROM {s}.inbox LEFT JOIN effects USING (event_id) "
            "WHERE worker_id IS NOT NULL OR effect_transaction IS DISTINCT FROM transaction"
        )
        await first.close()
        await second.close()

    asyncio.run(story())


def chance_of(*boxes: Queue) -> Queue:
    """One of them."""
    return random.choice(boxes)
