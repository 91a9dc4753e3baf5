"""What a worker does where an answer is lost, a lease lapses, or a thread never comes back."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from tests.fixtures.queue import EFFECTS, Queue, until
from webhook_inbox import Inbox
from webhook_inbox.drivers.psycopg_async import AsyncPsycopgRunner
from webhook_inbox.drivers.psycopg_sync import PsycopgDriver
from webhook_inbox.errors import ConfigurationError, StoreUnavailableError
from webhook_inbox.model.claim import Claim
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.process import RunOutcome, give_back
from webhook_inbox.protocol.run import Running, run_claims
from webhook_inbox.protocol.steps import Commit
from webhook_inbox.runtime import worker as worker_module
from webhook_inbox.runtime.flows import AsyncFlows
from webhook_inbox.runtime.heartbeat import Heartbeat
from webhook_inbox.runtime.notifier import Notifier
from webhook_inbox.sql.statements import Statements

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"


def booking(dsn: str, **given: Any) -> Queue:
    """An inbox whose handler has an effect."""
    box = Queue(dsn, **given)
    box.rows(EFFECTS)

    @box.billing.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        tx.conn.execute(INSERT, [event.id, ""])

    return box


@pytest.mark.parametrize("lost", ["the answer to the commit", "what follows it", "a row that is no claim"])
def test_a_claim_that_nobody_knows_of_is_run_all_the_same(
    lost: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-ONCE, P-COUNT: the claim is committed and nobody knows of it: its events come back at no cost."""
    claiming: list[bool] = []
    cut: list[bool] = []

    def probe(point: str) -> None:
        if point == "claim.commit.before":
            claiming.append(True)

    real = AsyncPsycopgRunner._perform
    real_begin, real_claim = worker_module.Worker._begin, Claim.of

    async def cut_once(self: Any, step: Any) -> Any:
        answer = await real(self, step)
        if isinstance(step, Commit) and claiming and not cut:
            cut.append(True)
            self._conn.pgconn.finish()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return answer

    def fail_once(self: Any, claims: Any) -> None:
        if claims and not cut:
            cut.append(True)
            raise LookupError("a defect")
        real_begin(self, claims)

    def read_once(row: Any, worker_id: Any) -> Any:
        if not cut:
            cut.append(True)
            raise ValueError("a newer release's word")
        return real_claim(row, worker_id)

    if lost == "the answer to the commit":
        monkeypatch.setattr(AsyncPsycopgRunner, "_perform", cut_once)
    elif lost == "a row that is no claim":
        monkeypatch.setattr(Claim, "of", read_once)
    else:
        monkeypatch.setattr(worker_module.Worker, "_begin", fail_once)

    async def story() -> None:
        box = booking(database, probe=probe, lease_seconds=2)
        ids = [f"evt_{number}" for number in range(5)]
        await box.receive(*ids)
        async with box.working():
            await until(lambda: box.states() == {"processed": 5}, 10)
        assert cut
        assert sorted(box.effects()) == ids
        rows = box.rows("SELECT attempts, crashes, solitary FROM {s}.inbox")
        assert rows == [{"attempts": 1, "crashes": 0, "solitary": False}] * 5
        await box.close()

    asyncio.run(story())


