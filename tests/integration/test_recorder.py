"""Events that arrive together are recorded together: few commits, each answered after its own, none bound to others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from tests.fixtures.pooler import UNPREPARED
from tests.fixtures.queue import Queue, body_of, outcomes, signed
from webhook_inbox import Inbox
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.sources import Stripe

IDS = [f"evt_{number:03}" for number in range(100)]
INSERT_RIVAL = """
INSERT INTO webhooks.inbox
    (provider, endpoint, account, environment, event_id, event_type, state, body_sha256, body_bytes)
SELECT provider, endpoint, account, environment, %s, event_type, state, body_sha256, body_bytes
FROM webhooks.inbox WHERE event_id = 'evt_first'
"""
DUPLICATE_WAIT_SECONDS = 2.0


def queue(dsn: str, **given: Any) -> Queue:
    """An inbox whose events nobody works off."""
    made = Queue(dsn, **given)

    @made.billing.on("invoice.paid")
    async def book(tx: Any, event: Any) -> None:
        raise AssertionError("nobody works here")

    return made


def commits(queue: Queue) -> int:
    """In how many transactions the events were recorded."""
    (row,) = queue.rows("SELECT count(DISTINCT xmin::text) AS n FROM {s}.inbox")
    return int(row["n"])


def on_threads(queue: Queue, event_ids: list[str], threads: int = 32) -> Counter[str]:
    """Deliver each on a thread, at once."""
    with ThreadPoolExecutor(threads) as pool:
        return outcomes(pool.map(lambda each: queue.deliver_sync(body_of(each)), event_ids))


def test_events_that_arrive_together_share_few_commits(database: str) -> None:
    """P-ACK: 100 deliveries at once on an event loop: each recorded once, in a handful of transactions."""

    async def story() -> None:
        box = queue(database)
        receipts = await box.receive(*IDS)
        assert outcomes(receipts) == {"queued": 100}
        assert {receipt.status for receipt in receipts} == {200}
        assert box.states() == {"waiting": 100}
        assert commits(box) <= 5
        await box.close()

    asyncio.run(story())


def test_threads_share_few_commits(database: str) -> None:
    """P-ACK: the same on threads: far fewer transactions than deliveries."""
    box = queue(database)
    assert on_threads(box, IDS) == {"queued": 100}
    assert box.states() == {"waiting": 100}
    assert commits(box) <= 60
    box.inbox.close()


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_a_pool_of_one_kind_serves(kind: str, database: str) -> None:
    """A pool for threads alone serves receive and receive_sync, one for event loops serves receive."""

    async def story(pool: Any) -> None:
        box = Queue(database, database=pool)

        if kind == "threads":

            @box.billing.on("invoice.paid")
            def book(tx: Any, event: Any) -> None:
                tx.conn.execute("SELECT 1")
        else:

            @box.billing.on("invoice.paid")
            async def book_async(tx: Any, event: Any) -> None:
                await tx.conn.execute("SELECT 1")

        assert outcomes(await box.receive(*IDS[:30])) == {"queued": 30}
        if kind == "threads":
            assert (await asyncio.to_thread(box.deliver_sync, body_of("evt_sync"))).outcome == "queued"
        assert (await box.drain())[RunOutcome.PROCESSED] == 30 + (kind == "threads")
        await box.close()

    async def on_loop() -> None:
        async with AsyncConnectionPool(database, min_size=1, max_size=4, kwargs=UNPREPARED) as pool:
            await story(pool)

    if kind == "loop":
        asyncio.run(on_loop())
    else:
        with ConnectionPool(database, min_size=1, max_size=4, kwargs=UNPREPARED) as pool:
            asyncio.run(story(pool))


@pytest.mark.parametrize("copies", [2, 25])
def test_copies_in_one_batch_are_one_event(copies: int, database: str) -> None:
    """P-DUP, P-STATE: of copies that arrive together one is queued; the others hear that it waits."""

    async def story() -> None:
        box = queue(database)
        await box.receive("evt_warm")
        receipts = await box.receive(*["evt_1"] * copies)
        assert outcomes(receipts) == {"queued": 1, "duplicate": copies - 1}
        duplicates = [receipt.results[0] for receipt in receipts if receipt.outcome == "duplicate"]
        assert {str(result.state) for result in duplicates} == {"waiting"}
        assert all(result.first_received_at is not None for result in duplicates)
        await box.close()

    asyncio.run(story())


class Rival:
    """Hold the key of *event_id* in a transaction of its own, elsewhere, until told to end."""

    def __init__(self, box: Queue, event_id: str) -> None:
        self.conn = psycopg.connect(box.dsn)
        self.conn.execute(INSERT_RIVAL, [event_id])

    def end(self, *, commit: bool) -> None:
        """Commit or roll back."""
        with self.conn:
            if not commit:
                self.conn.rollback()
        self.conn.close()


def test_a_key_in_flight_elsewhere_holds_nobody_else(database: str) -> None:
    """P-FLOW: while another session holds one key, its mates and whoever comes later are recorded at once."""

    async def story() -> None:
        box = queue(database, duplicate_wait_seconds=DUPLICATE_WAIT_SECONDS)
        await box.receive("evt_first")
        rival = Rival(box, "evt_busy")
        started = time.monotonic()
        busy = asyncio.gather(*(box.deliver(body_of("evt_busy")) for _ in range(20)))
        mates = asyncio.create_task(box.receive(*IDS))
        assert outcomes(await mates) == {"queued": 100}
        later = await box.receive(*(f"later_{number}" for number in range(20)))
        assert outcomes(later) == {"queued": 20}
        assert time.monotonic() - started < DUPLICATE_WAIT_SECONDS, "they waited for the busy key"
        assert not busy.done()
        rival.end(commit=True)
        assert outcomes(await busy) == {"duplicate": 20}
        assert box.states() == {"waiting": 122}
        await box.close()

    asyncio.run(story())


def test_a_lone_busy_key_holds_nobody_who_comes_later(database: str) -> None:
    """P-FLOW: not even where the busy event was alone in its batch."""

    async def story() -> None:
        box = queue(database, duplicate_wait_seconds=DUPLICATE_WAIT_SECONDS)
        await box.receive("evt_first")
        rival = Rival(box, "evt_busy")
        busy = asyncio.create_task(box.deliver(body_of("evt_busy")))
        await asyncio.sleep(0)
        started = time.monotonic()
        assert outcomes(await box.receive("evt_later")) == {"queued": 1}
        assert time.monotonic() - started < DUPLICATE_WAIT_SECONDS / 2
        rival.end(commit=False)
        assert (await busy).outcome == "queued", "the rival rolled back: the copy is the first"
        await box.close()

    asyncio.run(story())


def test_a_busy_key_holds_no_other_thread(database: str) -> None:
    """P-FLOW: the same on threads."""
    box = queue(database, duplicate_wait_seconds=DUPLICATE_WAIT_SECONDS)
    box.deliver_sync(body_of("evt_first"))
    rival = Rival(box, "evt_busy")
    with ThreadPoolExecutor(4) as pool:
        busy = [pool.submit(box.deliver_sync, body_of("evt_busy")) for _ in range(4)]
        started = time.monotonic()
        assert on_threads(box, IDS) == {"queued": 100}
        assert time.monotonic() - started < DUPLICATE_WAIT_SECONDS
        rival.end(commit=True)
        assert outcomes(each.result() for each in busy) == {"duplicate": 4}
    box.inbox.close()


def test_a_key_that_stays_busy_hears_503(database: str) -> None:
    """P-ACK: who waits in vain for a rival is asked to come again, in bounded time."""

    async def story() -> None:
        box = queue(database, duplicate_wait_seconds=0.5)
        await box.receive("evt_first")
        rival = Rival(box, "evt_busy")
        receipts = await asyncio.wait_for(
            asyncio.gather(*(box.deliver(body_of("evt_busy")) for _ in range(12))), 5
        )
        assert {(receipt.status, receipt.reason) for receipt in receipts} == {(503, "key_busy")}
        rival.end(commit=False)
        await box.close()

    asyncio.run(story())


REFUSING = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.event_id LIKE 'evt_bad%' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '23514'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON webhooks.inbox FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def test_a_row_that_cannot_be_stored_fails_alone(database: str) -> None:
    """P-FLOW, P-DUP: one row that the database refuses hears 503; its batch-mates are recorded."""

    async def story() -> None:
        box = queue(database)
        box.rows(REFUSING)
        receipts = await box.receive("evt_bad", *IDS, "evt_bad2")
        assert outcomes(receipts) == {"queued": 100, "unavailable": 2}
        assert [receipts[0].status, receipts[-1].status] == [503, 503]
        assert box.states() == {"waiting": 100}
        await box.close()

    asyncio.run(story())


def test_a_row_that_cannot_be_stored_fails_alone_on_threads(database: str) -> None:
    """P-FLOW: the same on threads."""
    box = queue(database)
    box.rows(REFUSING)
    assert on_threads(box, ["evt_bad", *IDS]) == {"queued": 100, "unavailable": 1}
    box.inbox.close()


@pytest.mark.parametrize("key", ["\ud800", "a\x00b", "x" * 5000, "ключ"])
def test_any_order_key_can_be_stored(key: str, database: str) -> None:
    """P-FLOW: a key of order may be whatever JSON can say, and its mates never hear of it."""

    async def story() -> None:
        box = queue(database, endpoint={"order_by": "data.object.customer"})
        receipts = await asyncio.gather(box.deliver(body_of("evt_odd", customer=key)), box.receive(*IDS[:20]))
        assert receipts[0].outcome == "queued"
        assert outcomes(receipts[1]) == {"queued": 20}
        assert box.event("evt_odd")["order_key"]
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["loop", "threads"])
def test_what_nobody_expected_is_answered_and_the_next_is_served(
    kind: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-CALM: a defect in the midst of recording hangs nobody and stops nothing that comes after it."""
    from webhook_inbox.runtime import recorder

    def broken(batch: Any) -> Callable[[], Any]:
        raise LookupError("a defect")

    box = queue(database)
    box.deliver_sync(body_of("evt_warm"))

    def three(names: str) -> Counter[str]:
        if kind == "threads":
            return on_threads(box, [f"{names}_{number}" for number in range(3)])
        return outcomes(asyncio.run(asyncio.wait_for(box.receive(*(f"{names}_{n}" for n in range(3))), 10)))

    with monkeypatch.context() as patch:
        patch.setattr(recorder, "together", broken)
        patch.setattr(recorder, "alone", lambda request, patient: broken(request))
        assert three("evt_a") == {"unavailable": 3}
    assert three("evt_b") == {"queued": 3}
    box.inbox.close()


