"""A plan that is interrupted from outside leaves no connection within a transaction, and half of nothing."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Generator
from functools import partial
from typing import Any, TypeAlias

import psycopg
import pytest

from tests.conformance.test_drivers_pool import assert_idle, count
from tests.fixtures.arrivals import item, recording
from tests.fixtures.benches import EVERY
from tests.fixtures.drivers import run_script_async
from tests.fixtures.programs import eventually
from tests.fixtures.worlds import say
from webhook_inbox.drivers.psycopg_async import AsyncPsycopgDriver
from webhook_inbox.drivers.psycopg_settings import libpq_dsn
from webhook_inbox.errors import HandlerTimeoutError
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.handlers import Handler, Pattern
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.recording import Item
from webhook_inbox.protocol.steps import Plan

Steps: TypeAlias = Generator[Any, Any, None]
STEPS = ("begin", "record_event", "run", "seal_effect", "commit")
POINTS = [f"record_one.{step}.{when}" for step in STEPS for when in ("before", "after")]
SETTINGS = Settings(connections_max=1, connection_wait_seconds=5.0)
ON_LOOPS, ON_THREADS = (
    pytest.mark.parametrize(
        "kind_of_bench", [each for each in EVERY if each.kind == kind], ids=lambda each: each.label
    )
    for kind in ("async", "sync")
)


def writes(tx: Any, event: Any) -> Steps:
    """Write an effect."""
    yield say(tx.conn, "INSERT INTO effect VALUES (1)")


def committed(witness: psycopg.Connection[Any]) -> tuple[int, int]:
    """How many effects and events were committed."""
    row = witness.execute("SELECT count(*) FROM webhooks.inbox").fetchone()
    assert row is not None
    return count(witness), int(row[0])


def plan_of(given: Item) -> Plan[EventResult]:
    """Record one event."""
    return record_one(given, recording())


@ON_LOOPS
@pytest.mark.parametrize("point", POINTS)
def test_a_task_that_is_cancelled_at_any_step_leaves_all_or_nothing(
    database: str, effects: psycopg.Connection[Any], kind_of_bench: Any, point: str
) -> None:
    """P-ONCE: cancelled before the COMMIT is answered or after; the resend settles it, and the connection is idle."""
    armed = True

    def probe(reached: str) -> None:
        nonlocal armed
        if armed and reached == point:
            armed = False
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    bench = kind_of_bench(database, settings=SETTINGS, probe=probe)
    given = item(bench.handler(writes))
    try:
        with pytest.raises(concurrent.futures.CancelledError):
            bench.run(lambda: plan_of(given))
        assert not armed
        assert_idle(effects)
        assert committed(effects) in {(0, 0), (1, 1)}
        before = committed(effects)[1]
        resent = bench.run(lambda: plan_of(given))
        assert resent.outcome is (Outcome.DUPLICATE if before else Outcome.PROCESSED)
        assert committed(effects) == (1, 1)
    finally:
        bench.close()


@ON_LOOPS
@pytest.mark.parametrize("where", ["statement", "elsewhere"])
def test_a_task_that_is_cancelled_while_its_handler_waits_stops_it(
    database: str, effects: psycopg.Connection[Any], kind_of_bench: Any, where: str
) -> None:
    """P-ONCE: a statement is cancelled on the server too; nothing goes on behind the caller's back."""
    bench = kind_of_bench(database, settings=SETTINGS)
    inside = threading.Event()

    def waits(tx: Any, event: Any) -> Steps:
        yield say(tx.conn, "INSERT INTO effect VALUES (1)")
        inside.set()
        yield say(tx.conn, "SELECT pg_sleep(60)") if where == "statement" else asyncio.sleep(60)

    given = item(bench.handler(waits))

    def sleeping() -> bool:
        asleep = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
        return effects.execute(asleep).fetchone() is not None

    async def cancelled() -> None:
        task = asyncio.create_task(bench.driver.run(lambda: plan_of(given)))
        await asyncio.to_thread(inside.wait, 30)
        if where == "statement":  # the server ignores what comes to cancel a statement before it has begun it
            await asyncio.to_thread(eventually, sleeping, what="the server runs the statement")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    try:
        bench.loop.run(cancelled())
        assert_idle(effects)
        assert committed(effects) == (0, 0)
        again = item(bench.handler(writes))
        assert bench.run(lambda: plan_of(again)).outcome is Outcome.PROCESSED
    finally:
        bench.close()


