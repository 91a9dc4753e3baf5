"""Who has lost the lease commits nothing; whom the reaper may take back, and what that costs the event."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import EFFECTS, Queue, until
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.protocol.batch import process_batch, process_set
from webhook_inbox.protocol.process import RunOutcome, Work, fail, process
from webhook_inbox.protocol.run import Running
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.databases import apply_migrations

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"
EXPIRE = "UPDATE {s}.workers SET lease_ends_at = clock_timestamp() - interval '1 second'"


class Holder:
    """Hold an inbox whose handlers run only as far as the test takes them."""

    def __init__(self, dsn: str) -> None:
        self.box = Queue(dsn, lease_seconds=60)
        self.box.rows(EFFECTS)
        running = Running(
            sql=Statements.of("webhooks"), worker="mine", report=lambda *_: None, dead=lambda *_: None
        )
        self.to = running.processing(self.box.billing.plan)

        @self.box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])

        @self.box.billing.on_batch("set")
        def book_set(tx: Any, events: list[Any]) -> None:
            for event in events:
                tx.conn.execute(INSERT, [event.id, ""])

    async def claimed(self, *event_ids: str, event_type: str = "invoice.paid") -> tuple[Any, ...]:
        """Deliver and claim."""
        await self.box.receive(*event_ids, event_type=event_type)
        claims = self.box.claim(self.box.register("mine"))
        return tuple(sorted(claims, key=lambda claim: claim.event.id))

    def work(self, claim: Any) -> Work:
        """A claim with its handlers."""
        return Work(claim, self.box.billing.plan.handlers.matching(claim.event.type))


@pytest.fixture
def holder(database: str) -> Holder:
    """A fresh one."""
    return Holder(database)


TAKEN = {
    "claimed by another": "UPDATE {s}.inbox SET claims = claims + 1, attempts = attempts + 1",
    "given to another incarnation": "UPDATE {s}.inbox SET worker_id = worker_id + 1",
    "taken back": "UPDATE {s}.inbox SET state = 'retrying', worker_id = NULL",
    "processed": "UPDATE {s}.inbox SET state = 'processed', processed_at = now(), worker_id = NULL",
    "dead by an operator": "UPDATE {s}.inbox SET state = 'dead', worker_id = NULL",
    "deleted": "DELETE FROM {s}.inbox",
}


@pytest.mark.parametrize("taken", TAKEN)
def test_who_has_lost_the_claim_applies_nothing(taken: str, holder: Holder) -> None:
    """P-FENCE: whatever took it away: single, batch, set and the record of a failure change nothing."""

    async def story() -> None:
        one, two = await holder.claimed("evt_1", "evt_2")
        sets = await holder.claimed("evt_3", "evt_4", event_type="set")
        box = holder.box
        box.rows(TAKEN[taken])
        before = box.rows(
            "SELECT id, state, claims, attempts, worker_id, last_error FROM {s}.inbox ORDER BY id"
        )
        assert box.run(lambda sql: process(holder.work(one), holder.to)) is RunOutcome.LEASE_LOST
        batch = box.run(lambda sql: process_batch([holder.work(one), holder.work(two)], holder.to))
        assert batch == (RunOutcome.NOT_RUN, RunOutcome.NOT_RUN)
        handler = box.billing.plan.handlers.matching("set")[0]
        assert box.run(lambda sql: process_set(handler, sets, holder.to)) == batch
        from webhook_inbox.model.failure import Failure

        failed = box.run(
            lambda sql: fail(
                one,
                Failure(type="X"),
                shown="X",
                seconds=1.0,
                retry_in_seconds=1.0,
                costs_attempt=True,
                to=holder.to,
            )
        )
        assert failed is RunOutcome.LEASE_LOST
        after = box.rows(
            "SELECT id, state, claims, attempts, worker_id, last_error FROM {s}.inbox ORDER BY id"
        )
        assert after == before
        assert box.effects() == []
        assert box.rows("SELECT 1 FROM {s}.attempts") == []
        await box.close()

    asyncio.run(story())


def test_one_lost_claim_costs_its_batch_nothing(holder: Holder) -> None:
    """P-FENCE, P-FLOW: of a batch and of a set only the lost one is left out."""

    async def story() -> None:
        box = holder.box
        claims = await holder.claimed("evt_1", "evt_2", "evt_3")
        sets = await holder.claimed("set_1", "set_2", "set_3", event_type="set")
        box.rows("UPDATE {s}.inbox SET claims = claims + 1 WHERE event_id IN ('evt_2', 'set_2')")
        expected = (RunOutcome.PROCESSED, RunOutcome.NOT_RUN, RunOutcome.PROCESSED)
        assert (
            box.run(lambda sql: process_batch([holder.work(each) for each in claims], holder.to)) == expected
        )
        handler = box.billing.plan.handlers.matching("set")[0]
        assert box.run(lambda sql: process_set(handler, sets, holder.to)) == expected
        assert sorted(box.effects()) == ["evt_1", "evt_3", "set_1", "set_3"]
        await box.close()

    asyncio.run(story())


def test_nobody_takes_an_event_over_while_its_transaction_runs(database: str) -> None:
    """
    P-FENCE, P-ONCE: while the handler's transaction is open, neither the reaper nor a claim nor a raised token gets at
    the event, though its lease has ended; the effect commits once.
    """

    async def story() -> None:
        box = Queue(database)
        box.rows(EFFECTS)
        entered, go = threading.Event(), threading.Event()

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            entered.set()
            go.wait(20)

        await box.receive("evt_1")
        async with box.working():
            await until(entered.is_set)
            await asyncio.to_thread(box.rows, EXPIRE)
            assert await asyncio.to_thread(box.reap) == ()
            assert await asyncio.to_thread(box.claim, box.register()) == ()
            with psycopg.connect(box.dsn, autocommit=True) as conn:
                conn.execute("SET lock_timeout = '200ms'")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    conn.execute("UPDATE webhooks.inbox SET claims = claims + 1")
            go.set()
            await until(lambda: box.states() == {"processed": 1})
        assert box.effects() == ["evt_1"]
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_taken_over_between_claim_and_begin_the_effect_is_once(kind: str, database: str) -> None:
    """P-FENCE, P-ONCE: a worker that is slow to begin finds its event taken over and processed by another."""
    prepared: list[str] = []

    async def story() -> None:
        box = Queue(database, connections_max=3)  # one place: it is busy
        box.rows(EFFECTS)
        entered, go = threading.Event(), threading.Event()

        def prepare(event: Any) -> int:
            prepared.append(event.id)
            if len(prepared) == 1:
                entered.set()
                go.wait(20)
            return event.attempt  # type: ignore[no-any-return]  # the event is untyped here

        if kind == "sync":

            @box.billing.on("invoice.paid", prepare=prepare)
            def book(tx: Any, event: Any, attempt: int) -> None:
                tx.conn.execute(INSERT, [event.id, str(attempt)])
        else:

            @box.billing.on("invoice.paid", prepare=prepare)
            async def book_async(tx: Any, event: Any, attempt: int) -> None:
                await tx.conn.execute(INSERT, [event.id, str(attempt)])

        second = Queue(database)
        second.billing.include(box.billing.plan.handlers)
        await box.receive("evt_1")
        async with box.working() as first:
            await until(entered.is_set)
            await asyncio.to_thread(box.rows, EXPIRE)
            (returned,) = await asyncio.to_thread(box.reap)
            assert (returned.event_id, returned.state) == ("evt_1", "retrying")
            assert await second.drain() == {RunOutcome.PROCESSED: 1}
            go.set()
        assert first.result()[RunOutcome.LEASE_LOST] == 1
        rows = box.rows("SELECT event_id, note FROM effects")
        assert rows == [{"event_id": "evt_1", "note": "2"}]
        assert box.event()["state"] == "processed"
        await box.close()
        await second.close()

    asyncio.run(story())


def test_an_unexplained_death_counts_and_the_next_run_is_alone(database: str) -> None:
    """P-COUNT: each unexplained end of a lease is a crash and an attempt; after crashes_max it is dead, and told."""
    told: list[EventResult] = []

    async def story() -> None:
        box = Queue(database, crashes_max=3)

        @box.inbox.on_dead
        def died(endpoint: str, result: EventResult) -> None:
            told.append(result)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            raise AssertionError("the test's own workers claim it")

        await box.receive("evt_1")
        for crash in (1, 2):
            (claim,) = box.claim(box.register(f"w{crash}"))
            assert (claim.event.attempt, claim.crashes, claim.solitary) == (crash, crash - 1, crash > 1)
            box.rows(EXPIRE)
            (returned,) = box.reap()
            assert (returned.state, returned.worker) == ("retrying", f"w{crash}")
            row = box.event()
            assert (row["crashes"], row["solitary"], row["attempts"], row["worker_id"]) == (
                crash,
                True,
                crash,
                None,
            )
        box.claim(box.register("w3"))
        box.rows(EXPIRE)
        async with box.working():
            await until(lambda: box.event()["state"] == "dead")
            await until(lambda: told)
        assert [(result.event_id, result.state) for result in told] == [("evt_1", "dead")]
        history = [(row["outcome"], row["attempt"], row["worker"]) for row in box.attempts()]
        assert history == [("crashed", 1, "w1"), ("crashed", 2, "w2"), ("crashed", 3, "w3")]
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize(("crashes_max", "states"), [(1, {"dead": 2}), (2, {"dead": 1, "retrying": 1})])
def test_a_death_counts_against_all_that_was_held(
    crashes_max: int, states: dict[str, int], database: str
) -> None:
    """P-FLOW: with crashes_max=1 the innocent die with the guilty; from 2 on the guilty is tried, and dies, alone."""

    async def story() -> None:
        box = Queue(database)
        box.billing.on("invoice.paid")(lambda tx, event: None)
        await box.receive("evt_1", "evt_2")
        for crash in range(crashes_max):
            claims = box.claim(box.register(f"w{crash}"), 2 if crash == 0 else 1)
            assert [each.solitary for each in claims] == ([False, False] if crash == 0 else [True])
            box.rows(EXPIRE)
            box.reap(crashes_max)
        assert box.states() == states
        await box.close()

    asyncio.run(story())


def test_an_event_under_suspicion_runs_alone(database: str) -> None:
    """P-FLOW: it runs when nothing else does, and nothing else begins before it ends; and then the rest goes on."""
    active: set[str] = set()
    beside: dict[str, set[str]] = {}

    async def story() -> None:
        box = Queue(database)

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            active.add(event.id)
            for each in active:
                beside.setdefault(each, set()).update(active)
            await asyncio.sleep(0.02)
            active.discard(event.id)

        ids = [f"evt_{number}" for number in range(60)]
        await box.receive(*ids)
        box.rows(
            "UPDATE {s}.inbox SET crashes = 1, solitary = true, state = 'retrying' "
            "WHERE event_id IN ('evt_7', 'evt_30')"
        )
        assert await box.drain() == {RunOutcome.PROCESSED: 60}
        assert beside["evt_7"] == {"evt_7"}
        assert beside["evt_30"] == {"evt_30"}
        assert max(map(len, beside.values())) > 1, "the others run beside each other"
        assert not box.event("evt_7")["solitary"]
        await box.close()

    asyncio.run(story())


def test_nobody_claims_under_a_lease_that_has_ended(database: str) -> None:
    """P-CLOCK, P-FENCE: the server's clock says it, whatever a worker that was suspended believes."""

    async def story() -> None:
        box = Queue(database)

        @box.billing.on("*")
        async def book(tx: Any, event: Any) -> None:
            pass

        await box.receive("evt_1")
        worker_id = box.register()
        box.rows(EXPIRE)
        assert box.claim(worker_id) == ()
        assert box.states() == {"waiting": 1}
        assert len(box.claim(box.register("awake"))) == 1
        await box.close()

    asyncio.run(story())