def test_no_more_wait_than_may(database: str) -> None:
    """P-CALM: past waiting_max the next delivery hears 503 at once, and every one that was taken in is recorded."""

    async def story() -> None:
        box = queue(database, waiting_max=10, connections_max=1, connection_wait_seconds=20)
        await box.receive("evt_first")
        with psycopg.connect(box.dsn) as conn:
            conn.execute("LOCK TABLE webhooks.inbox IN SHARE MODE")
            first = asyncio.create_task(box.deliver(body_of("evt_0")))
            await asyncio.sleep(0.05)  # it is being written: nothing waits
            rest = [asyncio.create_task(box.deliver(body_of(each))) for each in IDS[:40]]
            done, _ = await asyncio.wait(rest, timeout=10, return_when=asyncio.FIRST_COMPLETED)
            refused = next(iter(done)).result()
            assert (refused.status, refused.reason) == (503, "store_unavailable")
            assert "retry-after" in dict(refused.headers)
        receipts = [await first, *await asyncio.gather(*rest)]
        stored = outcomes(receipts)["queued"]
        assert stored == 11
        assert box.states() == {"waiting": 1 + stored}
        await box.close()

    asyncio.run(story())


def test_nothing_is_acknowledged_while_the_commit_is_under_way(database: str) -> None:
    """P-ACK: with the commit held back, no delivery of the batch is answered; after it, all are."""

    async def story() -> None:
        held, go = threading.Event(), threading.Event()

        def probe(point: str) -> None:
            if point == "enqueue.commit.before":
                held.set()
                go.wait(20)

        inbox = Inbox(database, probe=probe)
        endpoint = inbox.endpoint("billing", Stripe("whsec_fake_queue"))

        @endpoint.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            raise AssertionError("nobody works here")

        bodies = [body_of(each) for each in IDS[:8]]
        with ThreadPoolExecutor(8) as pool:
            answers = [
                pool.submit(inbox.receive_sync, "billing", headers=signed(body), body=body) for body in bodies
            ]
            assert await asyncio.to_thread(held.wait, 20)
            with psycopg.connect(database) as conn:
                assert conn.execute("SELECT count(*) FROM webhooks.inbox").fetchone() == (0,)
            assert not any(answer.done() for answer in answers)
            go.set()
            assert outcomes(await asyncio.to_thread(lambda: [answer.result(20) for answer in answers])) == {
                "queued": 8
            }
        inbox.close()

    asyncio.run(story())


def test_a_thread_that_writes_for_all_is_let_go(database: str) -> None:
    """P-FLOW: under a steady stream no thread is kept for writing what others bring."""
    box = queue(database)
    stop = threading.Event()

    def stream(number: int) -> int:
        sent = 0
        while not stop.is_set():
            box.deliver_sync(body_of(f"evt_{number}_{sent}"))
            sent += 1
        return sent

    with ThreadPoolExecutor(6) as pool:
        senders = [pool.submit(stream, number) for number in range(6)]
        time.sleep(1.5)
        stop.set()
        counts = sorted(each.result(20) for each in senders)
    assert counts[0] * 4 > counts[-1], f"one of them was kept: {counts}"
    box.inbox.close()
