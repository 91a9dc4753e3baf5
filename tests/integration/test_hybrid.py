"""Hybrid: recorded and committed first, run at once in the request, and a worker's to retry where that fails."""

from __future__ import annotations

import asyncio
import hmac
import json
import threading
import time
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import EFFECTS, SECRET, Queue, body_of, until
from webhook_inbox import Ignore, NotYet
from webhook_inbox.drivers.psycopg_async import AsyncPsycopgRunner
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.protocol.steps import Commit
from webhook_inbox.sources import Hmac

pytestmark = pytest.mark.usefixtures("watched_moves")

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"


def queue(dsn: str, **given: Any) -> Queue:
    """An inbox whose endpoint is hybrid, with a table for effects."""
    made = Queue(dsn, endpoint={"mode": "hybrid"}, **given)
    made.rows(EFFECTS)
    return made


@pytest.mark.parametrize("kind", ["sync", "async", "thread"])
def test_it_is_processed_when_it_is_answered(kind: str, database: str) -> None:
    """P-ACK, P-COUNT: a fast handler's effect is there when the 200 comes; attempt 1 was committed before it ran."""
    seen: list[tuple[str, int, int]] = []

    async def story() -> None:
        box = queue(database)

        def look(event: Any) -> None:
            row = box.event(event.id)
            seen.append((row["state"], row["attempts"], row["claims"]))
            assert event.attempt == 1
            assert event.received_at is not None

        if kind == "async":

            @box.billing.on("invoice.paid")
            async def book_async(tx: Any, event: Any) -> None:
                look(event)
                await tx.conn.execute(INSERT, [event.id, ""])
        else:

            @box.billing.on("invoice.paid")
            def book(tx: Any, event: Any) -> None:
                look(event)
                tx.conn.execute(INSERT, [event.id, ""])

        if kind == "thread":
            receipt = await asyncio.to_thread(box.deliver_sync, body_of("evt_1"))
        else:
            (receipt,) = await box.receive("evt_1")
        assert (receipt.status, str(receipt.outcome)) == (200, "processed")
        assert box.effects() == ["evt_1"]
        assert seen == [("leased", 1, 1)]
        row = box.event()
        assert (row["state"], row["attempts"], row["worker_id"]) == ("processed", 1, None)
        await box.close()
        (worker,) = box.rows("SELECT * FROM {s}.workers")
        assert worker["stopped"]

    asyncio.run(story())


def test_many_at_once_share_one_lease_and_run_once(database: str) -> None:
    """P-ONCE: forty at once, four copies each: one effect each, under one incarnation."""

    async def story() -> None:
        box = queue(database)

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            await tx.conn.execute(INSERT, [event.id, ""])

        ids = [f"evt_{number:02}" for number in range(40)]
        receipts = await box.receive(*(ids * 4))
        assert {receipt.status for receipt in receipts} == {200}
        assert sorted(box.effects()) == ids
        assert [str(receipt.outcome) for receipt in receipts].count("processed") == 40
        await box.close()

    asyncio.run(story())


def test_a_slow_handler_is_answered_in_time_and_goes_on(database: str) -> None:
    """P-ACK, P-STATE: at answer_seconds_max the answer is 200, leased; a copy hears the same; the handler finishes."""

    async def story() -> None:
        box = queue(database, answer_seconds_max=0.4, lease_seconds=1)
        go = threading.Event()

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            go.wait(20)

        started = time.monotonic()
        (receipt,) = await box.receive("evt_1")
        assert 0.3 < time.monotonic() - started < 3
        assert (receipt.status, str(receipt.outcome), str(receipt.results[0].state)) == (
            200,
            "queued",
            "leased",
        )
        (copy,) = await box.receive("evt_1")
        assert (copy.status, str(copy.outcome), str(copy.results[0].state)) == (200, "duplicate", "leased")
        await asyncio.sleep(1.2)  # longer than the lease: it is renewed
        assert await asyncio.to_thread(box.reap) == ()
        (row,) = box.rows("SELECT lease_ends_at > clock_timestamp() AS held FROM {s}.workers")
        assert row["held"]
        go.set()
        await until(lambda: box.states() == {"processed": 1})
        assert (box.effects(), box.event()["attempts"]) == (["evt_1"], 1)
        await box.close()

    asyncio.run(story())


