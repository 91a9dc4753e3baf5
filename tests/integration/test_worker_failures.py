"""What fails is retried by the law, its history survives the rollback, and nothing of the payload is told."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
import time
from collections import Counter
from typing import Any

import pytest

from tests.fixtures.queue import EFFECTS, Queue, body_of, until
from webhook_inbox import GiveUp, Ignore, NotYet
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.protocol.process import RunOutcome

pytestmark = pytest.mark.usefixtures("watched_moves")

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"
CANARY = "canary-5f1d9c"


class CanaryError(Exception):
    """What a handler raises that quotes the payload."""


def queue(dsn: str, **given: Any) -> Queue:
    """An inbox with a table for effects."""
    made = Queue(dsn, **given)
    made.rows(EFFECTS)
    return made


def test_a_failure_leaves_its_history_and_nothing_else(database: str) -> None:
    """P-ONCE, P-COUNT: effect and outbox are rolled back; who ran it, when, how long and what it met stay."""

    async def story() -> None:
        box = queue(database)
        box.rows("CREATE TABLE ledger (id text PRIMARY KEY)")
        box.rows("INSERT INTO ledger VALUES ('evt_1')")
        errors: list[BaseException] = []

        @box.inbox.on_error
        def heard(endpoint: str, error: BaseException) -> None:
            errors.append(error)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            tx.emit("Booked", {})
            tx.review("look")
            tx.conn.execute("SELECT pg_sleep(0.2)")
            tx.conn.execute("INSERT INTO ledger VALUES (%s)", [event.id])

        await box.receive("evt_1")
        assert await box.drain() == {RunOutcome.RETRYING: 1}
        (attempt,) = box.attempts()
        assert attempt["error_type"] == "psycopg.errors.UniqueViolation"
        assert attempt["sqlstate"] == "23505"
        assert "ledger_pkey" in attempt["error"]
        assert attempt["seconds"] >= 0.2
        assert "test_worker_failures.py" in attempt["traceback"]
        assert "book" in attempt["traceback"]
        assert str(os.getpid()) in attempt["worker"]
        (started,) = box.rows(
            "SELECT clock_timestamp() - started_at < interval '20 seconds' AND started_at < now() AS ok "
            "FROM {s}.attempts"
        )
        assert started["ok"]
        row = box.event()
        assert (row["state"], row["attempts"], row["worker_id"]) == ("retrying", 1, None)
        assert row["last_error"].startswith("psycopg.errors.UniqueViolation")
        assert (await asyncio.to_thread(box.effects)) == []
        assert box.rows("SELECT 1 FROM {s}.outbox UNION ALL SELECT 1 FROM {s}.reviews") == []
        assert [type(error).__name__ for error in errors] == ["UniqueViolation"]
        await box.close()

    asyncio.run(story())


def test_what_we_refuse_is_stored_whole(database: str) -> None:
    """A sentence of ours quotes no payload, and without it nobody could say what was wrong."""

    async def story() -> None:
        box = queue(database)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.emit("Booked", {CANARY})

        await box.receive("evt_1")
        await box.drain()
        said = box.event()["last_error"]
        assert said.endswith(" book: tx.emit: the payload is not JSON: TypeError")
        assert CANARY not in said
        await box.close()

    asyncio.run(story())


def test_no_payload_reaches_a_log_or_a_table(database: str, caplog: pytest.LogCaptureFixture) -> None:
    """P-QUIET: with the payload in every exception's text, only the bodies hold it; no log, error or history does."""

    async def story() -> None:
        box = queue(database, batch_events_max=20, attempts_max=2)

        @box.billing.on("*")
        def book(tx: Any, event: Any) -> None:
            text = event.payload["data"]["object"]["memo"]
            assert text == CANARY
            match event.type:
                case "raises":
                    raise CanaryError(text)
                case "chained":
                    try:
                        {}[text]
                    except KeyError as error:
                        raise CanaryError(text) from error
                case "database":
                    tx.conn.execute("SELECT %s::integer", [text])
                case "check":
                    tx.conn.execute("CREATE TEMP TABLE t (x text CHECK (x = ''))")
                    tx.conn.execute("INSERT INTO t VALUES (%s)", [text])
                case "not_yet":
                    raise NotYet("later", retry_in_seconds=1)
                case _:
                    tx.conn.execute(INSERT, [event.id, ""])

        types = ["raises", "chained", "database", "check", "not_yet", "fine"]
        with caplog.at_level(logging.DEBUG):
            for each in types:
                await box.deliver(body_of(f"evt_{each}", each, memo=CANARY))
            await box.drain()
            box.make_due()
            await box.drain()
        assert box.states() == {"dead": 4, "retrying": 1, "processed": 1}
        assert CANARY not in caplog.text
        tables = box.rows(
            "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'webhooks' "
            "AND table_type = 'BASE TABLE' AND table_name NOT LIKE 'bodies%%'"
        )
        for table in tables:
            assert not box.rows(f"SELECT 1 FROM {{s}}.{table['name']} t WHERE t::text LIKE '%%{CANARY}%%'"), (
                table
            )
        assert box.rows("SELECT 1 FROM {s}.attempts")
        await box.close()

    asyncio.run(story())


