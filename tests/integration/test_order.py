"""With order_by, events of one key run one at a time in order of arrival; tx.stale and prepare keep their word."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import defaultdict
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import EFFECTS, Queue, body_of, until
from webhook_inbox import GiveUp, Ignore, NotYet
from webhook_inbox.protocol.process import Processing, RunOutcome, Work, process
from webhook_inbox.protocol.run import Running
from webhook_inbox.sql.statements import Statements

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"
BY_CUSTOMER = {"order_by": "data.object.customer"}


def queue(dsn: str, **given: Any) -> Queue:
    """An inbox that keeps the order of each customer, with a table for effects."""
    made = Queue(dsn, **{"endpoint": BY_CUSTOMER, **given})
    made.rows(EFFECTS)
    return made


async def in_turn(box: Queue, *event_ids: str, customer: str = "c", **more: Any) -> None:
    """Deliver one after the other."""
    for event_id in event_ids:
        receipt = await box.deliver(body_of(event_id, customer=customer, **more))
        assert receipt.status == 200


@pytest.mark.parametrize("how", ["path", "function"])
def test_one_at_a_time_and_in_order_even_with_two_workers(how: str, database: str) -> None:
    """P-FLOW: 5 keys with 12 events each, two workers: within a key no two overlap, and each follows its elder."""
    overlaps: list[str] = []
    running: dict[str, str] = {}

    def customer_of(event: Any) -> object:
        return event.payload["data"]["object"]["customer"]

    def worker() -> Queue:
        box = Queue(
            database,
            endpoint={"order_by": "data.object.customer" if how == "path" else customer_of},
            batch_events_max=4,
            poll_seconds=0.02,
        )

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            customer = str(customer_of(event))
            if customer in running:
                overlaps.append(f"{event.id} beside {running[customer]}")
            running[customer] = event.id
            time.sleep(random.random() * 0.005)
            tx.conn.execute(INSERT, [event.id, customer])
            running.pop(customer, None)

        return box

    async def story() -> None:
        first, second = worker(), worker()
        first.rows(EFFECTS)
        for number in range(12):
            await asyncio.gather(
                *(first.deliver(body_of(f"evt_{number:02}_{c}", customer=f"c{c}")) for c in range(5))
            )
        async with first.working(), second.working():
            await until(lambda: first.states() == {"processed": 60})
        by_customer: dict[str, list[str]] = defaultdict(list)
        for row in first.rows("SELECT event_id, note FROM effects ORDER BY at"):
            by_customer[row["note"]].append(row["event_id"])
        assert all(ids == sorted(ids) and len(ids) == 12 for ids in by_customer.values())
        assert overlaps == []
        await first.close()
        await second.close()

    asyncio.run(story())


def test_a_failing_head_holds_its_key_and_no_other(database: str) -> None:
    """P-FLOW: while the head waits to be retried the later ones of its key wait too; others go on."""

    async def story() -> None:
        box = queue(database)
        broken = [True]

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            if event.id == "evt_1" and broken:
                raise ValueError
            tx.conn.execute(INSERT, [event.id, ""])

        await in_turn(box, "evt_1", "evt_2", "evt_3")
        await in_turn(box, "other_1", "other_2", customer="d")
        await box.deliver(body_of("keyless"))
        await box.drain()
        await box.drain()
        assert sorted(box.effects()) == ["keyless", "other_1", "other_2"]
        assert {
            row["attempts"]
            for row in box.rows("SELECT attempts FROM {s}.inbox WHERE event_id IN ('evt_2', 'evt_3')")
        } == {0}
        broken.clear()
        box.make_due()
        await box.drain()
        assert box.effects()[-3:] == ["evt_1", "evt_2", "evt_3"]
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("policy", ["skip", "hold", "hold for a while"])
def test_a_dead_head_does_as_configured(policy: str, database: str) -> None:
    """P-FLOW: skip lets the others pass; hold keeps them until an operator acts or hold_seconds_max ends."""

    async def story() -> None:
        box = queue(
            database,
            attempts_max=1,
            hold_seconds_max=3600 if policy == "hold for a while" else 0,
            endpoint={**BY_CUSTOMER, "dead_head": "skip" if policy == "skip" else "hold"},
        )

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            if event.id == "evt_1":
                raise GiveUp("no")
            tx.conn.execute(INSERT, [event.id, ""])

        await in_turn(box, "evt_1", "evt_2", "evt_3")
        await box.drain()
        await box.drain()
        assert box.event("evt_1")["state"] == "dead"
        if policy == "skip":
            assert box.effects() == ["evt_2", "evt_3"]
        else:
            assert box.effects() == []
            if policy == "hold":
                box.rows("UPDATE {s}.inbox SET state = 'ignored' WHERE event_id = 'evt_1'")
            else:
                box.rows(
                    "UPDATE {s}.inbox SET available_at = available_at - interval '2 hours' "
                    "WHERE event_id = 'evt_1'"
                )
            await box.drain()
            assert box.effects() == ["evt_2", "evt_3"]
        await box.close()

    asyncio.run(story())


def test_one_that_is_committed_late_never_runs_beside_a_younger(database: str) -> None:
    """P-FLOW: a lower id that becomes visible while a later event of its key runs waits for it."""

    async def story() -> None:
        box = queue(database)
        entered, go = threading.Event(), threading.Event()

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            if event.id == "evt_young":
                entered.set()
                go.wait(20)
            tx.conn.execute(INSERT, [event.id, ""])

        worker_id = box.register()
        with psycopg.connect(box.dsn) as late:
            late.execute(
                "INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes, "
                "order_key) VALUES ('stripe', 'billing', 'evt_old', 'invoice.paid', 'waiting', '', 1, 'c')"
            )
            await in_turn(box, "evt_young")
            (young,) = box.claim(worker_id)
            assert young.event.id == "evt_young"
        assert box.event("evt_old")["id"] < young.id
        assert box.claim(worker_id) == (), "a younger one of its key is leased"

        # Both claimed, as by two workers of which neither saw the other's: the key's own lock makes them take turns.
        box.rows("UPDATE {s}.inbox SET order_key = NULL WHERE event_id = 'evt_young'")
        (old,) = box.claim(worker_id)
        assert old.event.id == "evt_old"
        to = processing(box)
        runs = [
            asyncio.create_task(asyncio.to_thread(run_one, box, young, to)),
        ]
        await until(entered.is_set)
        runs.append(asyncio.create_task(asyncio.to_thread(run_one, box, old, to)))
        await until(lambda: box.rows("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))
        assert box.effects() == []
        go.set()
        assert await asyncio.gather(*runs) == [RunOutcome.PROCESSED, RunOutcome.PROCESSED]
        assert box.effects() == ["evt_young", "evt_old"]
        await box.close()

    asyncio.run(story())


def processing(box: Queue) -> Processing:
    """What a worker's plans need."""
    running = Running(sql=Statements.of("webhooks"), worker="w", report=lambda *_: None, dead=lambda *_: None)
    return running.processing(box.billing.plan)


