"""No backlog starves another endpoint, and no endpoint exceeds what it was given."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.fixtures.queue import EFFECTS, Queue, until
from webhook_inbox.protocol.process import RunOutcome

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"
BACKLOG = """
INSERT INTO {s}.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes)
SELECT 'stripe', 'billing', 'a' || n, 'invoice.paid', 'waiting', '\\x00', 1 FROM generate_series(1, %s) n
"""


@pytest.mark.parametrize("connections_max", [3, 4, 10])
def test_a_backlog_of_slow_events_starves_no_other_endpoint(connections_max: int, database: str) -> None:
    """P-FLOW: 2,000 slow events of A, then 5 of B: B's are done while nearly all of A's still wait."""

    async def story() -> None:
        box = Queue(database, connections_max=connections_max)
        box.rows(EFFECTS)

        @box.billing.on("invoice.paid")
        async def slow(tx: Any, event: Any) -> None:
            await asyncio.sleep(0.02)

        @box.endpoint("b").on("invoice.paid")
        async def quick(tx: Any, event: Any) -> None:
            await tx.conn.execute(INSERT, [event.id, ""])

        box.rows(BACKLOG, 2000)
        async with box.working():
            await until(lambda: box.states()["processed"] >= 40)
            await box.receive(*(f"b{number}" for number in range(5)), to="b")
            started = time.monotonic()
            await until(lambda: len(box.effects()) == 5)
            assert time.monotonic() - started < 8
            assert box.states()["waiting"] > 500
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_transactions_at_once_than_concurrency_max(limit: int, database: str) -> None:
    """P-FLOW: concurrency_max of an endpoint bounds its transactions, whatever room there is, and is used."""
    running, most = [0], [0]

    async def story() -> None:
        box = Queue(database, batch_events_max=2, endpoint={"concurrency_max": limit})

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(0.01)
            running[0] -= 1

        box.rows(BACKLOG, 60)
        assert await box.drain() == {RunOutcome.PROCESSED: 60}
        assert most[0] == limit
        await box.close()

    asyncio.run(story())


def test_no_more_events_a_second_than_the_rate(database: str) -> None:
    """P-FLOW: rate_per_second_max bounds what begins, wastes little though the poll is slow, and holds nobody else."""
    begun: list[float] = []

    async def story() -> None:
        box = Queue(database, poll_seconds=5, endpoint={"rate_per_second_max": 20})
        box.rows(EFFECTS)

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            begun.append(time.monotonic())

        @box.endpoint("b").on("invoice.paid")
        async def quick(tx: Any, event: Any) -> None:
            await tx.conn.execute(INSERT, [event.id, ""])

        await box.receive(*(f"b{number}" for number in range(50)), to="b")
        box.rows(BACKLOG, 60)
        started = time.monotonic()
        async with box.working():
            await until(lambda: len(box.effects()) == 50, 5)
            await until(lambda: len(begun) == 60, 10)
        took = begun[-1] - started
        assert 1.9 < took < 6, took
        for index, moment in enumerate(begun):
            within = [each for each in begun[index:] if each - moment <= 1.0]
            assert len(within) <= 20 + 20 + 1
        await box.close()

    asyncio.run(story())


def test_one_bad_event_holds_no_good_one(database: str) -> None:
    """P-FLOW: one that always fails at the head, then a hundred good ones: all done, the bad one's gaps respected."""

    async def story() -> None:
        box = Queue(database)
        box.rows(EFFECTS)
        tried: list[float] = []

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            if event.id == "evt_bad":
                tried.append(time.monotonic())
                raise ValueError
            tx.conn.execute(INSERT, [event.id, ""])

        await box.receive("evt_bad")
        await box.receive(*(f"evt_{number}" for number in range(100)))
        async with box.working():
            await until(lambda: len(box.effects()) == 100, 10)
        row = box.event("evt_bad")
        assert row["state"] == "retrying"
        assert row["attempts"] == len(tried) == len(box.attempts("evt_bad"))
        await box.close()

    asyncio.run(story())


def test_retries_after_an_outage_are_spread(database: str) -> None:
    """P-FLOW: 300 events that fail together come again spread: no second takes more than its share."""

    async def story() -> None:
        box = Queue(database, backoff_seconds_max=64)

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            raise ValueError

        box.rows(BACKLOG, 300)
        box.rows("UPDATE {s}.inbox SET attempts = 9")
        assert (await box.drain())[RunOutcome.RETRYING] >= 300
        seconds = box.rows(
            "SELECT count(*) AS n FROM {s}.inbox GROUP BY date_trunc('second', available_at) ORDER BY n DESC"
        )
        # 300 over 64 s: 4.7 a second; more than 30 in one of them has a chance below 1e-14.
        assert seconds[0]["n"] <= 30
        assert len(seconds) > 40
        await box.close()

    asyncio.run(story())