def test_many_that_run_alone_let_the_others_go_on(database: str) -> None:
    """However many events run alone, each lets what is due elsewhere go first, and is claimed once (P-FLOW)."""
    order: list[str] = []

    async def story() -> None:
        box = Queue(database)
        other = box.endpoint("other")

        @box.billing.on("*")
        @other.on("*")
        async def book(tx: Any, event: Any) -> None:
            order.append(event.endpoint)

        await box.receive(*(f"evt_{number}" for number in range(40)))
        box.rows("UPDATE {s}.inbox SET crashes = 1, solitary = true, state = 'retrying'")
        await box.receive(*(f"evt_o{number}" for number in range(40)), to="other")
        assert await box.drain() == {RunOutcome.PROCESSED: 80}
        before = order[: len(order) - order[::-1].index("other")].count("billing")
        assert before <= 5, f"the other endpoint waited for {before} events that run alone"
        ((claims,),) = (row.values() for row in box.rows("SELECT sum(claims) FROM {s}.inbox"))
        assert claims <= 2 * 80, "claimed and given back, again and again"
        await box.close()

    asyncio.run(story())


def test_a_worker_that_was_told_to_stop_is_nobodys_crash(database: str) -> None:
    """P-COUNT: what a stopped worker still held comes back at no cost."""

    async def story() -> None:
        box = Queue(database)
        box.billing.on("invoice.paid")(lambda tx, event: None)
        await box.receive("evt_1")
        worker_id = box.register("stopped")
        box.claim(worker_id)
        box.rows("UPDATE {s}.workers SET stopped = true, lease_ends_at = clock_timestamp()")
        box.reap()
        row = box.event()
        assert (row["state"], row["crashes"], row["solitary"], row["attempts"]) == ("retrying", 0, False, 0)
        assert [each["outcome"] for each in box.attempts()] == ["interrupted"]
        await box.close()

    asyncio.run(story())