def test_the_log_says_what_each_run_came_to(database: str, caplog: pytest.LogCaptureFixture) -> None:
    """A failure and when it runs again, a death and why, a success and at which attempt; one record each."""

    async def story() -> None:
        box = queue(database, attempts_max=2)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            if event.id == "evt_2" or event.attempt == 1:
                raise ValueError

        for name in ("evt_1", "evt_2"):
            await box.receive(name)
        caplog.clear()
        for _ in range(2):
            await box.drain()
            box.make_due()
        await box.close()

    caplog.set_level(logging.INFO, logger="webhook_inbox")
    asyncio.run(story())
    texts = [
        (record.__dict__["event"], record.getMessage().partition("\n")[0])
        for record in caplog.records
        if record.name == "webhook_inbox"
    ]
    assert ("event_run", 'endpoint billing: event "evt_1": processed (attempt 2)') in texts
    assert ("event_dead", 'endpoint billing: event "evt_2" is dead: ValueError') in [
        (event, text[: text.find("ValueError") + 10]) for event, text in texts
    ]
    failures = [text for event, text in texts if event == "run_failed"]
    assert len(failures) == 3
    assert sum(bool(re.search(r"; it is retrying in \d+\.\d s$", text)) for text in failures) == 2
    assert sum(text.endswith("; it is dead") for text in failures) == 1


def test_attempts_end_after_attempts_max(database: str) -> None:
    """P-COUNT: with attempts_max the last failure leaves the event dead, and the user's hook hears it once."""
    told: list[tuple[str, EventResult]] = []

    async def story() -> None:
        box = queue(database, attempts_max=3)

        @box.inbox.on_dead
        def died(endpoint: str, result: EventResult) -> None:
            told.append((endpoint, result))

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            raise ValueError

        await box.receive("evt_1")
        for attempt in (1, 2, 3):
            await box.drain()
            row = box.event()
            assert (row["attempts"], row["claims"], row["state"]) == (
                attempt,
                attempt,
                "dead" if attempt == 3 else "retrying",
            )
            box.make_due()
        assert [(endpoint, result.event_id, result.state) for endpoint, result in told] == [
            ("billing", "evt_1", "dead")
        ]
        assert [each["attempt"] for each in box.attempts()] == [1, 2, 3]
        assert await box.drain() == {}
        await box.close()

    asyncio.run(story())