def test_an_outage_longer_than_the_lease_is_nobodys_crash(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-COUNT: cut off for longer than its lease, a worker ends its old incarnation, and blames no other at once."""
    away, mute = threading.Event(), threading.Event()
    real_renew = Heartbeat._renew

    def renew(self: Any, driver: Any) -> None:
        if not mute.is_set():
            real_renew(self, driver)

    monkeypatch.setattr(Heartbeat, "_renew", renew)
    real_transact = worker_module.Worker._transact
    under_way: list[Any] = []

    async def transact(self: Any, plan: Any) -> Any:
        if away.is_set():
            raise StoreUnavailableError("the database is away")
        under_way.append(plan)
        try:
            return await real_transact(self, plan)
        finally:
            under_way.remove(plan)

    monkeypatch.setattr(worker_module.Worker, "_transact", transact)

    async def story() -> None:
        box = Queue(database, lease_seconds=2.0)
        box.rows(EFFECTS)
        runs: list[str] = []
        first = asyncio.Event()

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            runs.append(event.id)
            if event.id == "evt_1" and runs.count("evt_1") == 1:
                first.set()
                await asyncio.sleep(0.5)
                await tx.conn.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            await tx.conn.execute(INSERT, [event.id, ""])

        await box.receive("evt_1")
        async with box.working():
            await first.wait()
            away.set()
            mute.set()
            await until(lambda: not under_way)  # a claim that had begun would find the other worker's event
            other = await asyncio.to_thread(box.register, "other", 1.5)
            await box.receive("evt_2")
            assert [each.event.id for each in await asyncio.to_thread(box.claim, other)] == ["evt_2"]
            await until(
                lambda: all(
                    not row["held"]
                    for row in box.rows("SELECT lease_ends_at > clock_timestamp() AS held FROM {s}.workers")
                )
            )
            away.clear()
            await until(lambda: len(box.rows("SELECT 1 FROM {s}.workers")) == 3, 10)
            mute.clear()
            await until(lambda: box.event("evt_1")["state"] == "processed", 10)
            assert box.event("evt_2")["state"] == "leased", "the other worker may only not have come back yet"
            await until(lambda: box.event("evt_2")["state"] == "processed", 10)
        row = box.event("evt_1")
        assert (row["attempts"], row["crashes"], row["solitary"]) == (1, 0, False)
        assert box.event("evt_2")["crashes"] == 1, "whoever does not come back has died"
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("stage", ["handler", "prepare"])
def test_a_thread_that_never_comes_back_takes_nothing_along(stage: str, database: str) -> None:
    """P-FLOW, P-COUNT: each run that hangs is a failed attempt; its thread, place and connection are replaced."""
    go = threading.Event()
    hung: list[str] = []

    def hang(event: Any) -> None:
        if event.id.startswith("hang"):
            hung.append(event.id)
            go.wait(60)

    async def story() -> None:
        # One place, and as many connections as there are events that hang.
        box = Queue(database, connections_max=3, handler_seconds_max=0.3, attempts_max=1, batch_events_max=1)
        box.rows(EFFECTS)

        @box.billing.on("invoice.paid", prepare=hang if stage == "prepare" else None)
        def book(tx: Any, event: Any, *prepared: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            hang(event)

        await box.receive("hang_1", "hang_2", "hang_3")
        async with box.working():
            await until(lambda: box.states() == {"dead": 3})
            await box.receive("evt_1", "evt_2")
            await until(lambda: box.states() == {"dead": 3, "processed": 2})
            go.set()
        assert sorted(hung) == ["hang_1", "hang_2", "hang_3"]
        history = [(row["outcome"], row["error_type"]) for each in hung for row in box.attempts(each)]
        assert history == [("failed", "webhook_inbox.errors.HandlerTimeoutError")] * 3
        assert sorted(box.effects()) == ["evt_1", "evt_2"], "what comes back late has no effect"
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", [ConnectionPool, AsyncConnectionPool])
def test_a_pool_that_connects_by_its_kwargs_has_a_worker(kind: Any, database: str) -> None:
    """P-FLOW: the worker's own sessions go where the user's pool goes, however that was said."""

    async def story() -> None:
        facts = conninfo_to_dict(database)
        pool = kind(f"dbname={facts.pop('dbname')}", kwargs={**facts, "autocommit": True}, open=False)
        opened = pool.open()
        if asyncio.iscoroutine(opened):
            await opened
        box = Queue(database, database=pool, lease_seconds=1.0)
        box.rows(EFFECTS)

        if kind is ConnectionPool:

            @box.billing.on("invoice.paid")
            def book(tx: Any, event: Any) -> None:
                tx.conn.execute(INSERT, [event.id, ""])
        else:

            @box.billing.on("invoice.paid")
            async def book_async(tx: Any, event: Any) -> None:
                await tx.conn.execute(INSERT, [event.id, ""])

        await box.receive("evt_1")
        async with box.working():
            held = "SELECT 1 FROM {s}.workers WHERE heartbeat_at > started_at"
            await until(lambda: box.states() == {"processed": 1} and box.rows(held), 10)
        await box.close()
        closed = pool.close()
        if asyncio.iscoroutine(closed):
            await closed

    asyncio.run(story())


def test_a_pool_that_no_session_of_ours_can_follow_is_refused() -> None:
    """P-FLOW: where the worker could not connect, the inbox says so when it is made, without the pool's secrets."""
    for given in ({"conninfo": "no such thing fake_secret"}, {"kwargs": lambda: {"host": "fake_secret"}}):
        pool: Any = ConnectionPool(open=False, **given)
        with pytest.raises(ConfigurationError) as refused:
            Inbox(pool)
        assert "fake_secret" not in str(refused.value)


def test_a_worker_that_ends_is_noticed(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P-CALM, P-QUIET: its end is logged at once, without what the exception says, and raised when the block ends."""

    async def ends(self: Any, *given: Any, **more: Any) -> None:
        raise LookupError("card 4242")

    monkeypatch.setattr(worker_module.Worker, "run", ends)

    async def story() -> None:
        box = Queue(database)
        async with box.inbox.running(worker=True):
            await until(lambda: "worker_ended" in [vars(each).get("event") for each in caplog.records])
            assert (await box.receive("evt_1"))[0].status == 200, "receiving goes on"

    with pytest.raises(LookupError):
        asyncio.run(story())
    assert "LookupError" in caplog.text
    assert "4242" not in caplog.text


def test_nobody_claims_under_a_lease_that_has_ended(database: str) -> None:
    """P-FENCE, P-CLOCK: a host that was suspended trusts its lease; the server knows better, and nothing is lost."""
    ended = (
        "UPDATE {s}.workers SET lease_ends_at = clock_timestamp() - interval '1 second' WHERE name <> 'other'"
    )

    async def story() -> None:
        box = booking(database, endpoint={"mode": "hybrid"})
        (first,) = await box.receive("evt_1")
        assert (first.outcome, box.event()["state"]) == ("processed", "processed")
        box.rows(ended)
        (second,) = await box.receive("evt_2")
        row = box.event("evt_2")
        assert (second.status, row["state"], row["attempts"], row["claims"]) == (200, "waiting", 0, 0)
        worker_id = box.register("suspended")
        box.rows(ended)
        assert box.claim(worker_id) == ()
        assert [each.event.id for each in box.claim(box.register())] == ["evt_2"]
        await box.close()

    asyncio.run(story())


def test_a_worker_makes_the_partitions_of_the_days_ahead(database: str) -> None:
    """P-CALM: nobody need run migrate for that; who may not make them works on without."""

    async def story() -> None:
        box = booking(database)
        names = "SELECT relname FROM pg_class WHERE relname LIKE 'bodies_2%' AND relkind = 'r' ORDER BY 1"
        ahead = [row["relname"] for row in box.rows(names)]
        for name in ahead[-3:]:
            box.rows(f"DROP TABLE {{s}}.{name}")
        async with box.working():
            await until(lambda: [row["relname"] for row in box.rows(names)] == ahead, 10)
        box.rows(f"DROP TABLE {{s}}.{ahead[-1]}")
        box.rows("DROP FUNCTION {s}.make_body_partitions")
        await box.receive("evt_1")
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        await box.close()

    asyncio.run(story())


def test_a_defect_after_the_caller_has_gone_keeps_the_payload_quiet(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P-QUIET: nobody waits for the delivery any more; its defect is logged, without what the exception says."""
    told: list[dict[str, Any]] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        box = booking(database)
        entered, go = asyncio.Event(), asyncio.Event()

        async def broken(self: Any, flow: Any, state: Any = None) -> None:
            flow.close()
            entered.set()
            await go.wait()
            raise LookupError("card 4242")

        with monkeypatch.context() as patched:
            patched.setattr(AsyncFlows, "run", broken)
            waiting = asyncio.create_task(box.deliver(b"{}"))
            await entered.wait()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            go.set()
            await until(lambda: "LookupError" in caplog.text, 5)
        gc.collect()
        await box.close()

    asyncio.run(story())
    assert told == []
    assert "4242" not in caplog.text


def test_the_notifier_outlives_whatever_it_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-CALM: an error of an unexpected kind does not end the thread, which nobody would replace."""
    runs: list[int] = []
    again = threading.Event()

    class Broken:
        """Fail once, in a way of its own."""

        def run(self, plan: Any) -> None:
            runs.append(1)
            if len(runs) == 1:
                raise LookupError("a defect")
            again.set()

        def close(self) -> None:
            """Do nothing."""

    monkeypatch.setattr("webhook_inbox.runtime.notifier._AFTER_FAILURE_SECONDS", 0.01)
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    driver: Any = Broken
    notifier = Notifier(driver, channel="c", sql=Statements.of("webhooks"))
    notifier.send_soon()
    ends_at = time.monotonic() + 5
    while not again.wait(0.05) and time.monotonic() < ends_at:
        notifier.send_soon()
    notifier.stop()
    assert again.is_set()


def test_losses_while_the_database_flaps_cost_no_attempt(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-COUNT: connections that are lost while nobody else gets through, either, say nothing about the event."""
    real, broken = run_claims, [True] * 5

    def failing(*given: Any, **more: Any) -> Any:
        if broken:
            broken.pop()
            raise StoreUnavailableError("the database is away")
        return real(*given, **more)

    def away(sql: Any) -> Any:
        raise StoreUnavailableError("the database is away")

    async def story() -> None:
        box = booking(database)
        await box.receive("evt_1")
        monkeypatch.setattr(worker_module, "run_claims", failing)
        monkeypatch.setattr(worker_module, "look", away, raising=False)
        async with box.working():
            await until(lambda: box.states() == {"processed": 1})
        assert not broken
        assert box.attempts() == []
        assert box.event()["attempts"] == 1
        await box.close()

    asyncio.run(story())


def test_a_forked_process_goes_by_a_name_of_its_own() -> None:
    """P-FENCE: a server that makes the inbox and forks then has as many workers as processes."""
    inbox = Inbox("postgresql://nobody@127.0.0.1:1/none")
    name = inbox.worker_name
    assert inbox.worker_name == name
    hears, says = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(says, inbox.worker_name.encode())
        os._exit(0)
    os.close(says)
    with os.fdopen(hears, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    assert name.split(":")[1] == str(os.getpid())
    assert said.split(":")[1] == str(child)
    assert said.split(":")[2] != name.split(":")[2]


def test_a_claim_that_cannot_be_given_back_is_no_lease_that_cannot_be_renewed(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P-CALM: the alert for a lost lease stays silent while the lease is held."""
    caplog.set_level("INFO")
    real, broken = give_back, [True]

    def failing(*given: Any, **more: Any) -> Any:
        if broken:
            broken.pop()
            raise StoreUnavailableError("the database is away")
        return real(*given, **more)

    async def story() -> None:
        box = booking(database)
        await box.receive("evt_1")
        worker_id = box.register("hybrid")
        (claim,) = box.claim(worker_id)
        running = Running(
            sql=Statements.of("webhooks"), worker="hybrid", report=lambda *_: None, dead=lambda *_: None
        )
        heartbeat = Heartbeat(
            lambda: PsycopgDriver(database, settings=Settings(connections_max=1)),
            name="hybrid",
            seconds=60,
            sql=running.sql,
        )
        monkeypatch.setattr("webhook_inbox.runtime.heartbeat.give_back", failing)
        heartbeat.began(worker_id, time.monotonic())
        heartbeat.give_back_later(claim, running.processing(box.billing.plan))
        await until(lambda: box.states() == {"waiting": 1}, 10)
        await asyncio.to_thread(heartbeat.stop, forget=True)
        await box.close()

    asyncio.run(story())
    told = [vars(each).get("event") for each in caplog.records]
    assert "claim_kept" in told
    assert "lease_not_renewed" not in told