def test_a_restart_of_the_server_explains_the_end_of_a_lease(cluster: EmbeddedPostgres) -> None:
    """P-COUNT: a lease that ended while the server was started again costs neither an attempt nor a crash."""
    apply_migrations(cluster.dsn)

    async def story() -> None:
        box = Queue(cluster.dsn)
        box.billing.on("invoice.paid")(lambda tx, event: None)
        await box.receive("evt_1", "evt_2")
        await box.close()
        worker_id = box.register("before")
        assert len(box.claim(worker_id)) == 2
        await asyncio.to_thread(cluster.restart)
        box.rows(EXPIRE)
        assert len(box.reap()) == 2
        row = box.event()
        assert (row["state"], row["crashes"], row["solitary"], row["attempts"]) == ("retrying", 0, False, 0)
        later = box.register("after")
        box.claim(later)
        box.rows(EXPIRE)
        box.reap()
        assert box.event()["crashes"] == 1, "the restart explains what came before it, and nothing after"
        await box.close()

    asyncio.run(story())


def test_a_handler_that_blocks_the_loop_cannot_starve_the_heartbeat(database: str) -> None:
    """P-FENCE: an async def handler that blocks its loop for three leases keeps its claim: one run, one effect."""

    async def story() -> None:
        box = Queue(database, lease_seconds=0.5)
        box.rows(EFFECTS)
        blocked = threading.Event()

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            await tx.conn.execute(INSERT, [event.id, ""])
            blocked.set()
            time.sleep(1.5)

        reaped: list[Any] = []

        def watch() -> None:
            blocked.wait(20)
            ends_at = time.monotonic() + 1.2
            while time.monotonic() < ends_at:
                (row,) = box.rows(
                    "SELECT count(*) AS n FROM {s}.workers WHERE lease_ends_at < clock_timestamp()"
                )
                reaped.append(row["n"])
                reaped.extend(box.reap())
                time.sleep(0.1)

        watching = threading.Thread(target=watch)
        watching.start()
        await box.receive("evt_1")
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        watching.join(20)
        assert set(reaped) == {0}
        assert (box.effects(), box.event()["claims"]) == (["evt_1"], 1)
        await box.close()

    asyncio.run(story())


