"""The worker runs each recorded event once, whatever its handler does and whoever holds its row."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from tests.fixtures.pooler import UNPREPARED
from tests.fixtures.queue import EFFECTS, Queue, in_time, until
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.claim import Retry
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.protocol.run import run_claims

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"


def queue(dsn: str, **given: Any) -> Queue:
    """An inbox with a table for effects."""
    made = Queue(dsn, **given)
    made.rows(EFFECTS)
    return made


def booking(box: Queue, *, kind: str = "sync", event_type: str = "invoice.paid") -> None:
    """Register a handler that has one effect."""
    if kind == "sync":

        @box.billing.on(event_type)
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, threading.current_thread().name])
    else:

        @box.billing.on(event_type)
        async def book_async(tx: Any, event: Any) -> None:
            await tx.conn.execute(INSERT, [event.id, threading.current_thread().name])


@pytest.mark.parametrize("batch", [1, 20])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_each_event_has_its_effect_once(kind: str, batch: int, database: str) -> None:
    """P-ONCE: def and async def handlers, single and in batches: every event processed, one effect each."""

    async def story() -> None:
        box = queue(database, batch_events_max=batch)
        booking(box, kind=kind)
        ids = [f"evt_{number:03}" for number in range(200)]
        await box.receive(*ids)
        done = await box.drain()
        assert done == {RunOutcome.PROCESSED: 200}
        assert sorted(box.effects()) == ids
        assert box.states() == {"processed": 200}
        rows = box.rows(
            "SELECT attempts, claims, worker_id, processed_at, effect_transaction = transaction AS together "
            "FROM {s}.inbox LEFT JOIN effects USING (event_id)"
        )
        assert all(row["attempts"] == row["claims"] == 1 and row["worker_id"] is None for row in rows)
        assert all(row["processed_at"] and row["together"] for row in rows), (
            "mark and effect in one transaction"
        )
        threads = {row["note"] for row in box.rows("SELECT DISTINCT note FROM effects")}
        assert ("MainThread" in threads) == (kind == "async"), "def runs on threads, async def on the loop"
        assert box.attempts("evt_000") == [], "the history holds failures only"
        await box.close()

    asyncio.run(story())


def test_a_handler_that_ends_its_transaction_applies_nothing(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-ONCE: COMMIT, ROLLBACK and a swallowed error, however spelled: retried, nothing applied, never processed."""
    monkeypatch.setattr("webhook_inbox.model.claim.random.random", lambda: 0.9)  # no retry within the drain

    async def story() -> None:
        box = queue(database, batch_events_max=20)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            match event.id:
                case "evt_commit":
                    tx.conn.commit()
                case "evt_commit_text":
                    tx.conn.execute("COMMIT")
                case "evt_rollback":
                    tx.conn.rollback()
                    tx.conn.execute(INSERT, [event.id, "after"])
                case "evt_rollback_text":
                    tx.conn.execute("ROLLBACK")
                case "evt_savepoint":
                    tx.conn.execute("ROLLBACK TO SAVEPOINT webhook_inbox")
                case "evt_swallow":
                    with contextlib.suppress(psycopg.Error):
                        tx.conn.execute("SELECT 1/0")
                case _:
                    pass

        bad = [
            "evt_commit",
            "evt_commit_text",
            "evt_rollback",
            "evt_rollback_text",
            "evt_swallow",
            "evt_savepoint",
        ]
        good = [f"evt_{number}" for number in range(14)]
        await box.receive(*bad, *good)
        done = await box.drain()
        assert done[RunOutcome.PROCESSED] == len(good)
        assert sorted(box.effects()) == sorted(good)
        for event_id in bad:
            row = box.event(event_id)
            assert (row["state"], row["attempts"]) == ("retrying", 1), event_id
        await box.close()

    asyncio.run(story())