def test_what_fails_is_acknowledged_and_a_worker_takes_over(database: str) -> None:
    """P-ACK, P-STATE: a failing handler answers 200, retrying; the worker runs it again, and its effect is once."""

    async def story() -> None:
        box = queue(database)

        @box.billing.on("*")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, str(event.attempt)])
            if event.type == "ignored":
                raise Ignore("not ours")
            if event.type == "later" and event.attempt == 1:
                raise NotYet("later", retry_in_seconds=60)
            if event.attempt == 1:
                raise ValueError

        (failed,) = await box.receive("evt_1")
        assert (failed.status, str(failed.outcome), str(failed.results[0].state)) == (
            200,
            "queued",
            "retrying",
        )
        (copy,) = await box.receive("evt_1")
        assert (copy.status, str(copy.outcome), str(copy.results[0].state)) == (200, "duplicate", "retrying")
        (ignored,) = await box.receive("evt_2", event_type="ignored")
        assert (ignored.status, str(ignored.outcome)) == (200, "ignored")
        (later,) = await box.receive("evt_3", event_type="later")
        assert (later.status, str(later.results[0].state)) == (200, "retrying")
        assert box.event("evt_3")["attempts"] == 0
        box.make_due()
        assert (await box.drain())[RunOutcome.PROCESSED] == 1
        assert box.rows("SELECT event_id, note FROM effects") == [{"event_id": "evt_1", "note": "2"}]
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_lost_connection_leaves_it_to_the_worker(kind: str, database: str) -> None:
    """P-ACK, P-COUNT: its connection killed once it is recorded: 200, given back at no cost, run by a worker."""

    async def story() -> None:
        box = queue(database)
        killed: list[str] = []
        kill = "SELECT pg_terminate_backend(pg_backend_pid())"

        if kind == "sync":

            @box.billing.on("invoice.paid")
            def book(tx: Any, event: Any) -> None:
                tx.conn.execute(INSERT, [event.id, ""])
                if not killed:
                    killed.append(event.id)
                    tx.conn.execute(kill)
        else:

            @box.billing.on("invoice.paid")
            async def book_async(tx: Any, event: Any) -> None:
                await tx.conn.execute(INSERT, [event.id, ""])
                if not killed:
                    killed.append(event.id)
                    await tx.conn.execute(kill)

        (receipt,) = await box.receive("evt_1")
        assert (receipt.status, str(receipt.outcome)) == (200, "queued")
        await until(lambda: box.event()["state"] == "waiting")
        assert (box.event()["attempts"], box.event()["crashes"]) == (0, 0)
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        assert box.effects() == ["evt_1"]
        await box.close()

    asyncio.run(story())