def test_a_worker_that_lost_its_lease_begins_another(database: str) -> None:
    """P-FENCE: forgotten by the database, a worker registers anew and works on."""

    async def story() -> None:
        box = Queue(database, lease_seconds=0.4)
        box.rows(EFFECTS)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])

        async with box.working():
            first = await until(lambda: [row["id"] for row in box.rows("SELECT id FROM {s}.workers")])
            box.rows("DELETE FROM {s}.workers")
            await until(
                lambda: [row["id"] for row in box.rows("SELECT id FROM {s}.workers")] not in ([], first)
            )
            await box.receive("evt_1")
            await until(lambda: box.states() == {"processed": 1})
        await box.close()

    asyncio.run(story())


def test_workers_that_are_long_gone_are_forgotten_but_not_their_events(database: str) -> None:
    """P-KEEP: a worker's row goes when nothing points to it; an event whose worker's row is gone comes back."""

    async def story() -> None:
        box = Queue(database)
        box.billing.on("invoice.paid")(lambda tx, event: None)
        await box.receive("evt_1")
        box.claim(box.register("gone"))
        box.register("idle")
        box.rows("DELETE FROM {s}.workers WHERE name = 'gone'")
        box.rows("UPDATE {s}.workers SET lease_ends_at = now() - interval '2 hours'")
        (returned,) = box.reap()
        assert (returned.event_id, returned.worker) == ("evt_1", "a worker that is gone")
        assert box.rows("SELECT 1 FROM {s}.workers") == []
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        await box.close()

    asyncio.run(story())


def test_every_start_of_a_worker_is_an_incarnation_of_its_own(database: str) -> None:
    """P-FENCE: two workers of one name never share a lease."""
    box = Queue(database)
    assert len({box.register("same"), box.register("same"), box.register("same")}) == 3