def test_one_that_fails_stops_none_of_its_batch(database: str) -> None:
    """P-FLOW: of a batch in one transaction all but the one that fails are processed, in that one transaction."""

    async def story() -> None:
        box = queue(database, connections_max=3, batch_events_max=20)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            if event.id == "evt_bad":
                raise ValueError("no")

        await box.receive(
            *(f"evt_{number}" for number in range(10)), "evt_bad", *(f"evt_b{n}" for n in range(9))
        )
        done = await box.drain()
        assert done == {RunOutcome.PROCESSED: 19, RunOutcome.RETRYING: 1}
        assert len(box.effects()) == 19
        transactions = box.rows("SELECT count(DISTINCT transaction) AS n FROM effects")
        assert transactions[0]["n"] == 1, "one transaction for the batch"
        (attempt,) = box.attempts("evt_bad")
        assert (attempt["attempt"], attempt["claim"], attempt["outcome"]) == (1, 1, "failed")
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("whole", [True, False])
def test_a_set_based_handler_gets_all_that_is_due(
    whole: bool, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-ONCE, P-FLOW: a set-based handler gets its events at once; where that fails, in halves down to the culprit."""
    calls: list[int] = []
    monkeypatch.setattr(Retry, "delay", lambda *_: 2.0)  # no chance that it is due within the same drain

    async def story() -> None:
        box = queue(database, connections_max=3, batch_events_max=50)

        @box.billing.on_batch("invoice.paid")
        def book(tx: Any, events: list[Any]) -> None:
            calls.append(len(events))
            with tx.conn.cursor() as cursor:
                cursor.executemany(INSERT, [(event.id, "") for event in events])
            for event in events:
                tx.emit("Booked", {"event": event.id}, event=event)
            if not whole and any(event.id == "evt_3" for event in events):
                raise ValueError("no")

        await box.receive(*(f"evt_{number}" for number in range(30)))
        await box.drain()
        if whole:
            assert calls == [30]
            assert box.states() == {"processed": 30}
        else:
            assert calls[:2] == [30, 15]
            assert len(calls) <= 11, (
                calls
            )  # whichever of them it is: 30, 15, 8, 4, 2, 1, and the other halves
            assert box.states() == {"processed": 29, "retrying": 1}
        assert len(box.effects()) == 30 - (not whole)
        (outbox,) = box.rows("SELECT count(*) AS n, count(DISTINCT inbox_id) AS d FROM {s}.outbox")
        assert outbox["n"] == outbox["d"] == 30 - (not whole)
        await box.close()

    asyncio.run(story())


class Unhashable:
    """A handler that is an object, and cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]  # as a dataclass with eq has it

    def __call__(self, tx: Any, event: Any) -> None:
        """Have one effect."""
        tx.conn.execute(INSERT, [event.id, ""])


def test_a_handler_need_not_be_hashable(database: str) -> None:
    """P-FLOW: batches of an object's events run as those of a function."""

    async def story() -> None:
        box = queue(database, connections_max=3)
        box.billing.on("invoice.paid")(Unhashable())
        await box.receive(*(f"evt_{number}" for number in range(10)))
        assert await box.drain() == {RunOutcome.PROCESSED: 10}
        await box.close()

    asyncio.run(story())


def test_a_batch_gives_up_its_time_and_runs_the_rest_apart(database: str) -> None:
    """P-FLOW: when a batch has taken its time, what it has is committed, and what is left runs by itself."""

    async def story() -> None:
        box = queue(database, connections_max=3, batch_events_max=20)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            if event.id == "evt_0":
                tx.conn.execute("SELECT pg_sleep(1.1)")

        await box.receive("evt_0")  # the oldest, so the first of the batch
        await box.receive(*(f"evt_{number}" for number in range(1, 6)))
        assert await box.drain() == {RunOutcome.PROCESSED: 6}
        (row,) = box.rows("SELECT count(DISTINCT transaction) AS n FROM effects")
        assert row["n"] == 6
        assert {row["attempts"] for row in box.rows("SELECT attempts FROM {s}.inbox")} == {1}
        await box.close()

    asyncio.run(story())


