"""A server that says nothing, and a handler that does not end, cost a driver a bounded time and no connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import psycopg
import pytest

from tests.conformance.conftest import OpenBench
from tests.conformance.test_drivers_pool import INSERT, committing, count
from tests.faults.proxy import Proxy, black_hole
from tests.fixtures.benches import DjangoThreadsBench, SqlAlchemyBench
from tests.fixtures.drivers import Bench, ThreadBench, statement
from tests.fixtures.programs import eventually
from tests.fixtures.worlds import say
from webhook_inbox.drivers import silence
from webhook_inbox.errors import InboxError, StoreUnavailableError
from webhook_inbox.protocol.steps import Begin, Commit, Plan, Run

Steps: TypeAlias = Generator[Any, Any, None]
STEP_SECONDS = 0.3
SILENCE_SECONDS = 0.3
BEGIN = Begin(statement("SELECT 1"), seconds_max=STEP_SECONDS)


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up sooner than in production, where it takes two seconds."""
    monkeypatch.setattr(silence, "SILENCE_SECONDS", SILENCE_SECONDS)


@pytest.mark.parametrize("where", ["statement", "handler", "commit"])
def test_a_connection_that_goes_silent_is_given_up(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any], where: str
) -> None:
    """P-ACK: soon after a step's own limit its fate is unknown; the next plan has a connection that speaks."""
    with Proxy(database) as proxy:
        bench = open_bench(proxy.dsn, connections_max=1, connection_wait_seconds=20)
        bench.run(committing)

        def script(conn: Any) -> Steps:
            if where == "handler":
                proxy.arm(black_hole)
            yield say(conn, "INSERT INTO effect VALUES (2)")

        def plan() -> Plan[None]:
            yield BEGIN
            if where == "statement":
                proxy.arm(black_hole)
            yield INSERT
            yield Run("tests.handler", bench.work(script), 30.0)
            if where == "commit":
                proxy.arm(black_hole)
            yield Commit()

        began = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            bench.run(plan)
        assert time.monotonic() - began < STEP_SECONDS + SILENCE_SECONDS + 5
        proxy.heal()
        assert count(effects) == 1
        bench.run(committing)
        assert count(effects) == 2
        bench.close_driver()


@pytest.mark.parametrize(
    "open_bench",
    [ThreadBench, SqlAlchemyBench, DjangoThreadsBench],
    ids=lambda driver: driver.label,
    indirect=True,
)
def test_a_handler_that_does_not_end_is_left_to_its_thread(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """P-FLOW, P-ONCE: its connection is closed and its place free; what it does later is committed by nobody."""
    bench: Any = open_bench(database, connections_max=1)
    abandoned, leave = threading.Event(), threading.Event()

    def script(conn: Any) -> Steps:
        yield say(conn, "INSERT INTO effect VALUES (2)")
        leave.wait(60)
        yield say(conn, "INSERT INTO effect VALUES (2)")

    def plan() -> Plan[None]:
        yield BEGIN
        yield Run("tests.handler", bench.work(script), STEP_SECONDS)
        yield Commit()

    with ThreadPoolExecutor(1) as threads:
        stuck = threads.submit(bench.driver.run, plan, abandoned=abandoned.set)
        assert abandoned.wait(30)
        eventually(lambda: works(bench), what="its place in the pool is free", seconds=10)
        before = count(effects)
        leave.set()
        with pytest.raises(InboxError):
            stuck.result(30)
        bench.run(committing)
    assert count(effects) == before + 1


def works(bench: Bench) -> bool:
    """Whether a plan finds a connection."""
    bench.run(committing)
    return True