def test_retries_end_after_retry_hours_and_no_sooner(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-CLOCK: without attempts_max an event is retried until retry_hours after its first failure, however often."""
    monkeypatch.setattr("webhook_inbox.model.claim.random.random", lambda: 0.9)  # no retry within the drain

    async def story() -> None:
        box = queue(database, retry_hours=2)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            raise ValueError

        await box.receive("evt_1")
        for _ in range(12):
            await box.drain()
            box.make_due()
        row = box.event()
        assert (row["state"], row["attempts"]) == ("retrying", 12)
        (left,) = box.rows("SELECT extract(epoch FROM give_up_at - now())::float8 AS seconds FROM {s}.inbox")
        assert 7000 < left["seconds"] < 7200
        box.rows("UPDATE {s}.inbox SET give_up_at = clock_timestamp()")
        assert await box.drain() == {RunOutcome.DEAD: 1}
        await box.close()

    asyncio.run(story())


def test_no_attempt_starts_before_it_is_due(database: str) -> None:
    """P-CLOCK: the delay after each failure is below the ceiling of its attempt, on the server's clock."""

    async def story() -> None:
        box = queue(database, backoff_seconds_max=100, batch_events_max=20)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            raise ValueError

        await box.receive(*(f"evt_{number}" for number in range(40)))
        box.rows("UPDATE {s}.inbox SET attempts = 19, available_at = now() - interval '1 minute'")
        await box.drain()
        rows = box.rows(
            "SELECT extract(epoch FROM available_at - clock_timestamp())::float8 AS s FROM {s}.inbox"
        )
        delays = sorted(row["s"] for row in rows)
        assert delays[0] > -5
        assert delays[-1] < 100
        assert delays[30] - delays[10] > 10, "they are spread"
        assert await box.drain() == {} or delays[0] < 2
        await box.close()

    asyncio.run(story())


def test_not_yet_costs_nothing_and_has_a_deadline(database: str) -> None:
    """P-COUNT: NotYet comes again when it asked to, costs no attempt, and ends in dead after retry_hours."""

    async def story() -> None:
        box = queue(database, attempts_max=2)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            raise NotYet("no such order", retry_in_seconds=600)

        await box.receive("evt_1", "evt_2", "evt_3")
        for _ in range(5):
            await box.drain()
            (row,) = box.rows(
                "SELECT extract(epoch FROM available_at - now())::float8 AS s, * FROM {s}.inbox "
                "WHERE event_id = 'evt_1'"
            )
            assert (row["state"], row["attempts"]) == ("retrying", 0)
            assert 590 < row["s"] < 601
            box.make_due()
        assert {each["outcome"] for each in box.attempts()} == {"not_yet"}
        box.rows("UPDATE {s}.inbox SET give_up_at = clock_timestamp()")
        assert await box.drain() == {RunOutcome.DEAD: 3}
        assert box.effects() == []
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("verdict", "state"), [(Ignore, "ignored"), (GiveUp, "dead")])
def test_a_verdict_keeps_its_reviews_and_nothing_else(
    verdict: type[Exception], state: str, together: bool, database: str
) -> None:
    """P-ONCE: Ignore and GiveUp settle the event without its writes, with its reviews and its reason."""

    async def story() -> None:
        box = queue(database, connections_max=3, batch_events_max=20 if together else 1)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            if event.id == "evt_1":
                tx.emit("Booked", {})
                tx.review("look at it", details={"n": 1})
                raise verdict("not ours")

        await box.receive("evt_1", *(f"other_{number}" for number in range(5 if together else 0)))
        done = await box.drain()
        assert done[RunOutcome(state)] == 1
        assert "evt_1" not in box.effects()
        row = box.event()
        assert (row["state"], row["last_error"], row["attempts"]) == (state, "not ours", 1)
        (review,) = box.rows("SELECT * FROM {s}.reviews")
        assert (review["summary"], review["event_id"]) == ("look at it", "evt_1")
        assert box.rows("SELECT 1 FROM {s}.outbox WHERE inbox_id = %s", row["id"]) == []
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize(("verdict", "state"), [(Ignore, "ignored"), (GiveUp, "dead")])
@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("a\x00b\ud800", "a\N{REPLACEMENT CHARACTER}b?"),
        (LookupError("no plan"), "no plan"),
        ("x" * 9000, "x" * 2000),
    ],
    ids=["what no text may hold", "an exception", "a story"],
)
def test_a_verdict_counts_whatever_its_reason_is(
    verdict: type[Exception], state: str, reason: Any, kept: str, database: str
) -> None:
    """A reason that cannot be stored as it is turns no verdict into a failure that is retried for days."""

    async def story() -> None:
        box = queue(database)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            raise verdict(reason)

        await box.receive("evt_1")
        assert await box.drain() == {RunOutcome(state): 1}
        assert (box.event()["state"], box.event()["last_error"]) == (state, kept)
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_prepare_stage_that_was_cancelled_has_failed(kind: str, database: str) -> None:
    """P-COUNT, P-FLOW: a cancellation that is its own affair costs the attempt; it is no word to end for the worker."""

    def gives_up(event: Any) -> None:
        raise asyncio.CancelledError if event.id == "evt_1" else SystemExit

    async def waits_for_what_is_cancelled(event: Any) -> None:
        if event.id == "evt_2":
            raise SystemExit
        task = asyncio.create_task(asyncio.sleep(10))
        task.cancel()
        await task

    async def story() -> None:
        box = queue(database)
        prepare = gives_up if kind == "def" else waits_for_what_is_cancelled
        box.billing.on("invoice.paid", prepare=prepare)(lambda tx, event, _: None)
        await box.receive("evt_1", "evt_2")
        assert await box.drain() == {RunOutcome.RETRYING: 2}
        rows = box.rows("SELECT state, attempts FROM {s}.inbox")
        assert rows == [{"state": "retrying", "attempts": 1}] * 2
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    "statement",
    ["CREATE TEMP TABLE scratch (n integer) ON COMMIT DROP", "DECLARE rows CURSOR FOR SELECT 1"],
    ids=["a temporary table", "a cursor"],
)
def test_what_lives_until_the_commit_costs_no_mate_an_attempt(statement: str, database: str) -> None:
    """P-FLOW: an event that fails only because of those that share its transaction has one of its own, at no cost."""

    async def story() -> None:
        box = queue(database)

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            await tx.conn.execute(statement)
            await tx.conn.execute(INSERT, [event.id, ""])

        await box.receive(*(f"evt_{number}" for number in range(10)))
        assert await box.drain() == {RunOutcome.PROCESSED: 10}
        assert box.rows("SELECT 1 FROM {s}.attempts") == []
        assert len(box.effects()) == 10
        await box.close()

    asyncio.run(story())