def run_one(box: Queue, claim: Any, to: Processing) -> RunOutcome:
    """Process one claim on a connection of its own."""
    work = Work(claim, box.billing.plan.handlers.matching(claim.event.type))
    return box.run(lambda sql: process(work, to))


def test_an_event_whose_key_is_busy_waits_at_no_cost(database: str) -> None:
    """P-COUNT, P-FLOW: whose key another session holds longer than we wait comes again, without an attempt."""

    async def story() -> None:
        box = queue(database, duplicate_wait_seconds=0.2)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])

        await in_turn(box, "evt_1")
        await in_turn(box, "evt_2", customer="d")
        with psycopg.connect(box.dsn) as other:
            other.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended('webhook-inbox order billing c', 0))"
            )
            await box.drain()
            assert box.effects() == ["evt_2"]
            assert (box.event("evt_1")["state"], box.event("evt_1")["attempts"]) == ("retrying", 0)
        box.make_due()
        await box.drain()
        assert box.event("evt_1")["attempts"] == 1
        await box.close()

    asyncio.run(story())


def test_a_set_leaves_a_key_that_is_busy_alone(database: str) -> None:
    """An event whose key somebody else runs is not run in a set either; the others of the set are."""

    async def story() -> None:
        box = queue(database, duplicate_wait_seconds=0.2, connections_max=3)

        @box.billing.on_batch("invoice.paid")
        def book(tx: Any, given: list[Any]) -> None:
            for event in given:
                tx.conn.execute(INSERT, [event.id, ""])

        await box.receive("evt_1", customer="c")
        await box.receive("evt_2", customer="d")
        with psycopg.connect(box.dsn) as rival:
            rival.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended('webhook-inbox order billing c', 0))"
            )
            assert await box.drain() == {RunOutcome.RETRYING: 1, RunOutcome.PROCESSED: 1}
            assert box.effects() == ["evt_2"]
        assert box.event("evt_1")["attempts"] == 0
        await box.close()

    asyncio.run(story())