def test_a_row_that_somebody_has_locked_holds_itself_only(database: str) -> None:
    """P-FLOW: an operator's lock on one event: its mates go on at once, and it runs when the lock is gone."""

    async def story() -> None:
        box = queue(database, connections_max=4, duplicate_wait_seconds=0.3, batch_events_max=20)
        started, go = threading.Event(), threading.Event()

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            if event.id == "evt_first":
                started.set()
                go.wait(20)
            tx.conn.execute(INSERT, [event.id, ""])

        await box.receive("evt_first")
        async with box.working():
            # Claimed, and then locked before it is run: the lock comes between claim and begin.
            await until(started.is_set)
            await box.receive(*(f"evt_{number}" for number in range(8)))
            go.set()
            await until(lambda: box.states()["processed"] == 9)

            with psycopg.connect(box.dsn) as operator:
                await box.inbox.pause("billing")
                await box.receive("evt_locked", "evt_free")
                worker = box.rows("SELECT id FROM {s}.workers ORDER BY id DESC LIMIT 1")[0]["id"]
                assert worker
                operator.execute("SELECT FROM webhooks.inbox WHERE event_id = 'evt_locked' FOR UPDATE")
                await box.inbox.resume("billing")
                await until(lambda: box.event("evt_free")["state"] == "processed")
                await box.receive("evt_later")
                await until(lambda: box.event("evt_later")["state"] == "processed", 2)
                assert box.event("evt_locked")["state"] == "waiting"
            await until(lambda: box.event("evt_locked")["state"] == "processed")
        assert len(box.effects()) == 12
        await box.close()

    asyncio.run(story())