def test_real_deadlocks_are_retried_at_no_cost(database: str) -> None:
    """P-ONCE: 20 rounds of two events that lock two rows in opposite order: both effects, one attempt each."""
    rounds = 20

    async def story() -> None:
        box = queue(database, batch_events_max=1)
        box.rows("CREATE TABLE accounts (id integer PRIMARY KEY, n integer DEFAULT 0)")
        box.rows("INSERT INTO accounts VALUES (1), (2)")
        runs: Counter[str] = Counter()
        meeting = threading.Barrier(2)

        @box.billing.on("x", "y")
        def book(tx: Any, event: Any) -> None:
            runs[event.id] += 1
            first, second = (1, 2) if event.type == "x" else (2, 1)
            tx.conn.execute("SET LOCAL deadlock_timeout = '20ms'")
            tx.conn.execute("UPDATE accounts SET n = n + 1 WHERE id = %s", [first])
            if runs[event.id] == 1:
                meeting.wait(20)
            tx.conn.execute("UPDATE accounts SET n = n + 1 WHERE id = %s", [second])
            tx.conn.execute(INSERT, [event.id, ""])

        async with box.working():
            for number in range(1, rounds + 1):
                await asyncio.gather(
                    box.deliver(body_of(f"evt_x{number}", "x")), box.deliver(body_of(f"evt_y{number}", "y"))
                )
                await until(lambda number=number: box.states() == {"processed": 2 * number})  # type: ignore[misc]  # bound at once
        assert len(box.effects()) == len(set(box.effects())) == 2 * rounds
        assert {row["n"] for row in box.rows("SELECT n FROM accounts")} == {2 * rounds}
        assert {row["attempts"] for row in box.rows("SELECT attempts FROM {s}.inbox")} == {1}
        assert box.rows("SELECT 1 FROM {s}.attempts") == []
        assert sum(runs.values()) > 2 * rounds, "there were deadlocks"
        await box.close()

    asyncio.run(story())