def test_an_event_that_nobody_knows_to_be_recorded_is_run_all_the_same(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-ACK, P-COUNT: the answer to the commit is lost: 503; this process lives on, and a worker runs it at no cost."""
    recording: list[str] = []
    cut: list[bool] = []
    real = AsyncPsycopgRunner._perform

    async def cut_once(self: Any, step: Any) -> Any:
        answer = await real(self, step)
        if isinstance(step, Commit) and recording and not cut:
            cut.append(True)
            self._conn.pgconn.finish()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return answer

    def probe(point: str) -> None:
        if point == "record_leased.commit.before":
            recording.append(point)

    monkeypatch.setattr(AsyncPsycopgRunner, "_perform", cut_once)

    async def story() -> None:
        box = queue(database, probe=probe, lease_seconds=4)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])

        (receipt,) = await box.receive("evt_1")
        assert (receipt.status, receipt.reason, cut) == (503, "store_unavailable", [True])
        assert (box.event()["state"], box.effects()) == ("leased", [])
        async with box.working():
            await until(lambda: box.states() == {"processed": 1}, 10)
        row = box.event()
        assert (row["attempts"], row["crashes"], box.effects()) == (1, 0, ["evt_1"])
        copy, other = await box.receive("evt_1", "evt_2")
        assert (str(copy.outcome), str(copy.results[0].state)) == ("duplicate", "processed")
        assert str(other.outcome) == "processed"
        await box.close()

    asyncio.run(story())


def test_a_row_that_somebody_locks_comes_back(database: str) -> None:
    """P-FLOW: locked between its record and its run for longer than any wait: 200, and a worker's when it is free."""

    async def story() -> None:
        box = queue(database, duplicate_wait_seconds=0.2)
        prepared, go = threading.Event(), threading.Event()

        def prepare(event: Any) -> None:
            if not prepared.is_set():
                prepared.set()
                go.wait(20)

        @box.billing.on("invoice.paid", prepare=prepare)
        def book(tx: Any, event: Any, _: None) -> None:
            tx.conn.execute(INSERT, [event.id, ""])

        task = asyncio.create_task(box.receive("evt_1"))
        await until(prepared.is_set)
        with psycopg.connect(box.dsn) as operator:
            operator.execute("SELECT 1 FROM webhooks.inbox FOR UPDATE")
            go.set()
            (receipt,) = await task
            assert receipt.status == 200
            assert box.event()["state"] == "leased"
        await until(lambda: box.event()["state"] == "waiting")
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        await box.close()

    asyncio.run(story())


def test_a_body_of_several_events_is_queued(database: str) -> None:
    """P-ACK: several events in one body are recorded together and left to the worker."""

    async def story() -> None:
        box = Queue(database)
        box.rows(EFFECTS)
        source = Hmac(
            "acme", secrets=SECRET, header="X-Sig", event_id="$.id", event_type="$.type", items="$.events"
        )
        bulk = box.inbox.endpoint("bulk", source, mode="hybrid")

        @bulk.on("*")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])

        body = json.dumps({"events": [{"id": f"evt_{n}", "type": "t"} for n in range(5)]}).encode()
        receipt = await box.inbox.receive(
            "bulk", headers=[("x-sig", hmac.new(SECRET.encode(), body, "sha256").hexdigest())], body=body
        )
        assert (receipt.status, str(receipt.outcome), len(receipt.results)) == (200, "queued", 5)
        assert await box.drain() == {RunOutcome.PROCESSED: 5}
        assert len(box.effects()) == 5
        await box.close()

    asyncio.run(story())


def test_what_cannot_be_recorded_is_not_acknowledged(database: str) -> None:
    """P-ACK: with the key held elsewhere the answer is 503, and no lease is left behind."""

    async def story() -> None:
        box = queue(database, duplicate_wait_seconds=0.3)
        box.billing.on("invoice.paid")(lambda tx, event: None)
        await box.receive("evt_first")
        with psycopg.connect(box.dsn) as rival:
            rival.execute(
                "INSERT INTO webhooks.inbox (provider, endpoint, account, environment, event_id, event_type, state, "
                "body_sha256, body_bytes) SELECT provider, endpoint, account, environment, 'evt_1', event_type, "
                "'waiting', body_sha256, body_bytes FROM webhooks.inbox"
            )
            (receipt,) = await box.receive("evt_1")
            assert (receipt.status, receipt.reason) == (503, "key_busy")
            rival.rollback()
        (receipt,) = await box.receive("evt_1")
        assert (receipt.status, str(receipt.outcome)) == (200, "processed")
        await box.close()

    asyncio.run(story())


def test_an_answer_that_is_late_waits_for_no_handler(database: str) -> None:
    """P-ACK: recorded only after answer_seconds_max, as a rival held the key: answered then, not after the handler."""

    async def story() -> None:
        box = queue(database, answer_seconds_max=0.3, duplicate_wait_seconds=10)
        go = threading.Event()

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            if event.id == "evt_1":
                go.wait(20)

        await box.receive("evt_first")
        with psycopg.connect(box.dsn) as rival:
            rival.execute(
                "INSERT INTO webhooks.inbox (provider, endpoint, account, environment, event_id, event_type, state, "
                "body_sha256, body_bytes) SELECT provider, endpoint, account, environment, 'evt_1', event_type, "
                "'waiting', body_sha256, body_bytes FROM webhooks.inbox"
            )
            task = asyncio.create_task(box.receive("evt_1"))
            done, _ = await asyncio.wait({task}, timeout=0.8)
            assert not done, "nothing is known yet"
            rival.rollback()
        (receipt,) = await asyncio.wait_for(task, 5)
        assert (receipt.status, str(receipt.results[0].state)) == (200, "leased")
        go.set()
        await until(lambda: box.event()["state"] == "processed")
        await box.close()

    asyncio.run(story())