def test_a_claimed_row_that_is_locked_comes_back_by_itself(database: str) -> None:
    """P-FLOW, P-COUNT: locked after its claim for longer than any wait: given back at no cost."""

    async def story() -> None:
        box = queue(database, connections_max=3, duplicate_wait_seconds=0.2, batch_events_max=1)
        prepared, go = threading.Event(), threading.Event()

        def prepare(event: Any) -> str:
            prepared.set()
            go.wait(20)
            return ""

        @box.billing.on("invoice.paid", prepare=prepare)
        def book(tx: Any, event: Any, _: str) -> None:
            tx.conn.execute(INSERT, [event.id, ""])

        booking(box, event_type="invoice.sent")
        await box.receive("evt_1")
        async with box.working():
            await until(prepared.is_set)  # claimed and committed; its transaction has not begun
            with psycopg.connect(box.dsn) as operator:
                operator.execute("SELECT FROM webhooks.inbox WHERE event_id = 'evt_1' FOR UPDATE")
                go.set()
                await asyncio.sleep(1.5)
                assert box.event()["state"] == "leased"
                await box.receive("evt_2", event_type="invoice.sent")
                await until(lambda: box.event("evt_2")["state"] == "processed", 3)
            await until(lambda: box.event()["state"] == "processed", 10)
        assert sorted(box.effects()) == ["evt_1", "evt_2"]
        assert box.event()["attempts"] == 1
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_run_that_ends_unexpectedly_is_given_back(
    kind: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-FLOW: a defect in a run leaves no event leased by a living worker; the event runs again."""
    real, broken = run_claims, [True, True]

    def failing(*given: Any, **more: Any) -> Any:
        if broken:
            broken.pop()
            raise LookupError("a defect")
        return real(*given, **more)

    async def story() -> None:
        box = queue(database)
        booking(box, kind=kind)
        await box.receive("evt_1", "evt_2", "evt_3")
        monkeypatch.setattr("webhook_inbox.runtime.worker.run_claims", failing)
        async with box.working():
            await until(lambda: box.states() == {"processed": 3})
        assert sorted(box.effects()) == ["evt_1", "evt_2", "evt_3"]
        await box.close()

    asyncio.run(story())


def test_slow_handlers_never_fight_for_connections(database: str) -> None:
    """P-FLOW: three endpoints with a backlog of slow events on a small pool: none waits in vain for a connection."""

    async def story() -> None:
        box = queue(database, connections_max=5, connection_wait_seconds=0.3, batch_events_max=2)
        for name in ("a", "b", "c"):

            @box.endpoint(name).on("invoice.paid")
            def book(tx: Any, event: Any) -> None:
                tx.conn.execute("SELECT pg_sleep(0.25)")
                tx.conn.execute(INSERT, [event.id, ""])

        booking(box)
        await asyncio.gather(*(box.receive(*(f"{name}_{n}" for n in range(8)), to=name) for name in "abc"))
        done = await box.drain()
        assert done == {RunOutcome.PROCESSED: 24}
        assert {row["claims"] for row in box.rows("SELECT claims FROM {s}.inbox")} == {1}, (
            "nothing was given back"
        )
        await box.close()

    asyncio.run(story())


def test_a_small_pool_of_the_user_is_enough(database: str) -> None:
    """P-FLOW: the worker begins no more than the pool that it was given can carry."""

    async def story(pool: Any) -> None:
        box = queue(database, database=pool, connection_wait_seconds=0.3, batch_events_max=1)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute("SELECT pg_sleep(0.2)")
            tx.conn.execute(INSERT, [event.id, ""])

        await box.receive(*(f"evt_{n}" for n in range(8)))
        assert await box.drain() == {RunOutcome.PROCESSED: 8}
        assert {row["claims"] for row in box.rows("SELECT claims FROM {s}.inbox")} == {1}
        await box.close()

    with ConnectionPool(database, min_size=1, max_size=3, kwargs=UNPREPARED) as pool:
        asyncio.run(story(pool))


def test_drain_ends_though_something_is_held(database: str) -> None:
    """Draining ends when nothing can be run: not for a paused endpoint, a held key, or a locked row."""

    async def story() -> None:
        box = queue(database, endpoint={"order_by": "data.object.customer"}, attempts_max=1)
        paused = box.endpoint("paused")

        @paused.on("invoice.paid")
        def never(tx: Any, event: Any) -> None:
            raise AssertionError("it is paused")

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            if event.id == "evt_head":
                raise ValueError("no")
            tx.conn.execute(INSERT, [event.id, ""])

        await box.inbox.pause("paused")
        await box.receive("evt_paused", to="paused")
        await box.receive("evt_head", customer="c")
        await box.receive("evt_held", customer="c")
        await box.receive("evt_locked", "evt_free")
        with psycopg.connect(box.dsn) as operator:
            operator.execute("SELECT FROM webhooks.inbox WHERE event_id = 'evt_locked' FOR UPDATE")
            done = await in_time(box.inbox.work(drain=True), 10)
        assert done == {RunOutcome.DEAD: 1, RunOutcome.PROCESSED: 1}
        assert box.states() == {"dead": 1, "processed": 1, "waiting": 3}
        await box.close()

    asyncio.run(story())


def test_limits_of_the_server_are_set_for_each_transaction_alone(database: str) -> None:
    """P-FLOW: the handler finds the time limits of its transaction; the session keeps its own."""
    seen: list[tuple[str, ...]] = []

    async def story() -> None:
        box = queue(database, handler_seconds_max=7)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            names = (
                "statement_timeout",
                "idle_in_transaction_session_timeout",
                "lock_timeout",
                "synchronous_commit",
                "transaction_isolation",
            )
            seen.append(tuple(tx.conn.execute(f"SHOW {name}").fetchone()[0] for name in names))

        await box.receive("evt_1", "evt_2", "evt_3")
        await box.drain()
        assert set(seen) == {("8s", "8s", "0", "on", "read committed")}
        await box.close()

    asyncio.run(story())


def test_stop_gives_back_what_never_began(database: str) -> None:
    """P-COUNT: told to stop, a worker finishes what runs and gives back the rest, at no cost."""

    async def story() -> None:
        box = queue(database, connections_max=3, batch_events_max=1, concurrency_max=1)
        entered, go = threading.Event(), threading.Event()

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            entered.set()
            go.wait(20)
            tx.conn.execute(INSERT, [event.id, ""])

        await box.receive(*(f"evt_{number}" for number in range(5)))
        async with box.working():
            await until(entered.is_set)
            threading.Timer(0.3, go.set).start()
        states = box.states()
        assert states["leased"] == 0
        assert states["processed"] >= 1
        for row in box.rows("SELECT * FROM {s}.inbox WHERE state = 'waiting'"):
            assert (row["attempts"], row["crashes"], row["worker_id"]) == (0, 0, None)
        (worker,) = box.rows("SELECT * FROM {s}.workers")
        assert worker["stopped"]
        await box.drain()
        assert len(box.effects()) == 5
        await box.close()

    asyncio.run(story())


def test_an_odd_schema_name_serves_everything(empty_database: str) -> None:
    """Queued, ordered, guarded by versions, retried and processed under a schema name that wants quoting."""
    from webhook_inbox.testing.databases import apply_migrations

    schema = 'Odd "schema" %s 100% {x} ⚙'
    apply_migrations(empty_database, schema)

    async def story() -> None:
        box = queue(
            empty_database, schema=schema, endpoint={"order_by": "data.object.customer", "keep": "digest"}
        )

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            if event.attempt == 1 and event.id == "evt_1":
                raise ValueError("once")
            if not await tx.stale("k", 1):
                await tx.conn.execute(INSERT, [event.id, ""])

        hybrid = box.endpoint("hybrid", mode="hybrid")

        @hybrid.on("invoice.paid")
        async def book_now(tx: Any, event: Any) -> None:
            await tx.conn.execute(INSERT, [event.id, ""])

        await box.receive("evt_1", "evt_2", customer="c")
        await box.receive("evt_3", to="hybrid")
        await box.inbox.pause("billing")
        await box.inbox.resume("billing")
        async with box.working():
            await until(lambda: box.event("evt_1")["state"] != "waiting")
            box.make_due()
            await until(lambda: box.all_processed(3))
        assert sorted(box.effects()) == ["evt_1", "evt_2", "evt_3"]
        assert [row["n"] for row in box.rows("SELECT count(*) AS n FROM {s}.bodies")] == [1], (
            "hybrid keeps its body"
        )
        await box.close()

    asyncio.run(story())


def test_what_a_handler_sets_for_itself_reaches_no_other_event(database: str) -> None:
    """P-ONCE, P-FLOW: SET LOCAL outlives a savepoint; where one is left so, each event gets its own transaction."""

    async def story() -> None:
        box = queue(database, connections_max=3, batch_events_max=20)
        box.rows("CREATE SCHEMA tenant")
        box.rows("CREATE TABLE tenant.effects (LIKE public.effects INCLUDING ALL)")

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            if event.id.startswith("evt_tenant"):
                tx.conn.execute("SET LOCAL search_path = tenant")
            tx.conn.execute(INSERT, [event.id, ""])

        await box.receive(*(f"evt_{who}_{number}" for number in range(10) for who in ("tenant", "public")))
        done = await box.drain()
        assert done == {RunOutcome.PROCESSED: 20}
        for schema, who in (("tenant", "tenant"), ("public", "public")):
            rows = box.rows(f"SELECT event_id FROM {schema}.effects")
            assert sorted(row["event_id"] for row in rows) == [f"evt_{who}_{number}" for number in range(10)]
        await box.close()

    asyncio.run(story())


def test_a_handler_that_leaves_statements_under_way_spoils_nothing(database: str) -> None:
    """P-FLOW: gather() raises the first error and leaves the rest to run; they end before the session is ours again."""

    async def story() -> None:
        box = queue(database, connections_max=3, batch_events_max=20)

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            texts = ["SELECT 1/0", "SELECT pg_sleep(0.01)", "SELECT pg_sleep(0.01)"]
            if event.id.startswith("evt_bad"):
                await asyncio.gather(*(tx.conn.execute(text) for text in texts))
            await tx.conn.execute(INSERT, [event.id, ""])

        good = [f"evt_{number}" for number in range(6)]
        await box.receive("evt_bad_1", *good[:3], "evt_bad_2", *good[3:])
        done = await box.drain()
        assert done[RunOutcome.PROCESSED] == len(good)
        assert sorted(box.effects()) == good
        await box.close()

    asyncio.run(story())


def test_a_decorator_without_its_types_is_refused_at_once(database: str) -> None:
    """``@endpoint.on`` without parentheses would register nothing, and each event would be ignored."""
    box = queue(database)

    def book(tx: Any, event: Any) -> None:
        """Never registered."""

    for decorator in (box.billing.on, box.billing.on_batch):
        with pytest.raises(ConfigurationError, match="needs the event types"):
            decorator(book)  # type: ignore[arg-type]