@ON_LOOPS
def test_a_handler_that_ignores_its_time_limit_is_rolled_back_all_the_same(
    database: str, effects: psycopg.Connection[Any], kind_of_bench: Any
) -> None:
    """P-ONCE: it swallows the cancellation and returns as if nothing were; it was out of time."""
    bench = kind_of_bench(database, settings=SETTINGS)

    def stubborn(tx: Any, event: Any) -> Steps:
        yield say(tx.conn, "INSERT INTO effect VALUES (1)")
        with contextlib.suppress(asyncio.CancelledError):
            yield asyncio.sleep(60)

    def slow(tx: Any, event: Any) -> Steps:
        yield say(tx.conn, "INSERT INTO effect VALUES (1)")
        yield asyncio.sleep(60)

    try:
        for script in (stubborn, slow):
            given = item(bench.handler(script))
            with pytest.raises(HandlerTimeoutError):
                bench.run(partial(record_one, given, recording(handler_seconds_max=0.2)))
            assert committed(effects) == (0, 0)
            assert_idle(effects)
    finally:
        bench.close()


@ON_THREADS
def test_an_interrupt_from_the_keyboard_goes_through_a_thread(
    database: str, effects: psycopg.Connection[Any], kind_of_bench: Any
) -> None:
    """Ctrl-C in a handler ends the program as it should, and the transaction with it."""
    bench = kind_of_bench(database, settings=SETTINGS)
    given = item(bench.handler(interrupted))
    try:
        with pytest.raises(KeyboardInterrupt):
            bench.run(lambda: plan_of(given))
        assert_idle(effects)
        assert committed(effects) == (0, 0)
        again = item(bench.handler(writes))
        assert bench.run(lambda: plan_of(again)).outcome is Outcome.PROCESSED
    finally:
        bench.close()


def interrupted(tx: Any, event: Any) -> Steps:
    """Write, and be interrupted."""
    yield say(tx.conn, "INSERT INTO effect VALUES (1)")
    raise KeyboardInterrupt


def test_an_interrupt_from_the_keyboard_goes_through_an_event_loop(
    database: str, effects: psycopg.Connection[Any]
) -> None:
    """As on a thread; and the driver serves the next loop with a pool of its own."""

    async def once(script: Any) -> EventResult:
        driver = AsyncPsycopgDriver(libpq_dsn(database), settings=SETTINGS)

        async def handler(tx: Any, event: Any) -> None:
            await run_script_async(script(tx, event))

        given = item(handler_from(handler))
        try:
            return await driver.run(lambda: plan_of(given))
        finally:
            await driver.close()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(once(interrupted))
    assert committed(effects) == (0, 0)
    assert_idle(effects)
    assert asyncio.run(once(writes)).outcome is Outcome.PROCESSED


def handler_from(function: Any) -> Any:
    """A handler of an ``async def``."""
    return Handler(Pattern("*"), function, "async", "tests.handler")


def test_one_driver_serves_one_loop_after_another(database: str, effects: psycopg.Connection[Any]) -> None:
    """A script that calls ``asyncio.run`` twice finds its database both times."""
    driver = AsyncPsycopgDriver(libpq_dsn(database), settings=SETTINGS)

    async def once(event_id: str) -> EventResult:
        ignored = item(event_id=event_id, settled="ignored")
        try:
            return await driver.run(lambda: plan_of(ignored))
        finally:
            await driver.close()

    assert [asyncio.run(once(event_id)).outcome for event_id in ("evt_1", "evt_1")] == [
        Outcome.IGNORED,
        Outcome.DUPLICATE,
    ]
    eventually(lambda: committed(effects) == (0, 1), what="the event is there", seconds=1)