def test_an_event_that_the_function_cannot_place_is_recorded_without_order(database: str) -> None:
    """An order_by function that raises refuses nothing authentic: the event is recorded, and runs."""

    async def story() -> None:
        box = queue(database, endpoint={"order_by": lambda event: event.payload["nowhere"]})
        box.billing.on("invoice.paid")(lambda tx, event: None)
        (receipt,) = await box.receive("evt_1")
        assert receipt.status == 200
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_only_an_older_version_is_stale(kind: str, database: str) -> None:
    """tx.stale: lower is stale, equal and higher are not; each key by itself; a rolled back version leaves no trace."""
    seen: list[tuple[str, bool]] = []

    async def story() -> None:
        box = Queue(database, batch_events_max=20)

        def told(event: Any, stale: bool) -> None:
            seen.append((event.id, stale))
            if event.id == "evt_fails":
                raise ValueError

        if kind == "sync":

            @box.billing.on("invoice.paid")
            def book(tx: Any, event: Any) -> None:
                data = event.payload["data"]["object"]
                told(event, tx.stale(data["key"], data["version"]))
        else:

            @box.billing.on("invoice.paid")
            async def book_async(tx: Any, event: Any) -> None:
                data = event.payload["data"]["object"]
                told(event, await tx.stale(data["key"], data["version"]))

        story = [
            ("evt_1", "k", 5, False),
            ("evt_2", "k", 4, True),
            ("evt_3", "k", 5, False),
            ("evt_4", "k", 5.5, False),
            ("evt_5", "k", 5.25, True),
            ("evt_6", "other", 1, False),
            ("evt_7", "k", 2**70, False),
            ("evt_8", "k", 2**70 - 1, True),
            ("evt_fails", "k", 2**80, False),
            ("evt_9", "k", 2**75, False),
        ]
        for event_id, key, version, _ in story:
            await box.deliver(body_of(event_id, key=key, version=version))
            await box.drain()
        first_runs = list(dict.fromkeys(seen))  # the one that fails may have come again
        assert first_runs == [(event_id, stale) for event_id, _, _, stale in story]
        await box.close()

    asyncio.run(story())


