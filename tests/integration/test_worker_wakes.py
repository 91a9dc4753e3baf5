"""An idle worker holds nothing open, hears of new events at once, and finds them without hearing."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import EFFECTS, Queue, body_of, until
from webhook_inbox.runtime.wake import Listener

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"
LISTENERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %' "
    "AND application_name = 'webhook-inbox' AND pid <> pg_backend_pid()"
)


def queue(dsn: str, **given: Any) -> Queue:
    """An inbox with a table for effects, and one handler."""
    made = Queue(dsn, **given)

    @made.billing.on("invoice.paid")
    async def book(tx: Any, event: Any) -> None:
        await tx.conn.execute(INSERT, [event.id, ""])

    return made


async def listening(box: Queue, caplog: pytest.LogCaptureFixture) -> None:
    """Wait until the worker hears notifications."""
    await until(lambda: "notifications arrive" in caplog.text)


def test_an_event_of_another_process_is_picked_up_at_once(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With a poll of 30 s, a NOTIFY wakes the worker: recorded by another inbox, done within a fraction of that."""

    async def story() -> None:
        box, other = queue(database, poll_seconds=30), queue(database)
        box.rows(EFFECTS)
        async with box.working():
            await listening(box, caplog)
            for number in range(5):
                started = time.monotonic()
                await other.receive(f"evt_{number}")
                await until(lambda number=number: len(box.effects()) == number + 1, 10)  # type: ignore[misc]  # bound at once
                assert time.monotonic() - started < 5
        await box.close()
        await other.close()

    caplog.set_level("DEBUG", logger="webhook_inbox")
    asyncio.run(story())


def test_what_was_recorded_before_anybody_listened_is_found(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a poll of 30 s: an event that is committed between the first look and LISTEN waits for no poll."""
    looked = threading.Event()
    listen = Listener._listen

    def probe(point: str) -> None:
        if point == "claim.rollback.after":
            looked.set()

    async def story() -> None:
        recorded = asyncio.Event()

        async def late(self: Listener) -> None:
            await recorded.wait()
            await listen(self)

        monkeypatch.setattr(Listener, "_listen", late)
        box = queue(database, poll_seconds=30, probe=probe)
        box.rows(EFFECTS)
        async with box.working():
            await until(looked.is_set)
            # As a process would that cannot notify.
            await asyncio.to_thread(
                box.rows,
                "INSERT INTO {s}.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes) "
                "VALUES ('stripe', 'billing', 'evt_1', 'invoice.paid', 'waiting', '', 1)",
            )
            recorded.set()
            await until(lambda: box.effects() == ["evt_1"], 12)
        await box.close()

    asyncio.run(story())


def test_without_notifications_the_poll_finds_it(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C38: NOTIFY off, as behind some poolers: applied within the poll interval all the same."""

    async def deaf(self: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("webhook_inbox.runtime.wake.Listener.run", deaf)
    monkeypatch.setattr("webhook_inbox.runtime.notifier.Notifier.send_soon", lambda self: None)

    async def story() -> None:
        box, other = queue(database, poll_seconds=0.3), queue(database)
        box.rows(EFFECTS)
        async with box.working():
            await until(lambda: box.rows("SELECT 1 FROM {s}.workers"))
            await other.receive("evt_1")
            await until(lambda: box.effects() == ["evt_1"], 5)
        await box.close()
        await other.close()

    asyncio.run(story())


def test_a_listener_that_is_killed_comes_back(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C38: its session ended by the server: said once, the poll goes on, and it listens again."""
    monkeypatch.setattr("webhook_inbox.runtime.wake._RETRY_SECONDS", 0.2)
    caplog.set_level("DEBUG", logger="webhook_inbox")

    async def story() -> None:
        box = queue(database, poll_seconds=0.3)
        box.rows(EFFECTS)
        async with box.working():
            await listening(box, caplog)
            (victim,) = await until(lambda: box.rows(LISTENERS))
            caplog.clear()
            box.rows("SELECT pg_terminate_backend(%s)", victim["pid"])
            await box.receive("evt_1")
            await until(lambda: box.effects() == ["evt_1"], 5)
            await listening(box, caplog)
            assert caplog.text.count("polling goes on") == 1
            assert [row["pid"] for row in box.rows(LISTENERS)] != [victim["pid"]]
        await box.close()

    asyncio.run(story())


def test_an_idle_worker_holds_no_transaction_and_little_else(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C50: looked at for two seconds, no session of an idle worker is in a transaction; it needs next to no CPU."""
    caplog.set_level("DEBUG", logger="webhook_inbox")

    async def story() -> None:
        box = queue(database, poll_seconds=1)
        async with box.working():
            await until(
                lambda: "listener: " in caplog.text
            )  # it hears notifications, or knows that it does not
            before, started = sum(os.times()[:2]), time.monotonic()
            open_ones = 0
            with psycopg.connect(box.dsn, autocommit=True) as conn:
                for _ in range(20):
                    rows = conn.execute(
                        "SELECT pid, query FROM pg_stat_activity WHERE datname = current_database() "
                        "AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%' "
                        "AND clock_timestamp() - state_change > interval '100 milliseconds'"
                    ).fetchall()
                    open_ones += len(rows)
                    await asyncio.sleep(0.1)
            used = (sum(os.times()[:2]) - before) / (time.monotonic() - started)
        assert open_ones == 0
        assert used < 0.25, f"{used:.0%} of a core, the test's own looking included"
        await box.close()

    asyncio.run(story())


def test_threads_and_loops_wake_the_worker_of_their_own_process(database: str) -> None:
    """With a poll of 30 s, receive_sync on a thread wakes a worker on the loop beside it."""

    async def story() -> None:
        box = queue(database, poll_seconds=30)
        box.rows(EFFECTS)
        async with box.inbox.running(worker=True):
            await until(lambda: box.rows("SELECT 1 FROM {s}.workers"))
            await asyncio.to_thread(box.deliver_sync, body_of("evt_1"))
            await until(lambda: box.effects() == ["evt_1"], 10)
            await box.receive("evt_2")
            await until(lambda: len(box.effects()) == 2, 10)

    asyncio.run(story())
