"""Due times, leases and deadlines live on the server's clock, whatever the host's says and a session's zone is."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fixtures.queue import EFFECTS, Queue, until
from webhook_inbox.model.claim import Retry
from webhook_inbox.protocol.process import RunOutcome

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"
NEAR = "abs(extract(epoch FROM {} - clock_timestamp()))::float8 AS {}"


@pytest.mark.parametrize("hours", [-1.0, -1 / 6, 1 / 6, 24.0])
def test_a_host_whose_clock_is_wrong_works_as_any_other(
    hours: float, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-CLOCK: with the host's clock off, in either direction: leases, retries and reaping are as the server counts."""
    real = time.time

    async def story() -> None:
        box = Queue(database, lease_seconds=60)
        box.rows(EFFECTS)
        entered, go = threading.Event(), threading.Event()

        @box.billing.on("*")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            if event.type == "fails":
                raise ValueError
            entered.set()
            go.wait(20)

        monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
        await box.receive("evt_1")
        await box.receive("evt_2", event_type="fails")
        async with box.working():
            await until(entered.is_set)
            await until(lambda: box.event("evt_2")["state"] == "retrying")
            (worker,) = box.rows(
                "SELECT extract(epoch FROM lease_ends_at - clock_timestamp())::float8 AS left FROM {s}.workers"
            )
            assert 30 < worker["left"] <= 60
            (row,) = box.rows(
                "SELECT " + NEAR.format("available_at", "due") + ", "
                "extract(epoch FROM give_up_at - clock_timestamp())::float8 AS left "
                "FROM {s}.inbox WHERE event_id = 'evt_2'"
            )
            assert row["due"] < 30
            assert abs(row["left"] - 72 * 3600) < 60
            assert await asyncio.to_thread(box.reap) == ()
            go.set()
            await until(lambda: box.event("evt_1")["state"] == "processed")
        assert box.effects() == ["evt_1"]
        (row,) = box.rows(
            "SELECT " + NEAR.format("processed_at", "done") + " FROM {s}.inbox WHERE event_id = 'evt_1'"
        )
        assert row["done"] < 30
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Apia", "America/St_Johns", "Europe/Berlin"])
def test_times_are_the_same_in_any_session(zone: str, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-CLOCK: in any time zone and date style the handler sees aware times in UTC, and retries are due alike."""
    seen: list[Any] = []
    monkeypatch.setattr(Retry, "delay", lambda *_: 2.0)  # no chance that it is due within the same drain

    async def story() -> None:
        box = Queue(database)
        box.rows(
            f"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''{zone}''', current_database()); "
            "EXECUTE format('ALTER DATABASE %I SET datestyle = ''SQL, DMY''', current_database()); "
            "EXECUTE format('ALTER DATABASE %I SET intervalstyle = ''sql_standard''', current_database()); END $$"
        )

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            seen.append((event.created_at, event.received_at))
            if event.attempt == 1:
                raise ValueError

        await box.receive("evt_1")
        assert await box.drain() == {RunOutcome.RETRYING: 1}
        (row,) = box.rows("SELECT " + NEAR.format("available_at", "due") + " FROM {s}.inbox")
        assert row["due"] < 10
        box.make_due()
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        assert seen[0] == seen[1]
        created_at, received_at = seen[0]
        assert created_at == datetime.fromtimestamp(1_760_000_000, UTC)
        assert received_at.tzinfo is UTC
        assert abs(received_at.timestamp() - time.time()) < 60
        await box.close()

    asyncio.run(story())