def test_versions_of_one_key_take_turns(database: str) -> None:
    """P-ONCE: many versions of one object at once, in any order: what is applied last is the newest."""

    async def story() -> None:
        box = Queue(database, batch_events_max=1)
        box.rows("CREATE TABLE objects (id text PRIMARY KEY, version integer)")
        box.rows("INSERT INTO objects VALUES ('obj', 0)")

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            version = event.payload["data"]["object"]["version"]
            if tx.stale("obj", version):
                return
            time.sleep(random.random() * 0.003)
            tx.conn.execute("UPDATE objects SET version = %s", [version])

        versions = list(range(1, 61))
        random.shuffle(versions)
        await asyncio.gather(*(box.deliver(body_of(f"evt_{v}", version=v)) for v in versions))
        assert await box.drain() == {RunOutcome.PROCESSED: 60}
        assert box.rows("SELECT version FROM objects") == [{"version": 60}]
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_prepare_runs_outside_of_any_transaction(kind: str, database: str) -> None:
    """P-FLOW: while the prepare stage runs no session of ours is in a transaction; its answer reaches the handler."""
    lasting: list[set[tuple[int, Any]]] = []

    async def story() -> None:
        box = Queue(database, connections_max=4)
        box.rows(EFFECTS)

        def open_ones() -> set[tuple[int, Any]]:
            rows = box.rows(
                "SELECT pid, xact_start FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND backend_type = 'client backend' AND xact_start IS NOT NULL"
            )
            return {(row["pid"], row["xact_start"]) for row in rows}

        def look(event: Any) -> str:
            before = open_ones()  # a look for due events may be under way; it ends
            time.sleep(0.3)
            lasting.append(before & open_ones())
            return f"fetched {event.id} {event.attempt}"

        if kind == "sync":

            @box.billing.on("invoice.paid", prepare=look)
            def book(tx: Any, event: Any, fetched: str) -> None:
                tx.conn.execute(INSERT, [event.id, fetched])
        else:

            async def look_async(event: Any) -> str:
                before = open_ones()
                await asyncio.sleep(
                    0.3
                )  # a loop that stands still would hold what the worker has begun beside this
                lasting.append(before & open_ones())
                return f"fetched {event.id} {event.attempt}"

            @box.billing.on("invoice.paid", prepare=look_async)
            async def book_async(tx: Any, event: Any, fetched: str) -> None:
                await tx.conn.execute(INSERT, [event.id, fetched])

        await box.receive("evt_1")
        await box.drain()
        assert lasting == [set()]
        assert box.rows("SELECT note FROM effects") == [{"note": "fetched evt_1 1"}]
        await box.close()

    asyncio.run(story())


def test_prepare_decides_as_the_handler_does(database: str) -> None:
    """Its verdicts settle the event without the handler; its failures are retried; it runs again with each attempt."""
    prepared: list[tuple[str, int]] = []

    async def story() -> None:
        box = Queue(database)
        box.rows(EFFECTS)

        def prepare(event: Any) -> None:
            prepared.append((event.type, event.attempt))
            match event.type:
                case "ignored":
                    raise Ignore("not ours")
                case "dead":
                    raise GiveUp("gone")
                case "later":
                    raise NotYet("later", retry_in_seconds=60)
                case "fails":
                    raise LookupError
                case _:
                    pass

        @box.billing.on("*", prepare=prepare)
        def book(tx: Any, event: Any, _: None) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            if event.type == "fails_after" and event.attempt == 1:
                raise ValueError

        for kind in ("ignored", "dead", "later", "fails", "fails_after", "fine"):
            await box.deliver(body_of(f"evt_{kind}", kind))
        await box.drain()
        rows = {
            row["event_type"]: (row["state"], row["attempts"]) for row in box.rows("SELECT * FROM {s}.inbox")
        }
        assert rows == {
            "ignored": ("ignored", 1),
            "dead": ("dead", 1),
            "later": ("retrying", 0),
            "fails": ("retrying", 1),
            "fails_after": ("retrying", 1),
            "fine": ("processed", 1),
        }
        assert box.event("evt_dead")["last_error"] == "gone"
        box.make_due()
        await box.drain()
        assert prepared.count(("fails_after", 1)) == prepared.count(("fails_after", 2)) == 1
        assert sorted(box.effects()) == ["evt_fails_after", "evt_fine"]
        await box.close()

    asyncio.run(story())
