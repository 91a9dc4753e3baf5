"""An operator limits an endpoint while all of it runs: so many events at once, or in a time, over all workers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import EFFECTS, Queue, until
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.limit import Limit
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol import limits
from webhook_inbox.protocol.lease import Wanted, end
from webhook_inbox.protocol.operate import Operator
from webhook_inbox.protocol.process import RunOutcome

INSERT = "INSERT INTO effects (event_id) VALUES (%s)"
BACKLOG = """
INSERT INTO {s}.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes)
SELECT 'stripe', 'billing', 'e' || n, 'invoice.paid', 'waiting', '\\x00', 1 FROM generate_series(1, %s) n
"""
SPENT = "UPDATE {s}.endpoints SET spent_until = clock_timestamp() - %s * interval '1 second'"
WORKERS = 8


def limit(box: Queue, rate: str = "", *, concurrency: int | None = None, by: str = "ada") -> bool:
    """Limit ``billing``, as an operator does; without any bound, lift what there is."""
    said = Limit.of(concurrency, rate)
    return box.run(lambda sql: limits.limit_endpoint("billing", said, Operator(by, "why"), box.schema))


def ask(box: Queue, worker_id: WorkerId, events: int = 10) -> tuple[tuple[Claim, ...], float | None]:
    """Claim within the limit of ``billing``, as a worker does; and when to ask again."""
    wanted = [Wanted(endpoint="billing", limit=events, hold_seconds=1e9)]
    known: Collection[str] = {"billing"}
    claimed = box.run(lambda sql: limits.claim(wanted, known, worker_id, sql, looking=False))
    return claimed.claims, claimed.waits.get("billing")


def workers(dsn: str, **given: Any) -> list[Queue]:
    """Workers of one inbox, each with connections and a lease of its own."""
    return [Queue(dsn, connections_max=3, batch_events_max=5, **given) for _ in range(WORKERS)]


def test_eight_workers_run_no_more_at_once_than_was_said(database: str) -> None:
    """All that is allowed is used, and all is done in the end; what was held back was not tried (P-COUNT, P-FLOW)."""
    running, most = [0], [0]
    boxes = workers(database)
    for each in boxes:

        @each.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(0.06)  # too long to share a transaction
            running[0] -= 1

    async def story() -> None:
        boxes[0].rows(BACKLOG, 60)
        assert limit(boxes[0], concurrency=3)
        done = await asyncio.gather(*(each.drain() for each in boxes))
        assert sum(each.total() for each in done) == 60
        for each in boxes:
            await each.close()

    asyncio.run(story())
    assert most == [3]
    assert boxes[0].rows("SELECT DISTINCT state, attempts, claims FROM {s}.inbox") == [
        {"state": "processed", "attempts": 1, "claims": 1}
    ]


def test_eight_workers_begin_no_more_in_a_time_than_was_said(database: str) -> None:
    """Event number n begins n intervals after the limit was set, or later; little is wasted, and nobody else waits."""
    begun: list[float] = []
    boxes = workers(database, poll_seconds=2)
    boxes[0].rows(EFFECTS)
    for each in boxes:

        @each.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            begun.append(time.monotonic())

        @each.endpoint("other").on("invoice.paid")
        async def quick(tx: Any, event: Any) -> None:
            await tx.conn.execute(INSERT, [event.id])

    async def story() -> float:
        boxes[0].rows(BACKLOG, 30)
        await boxes[0].receive(*(f"o{number}" for number in range(20)), to="other")
        started = time.monotonic()
        assert limit(boxes[0], "20/s")
        done = asyncio.gather(*(each.drain() for each in boxes))
        await until(lambda: len(boxes[0].effects()) == 20)
        assert len(begun) < 30
        await done
        for each in boxes:
            await each.close()
        return started

    started = asyncio.run(story())
    assert len(begun) == 30
    assert all(at - started >= (number + 1) / 20 for number, at in enumerate(begun))
    assert begun[-1] - started < 6


def test_a_limit_holds_and_is_lifted_while_workers_run(database: str) -> None:
    """From the next claim on, also of a worker that knows nothing of it yet; lifted, all of it runs."""

    async def story() -> None:
        box = Queue(database)
        box.rows(EFFECTS)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id])

        @box.endpoint("other").on("invoice.paid")
        def book_other(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id])

        async with box.working():
            await box.receive("evt_1")
            await until(lambda: box.effects() == ["evt_1"])
            assert limit(box, "1/h")
            await box.receive("evt_2", "evt_3")
            await box.receive("evt_other", to="other")
            await until(lambda: box.effects() == ["evt_1", "evt_other"])
            box.rows(SPENT, 3600)
            await until(lambda: len(box.effects()) == 3)
            assert box.states() == {"processed": 3, "waiting": 1}
            assert limit(box)
            await until(lambda: box.states() == {"processed": 4})
        assert {row["attempts"] for row in box.rows("SELECT attempts FROM {s}.inbox")} == {1}
        await box.close()

    asyncio.run(story())


def test_the_place_of_a_dead_worker_is_free_when_its_lease_has_ended(database: str) -> None:
    """Not before its event was taken back: until then it may come back, and go on. One that ends leaves it, too."""
    box = Queue(database)
    box.rows(BACKLOG, 3)
    assert limit(box, concurrency=1)
    dead, stopped, heir = box.register("dead"), box.register("stopped"), box.register("heir")
    (held,), wait = ask(box, dead)
    assert (held.event.id, wait) == ("e1", math.inf)
    box.reap()
    assert ask(box, heir) == ((), math.inf)
    box.rows("UPDATE {s}.workers SET lease_ends_at = clock_timestamp() - interval '1 s' WHERE name = 'dead'")
    assert ask(box, heir) == ((), math.inf)
    assert [each.worker for each in box.reap()] == ["dead"]
    (other,), _ = ask(box, stopped)
    assert other.event.id == "e2"
    assert ask(box, heir) == ((), math.inf)
    box.run(lambda sql: end(stopped, sql))
    assert [each.worker for each in box.reap()] == ["stopped"]
    (last,), _ = ask(box, heir)
    assert last.event.id == "e3"


def test_a_rate_fills_evenly_and_up_to_a_second(database: str) -> None:
    """It begins empty; one event at least fits in, however seldom they are (P-CLOCK)."""
    box = Queue(database)
    box.rows(BACKLOG, 100)
    worker_id = box.register()
    for rate, per_second, idle_seconds in (
        ("4/s", 4.0, 0.0),
        ("4/s", 4.0, 0.6),
        ("4/s", 4.0, 3600.0),
        ("30/min", 0.5, 0.0),
        ("30/min", 0.5, 3600.0),
        ("200/h", 1 / 18, 10.0),
        ("200/h", 1 / 18, 18.1),
    ):
        limit(box, rate)
        started = time.monotonic()
        box.rows(SPENT, idle_seconds)
        claims, wait = ask(box, worker_id)
        filled = (idle_seconds + time.monotonic() - started) * per_second
        least, most = (
            min(int(each), max(1, int(per_second))) for each in (idle_seconds * per_second, filled)
        )
        assert least <= len(claims) <= most, rate
        assert wait is not None
        assert 0 <= wait <= 1 / per_second + 0.001, rate


def test_both_bounds_hold_together(database: str) -> None:
    """The narrower one counts; and no more is taken than was asked for."""
    box = Queue(database)
    box.rows(BACKLOG, 20)
    worker_id = box.register()
    assert limit(box, "10/s", concurrency=3)
    box.rows(SPENT, 3600)
    assert len(ask(box, worker_id, events=2)[0]) == 2
    assert [len(ask(box, worker_id)[0]) for _ in range(2)] == [1, 0]
    assert limit(box, "1/s", concurrency=20)
    box.rows(SPENT, 3600)
    assert [len(ask(box, worker_id)[0]) for _ in range(2)] == [1, 0]


def test_a_limit_below_what_is_under_way_lets_none_begin(database: str) -> None:
    """What is being run is finished."""
    box = Queue(database)
    box.rows(BACKLOG, 5)
    worker_id = box.register()
    assert len(box.claim(worker_id, 3)) == 3
    assert limit(box, concurrency=2)
    assert ask(box, worker_id) == ((), math.inf)
    assert box.claim(worker_id) == ()


def test_a_claim_that_another_makes_is_not_waited_for(database: str) -> None:
    """P-FLOW: who holds the limit may be stuck; it is asked again soon, and other endpoints are not held up."""
    box = Queue(database)
    box.rows(BACKLOG, 5)
    worker_id = box.register()
    assert limit(box, concurrency=2)
    with psycopg.connect(database) as stuck:
        stuck.execute("SELECT FROM webhooks.endpoints FOR NO KEY UPDATE")
        assert ask(box, worker_id) == ((), limits.LOCKED_SECONDS)
    assert len(ask(box, worker_id)[0]) == 2


@pytest.mark.parametrize("held", ["limited", "paused"])
def test_an_event_of_a_hybrid_endpoint_that_is_held_is_left_to_a_worker(held: str, database: str) -> None:
    """It is recorded and answered 200 at once, and nothing of it is begun in the request (P-ACK, P-COUNT)."""

    async def story() -> None:
        box = Queue(database, endpoint={"mode": "hybrid"})
        box.rows(EFFECTS)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id])

        if held == "limited":
            assert limit(box, "1/h")
        else:
            await box.inbox.pause("billing")
        (receipt,) = await box.receive("evt_1")
        assert (receipt.status, receipt.outcome) == (200, Outcome.QUEUED)
        row = box.event()
        assert (row["state"], row["attempts"], row["claims"], row["worker_id"]) == ("waiting", 0, 0, None)
        if held == "limited":
            assert limit(box)
        else:
            assert await box.inbox.resume("billing")
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        (receipt,) = await box.receive("evt_2")
        assert receipt.outcome is Outcome.PROCESSED
        await box.close()

    asyncio.run(story())


def test_a_pause_and_a_limit_do_not_touch_each_other(database: str) -> None:
    """Whichever is taken back first, the other stays; and the audit says who did what, and what held before."""

    async def story() -> None:
        box = Queue(database)
        box.rows(BACKLOG, 5)
        worker_id = box.register()
        assert limit(box, concurrency=2)
        assert not limit(box, concurrency=2, by="bob")
        await box.inbox.pause("billing", by="ada")
        assert ask(box, worker_id) == ((), None)
        assert await box.inbox.resume("billing", by="ada")
        assert len(ask(box, worker_id)[0]) == 2
        await box.inbox.pause("billing", by="ada")
        assert limit(box, "1/s")
        assert limit(box)
        assert not limit(box)
        assert box.claim(worker_id) == ()
        assert await box.inbox.resume("billing", by="ada")
        assert len(box.claim(worker_id)) == 3
        assert box.rows("SELECT name FROM {s}.endpoints") == []
        told = box.rows("SELECT actor, action, reason, before, after FROM {s}.audit ORDER BY id")
        assert {row["actor"] for row in told} == {"ada"}
        assert [(row["action"], row["before"], row["after"]) for row in told if row["reason"]] == [
            ("limit", None, {"concurrency": 2}),
            ("limit", {"concurrency": 2}, {"rate_events": 1, "rate_seconds": 1}),
            ("unlimit", {"rate_events": 1, "rate_seconds": 1}, {}),
        ]
        assert [row["action"] for row in told] == [
            *("limit", "pause", "resume", "pause", "limit", "unlimit", "resume")
        ]
        await box.close()

    asyncio.run(story())


def test_what_is_limited_to_a_rate_is_drained_without_a_wait_for_what_is_not_due(database: str) -> None:
    """One event an hour, and one is due: a worker that drains does not stay for the hour."""

    async def story() -> None:
        box = Queue(database)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute("SELECT 1")

        await box.receive("evt_1")
        assert limit(box, "1/h")
        box.rows(SPENT, 3600)
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        assert await box.drain() == {}
        await box.close()

    asyncio.run(story())