def test_serialization_failures_are_retried_and_bounded(database: str) -> None:
    """P-FLOW: 40001 is run again at once; one that never ends is a failure that waits its turn."""

    async def story() -> None:
        box = queue(database, batch_events_max=1)
        runs: Counter[str] = Counter()

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            runs[event.id] += 1
            await tx.conn.execute(INSERT, [event.id, ""])
            if event.id == "evt_always" or runs[event.id] < 3:
                await tx.conn.execute("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$")

        await box.receive("evt_1", "evt_always")
        assert await box.drain() == {RunOutcome.PROCESSED: 1, RunOutcome.RETRYING: 1}
        assert runs["evt_1"] == 3
        assert 2 < runs["evt_always"] < 10
        assert box.event("evt_1")["attempts"] == 1
        (attempt,) = box.attempts("evt_always")
        assert attempt["sqlstate"] == "40001"
        assert box.effects() == ["evt_1"]
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_connection_that_is_killed_costs_nothing_at_first(kind: str, database: str) -> None:
    """P-COUNT, P-FLOW: an event whose connection ends runs again at no cost; if always, it alone fails."""

    async def story() -> None:
        box = queue(database, batch_events_max=20, connections_max=4)
        runs: Counter[str] = Counter()
        kill = "SELECT pg_terminate_backend(pg_backend_pid())"

        def ends(event: Any) -> bool:
            runs[event.id] += 1
            return event.id == "evt_always" or (event.id == "evt_once" and runs[event.id] == 1)

        if kind == "sync":

            @box.billing.on("invoice.paid")
            def book(tx: Any, event: Any) -> None:
                tx.conn.execute(INSERT, [event.id, ""])
                if ends(event):
                    tx.conn.execute(kill)
        else:

            @box.billing.on("invoice.paid")
            async def book_async(tx: Any, event: Any) -> None:
                await tx.conn.execute(INSERT, [event.id, ""])
                if ends(event):
                    await tx.conn.execute(kill)

        mates = [f"evt_{number}" for number in range(10)]
        await box.receive("evt_once", "evt_always", *mates)
        async with box.working():
            await until(lambda: box.states()["processed"] == 11)
            await until(lambda: box.attempts("evt_always"))
        assert sorted(box.effects()) == sorted([*mates, "evt_once"])
        assert box.event("evt_once")["attempts"] == 1
        row = box.event("evt_always")
        failed = len(box.attempts("evt_always"))  # more than one where the next was due at once, by chance
        assert (row["state"], row["attempts"]) == ("retrying", failed)
        assert runs["evt_always"] < 12 * failed
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_handler_that_overruns_is_stopped_and_its_mates_go_on(kind: str, database: str) -> None:
    """P-FLOW: past handler_seconds_max, in SQL or beside it, the run is a failed attempt; its batch goes on."""

    async def story() -> None:
        box = queue(database, handler_seconds_max=0.6, batch_events_max=20, connections_max=4)

        if kind == "sync":

            @box.billing.on("invoice.paid")
            def book(tx: Any, event: Any) -> None:
                tx.conn.execute(INSERT, [event.id, ""])
                if event.id == "evt_slow":
                    tx.conn.execute("SELECT pg_sleep(30)")
        else:

            @box.billing.on("invoice.paid")
            async def book_async(tx: Any, event: Any) -> None:
                await tx.conn.execute(INSERT, [event.id, ""])
                if event.id == "evt_slow":
                    await asyncio.sleep(30)

        mates = [f"evt_{number}" for number in range(10)]
        await box.receive("evt_slow", *mates)
        done = await box.drain()
        assert done == {RunOutcome.PROCESSED: 10, RunOutcome.RETRYING: 1}
        (attempt,) = box.attempts("evt_slow")
        assert attempt["seconds"] < 5
        assert sorted(box.effects()) == sorted(mates)
        await box.close()

    asyncio.run(story())


def test_limits_that_an_operator_set_are_a_failure_with_its_name(database: str) -> None:
    """P-FLOW: an idle limit of the operator's ends a handler that pauses; it is retried, the next one applied."""

    async def story() -> None:
        box = queue(database, batch_events_max=1)
        box.rows(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = ''300ms''', "
            "current_database()); END $$"
        )

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            if event.id == "evt_pause":
                time.sleep(0.8)
            if event.id == "evt_pause_last":
                tx.conn.execute("SELECT 1")
                time.sleep(0.8)

        await box.receive("evt_pause", "evt_pause_last", "evt_1")
        done = await box.drain()
        assert done == {RunOutcome.PROCESSED: 1, RunOutcome.RETRYING: 2}
        for event_id in ("evt_pause", "evt_pause_last"):
            (attempt,) = box.attempts(event_id)
            assert attempt["sqlstate"] == "25P03", attempt
        assert box.effects() == ["evt_1"]
        await box.close()

    asyncio.run(story())


def test_a_signal_in_a_handler_is_not_its_failure(database: str) -> None:
    """P-CALM: SystemExit and the like, raised by a handler, fail its event and not the worker."""

    async def story() -> None:
        box = queue(database, attempts_max=1)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            if event.id == "evt_exit":
                raise SystemExit(3)
            if event.id == "evt_stop":
                raise StopIteration

        await box.receive("evt_exit", "evt_stop", "evt_1")
        done = await box.drain()
        assert done == {RunOutcome.PROCESSED: 1, RunOutcome.DEAD: 2}
        assert box.effects() == ["evt_1"]
        await box.close()

    asyncio.run(story())
