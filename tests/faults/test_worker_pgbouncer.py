"""
Put PgBouncer in transaction mode between everything and PostgreSQL: nothing correct may depend on a session.

1.18 is the harshest that is in use: it loses prepared statements and notifications. Three server connections serve all.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.faults.invariants import one_row, until
from tests.faults.ledger import Ledger
from tests.faults.sender import Letter, Sender
from tests.faults.server import ROOT
from tests.faults.worker_app import KINDS
from tests.faults.worker_bench import WorkerBench
from tests.fixtures.pgbouncer import NOT_SERVED
from tests.fixtures.pooler import POOL_SIZE, PgBouncer, direct
from webhook_inbox import Inbox
from webhook_inbox.cli.database import run_plan
from webhook_inbox.protocol.diagnosis import diagnose
from webhook_inbox.protocol.doctor import read_health

SERVER_SESSIONS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND backend_type = 'client backend'
"""
#: What our own statements set within a transaction; each must be as the server has it once it is over.
SET_LOCALLY = (
    "lock_timeout",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "synchronous_commit",
)


@pytest.mark.parametrize("kind", KINDS)
def test_queued_hybrid_and_inline_events_are_applied_once_through_the_pooler(
    kind: str, workers: WorkerBench, pgbouncer: PgBouncer
) -> None:
    """Receivers and two workers on three server connections: every event once, however it is run (P-ONCE)."""
    shapes = ("one", "batch", "set", "ordered", "hybrid", "inline")
    bench = workers.on(*(f"{shape}-{kind}" for shape in shapes), poll_seconds=0.1, stop_seconds_max=5.0)
    dsn = pgbouncer.dsn_of(bench.dsn)
    receiver, *working = bench.nursery.servers[:3]
    try:
        receiver.start(bench.setup(0, dsn=dsn, role="receiver"))
        for number, server in enumerate(working, start=1):
            server.start(bench.setup(number, dsn=dsn, drain=False))
        sender = Sender(receiver.address, Ledger(bench.room / "ledger"))
        letters = _letters(bench, each=40)
        with ThreadPoolExecutor(8) as senders:
            answers = list(senders.map(sender.deliver, letters + letters[::5]))
        assert {answer.outcome for answer in answers} <= {"queued", "processed", "duplicate"}
        until(lambda: bench.unsettled() == 0, "everything is settled", 60)
        assert one_row(bench.connection, SERVER_SESSIONS)[0] <= POOL_SIZE
        for server in (receiver, *working):
            said = bench.log_of(server.pid or 0)
            assert " ERROR " not in said
            assert "prepared statement" not in said
        assert {server.stop().signal for server in working} == {0}
    finally:
        for server in (receiver, *working):
            server.close()
    bench.check(again_in_one_claim=True)
    assert "prepared statement" not in pgbouncer.log()


def test_no_notification_comes_through_and_the_worker_polls(
    workers: WorkerBench, pgbouncer: PgBouncer
) -> None:
    """The worker finds out that it is deaf, says so once, and picks an event up at its next look (P-FLOW)."""
    bench = workers.on("one-async", poll_seconds=0.2, stop_seconds_max=5.0)
    with bench.workers(dsn=pgbouncer.dsn_of(bench.dsn), drain=False) as (server,):
        pid = server.pid or 0
        until(lambda: "listener: no notifications" in bench.log_of(pid), "it says that it hears nothing", 20)
        letter = bench.letter("one-async", "evt_polled", "test.paid")
        bench.receive(letter)
        bench.expect(letter)
        until(lambda: bench.unsettled() == 0, "polling found it", 10)
        assert bench.log_of(pid).count("listener:") == 1
        assert server.stop().status == 0
    bench.check()


def test_what_a_transaction_sets_does_not_reach_the_next_client(
    workers: WorkerBench, pgbouncer: PgBouncer
) -> None:
    """After runs that succeed, fail and lose their session, every server connection has the server's own settings."""
    bench = workers.on("one-sync", poll_seconds=0.1, backoff_seconds_max=1e-6, handler_seconds_max=7.0)
    dsn = pgbouncer.dsn_of(bench.dsn)
    with psycopg.connect(bench.dsn) as direct:
        own = {name: one_row(direct, f"SHOW {name}") for name in SET_LOCALLY}
    for number, event_type in enumerate(
        ("test.paid", "test.fail_once", "test.lose_once", "test.give_up") * 5
    ):
        letter = bench.letter("one-sync", f"evt_{number}", event_type)
        bench.receive(letter)
        bench.expect(letter, "dead" if event_type == "test.give_up" else "processed")
    bench.drained(dsn=dsn)
    seen = set()
    clients = [psycopg.connect(dsn) for _ in range(POOL_SIZE)]
    try:
        for client in clients:  # all in a transaction at once: each has a server connection of its own
            assert {name: one_row(client, f"SHOW {name}") for name in SET_LOCALLY} == own
            seen.add(client.execute("SELECT pg_backend_pid()").fetchone())
    finally:
        for client in clients:
            client.close()
    assert len(seen) == POOL_SIZE
    bench.work_off()
    bench.check(again_in_one_claim=True)


def test_a_clients_own_settings_do_not_spoil_a_run(workers: WorkerBench, pgbouncer: PgBouncer) -> None:
    """What another client left behind in the sessions, asynchronous commits for one, costs no promise."""
    bench = workers.on("one-async", poll_seconds=0.1)
    dsn = pgbouncer.dsn_of(bench.dsn)
    clients = [psycopg.connect(dsn) for _ in range(POOL_SIZE)]
    for client in clients:
        client.execute("SET synchronous_commit = off")
        client.execute("SET application_name = 'somebody else'")
    for client in clients:
        client.commit()
        client.close()
    for number in range(20):
        letter = bench.letter("one-async", f"evt_{number}", "test.paid")
        bench.receive(letter)
        bench.expect(letter)
    bench.drained(dsn=dsn)
    bench.check(again_in_one_claim=True)


def test_migrate_and_status_work_through_the_pooler(empty_database: str, pgbouncer: PgBouncer) -> None:
    """The schema is made and looked at through the pooler, twice: nothing of it needs a session."""
    dsn = pgbouncer.dsn_of(empty_database)
    for _ in range(2):
        assert _cli(dsn, "migrate").returncode == 0
    assert _cli(dsn, "migrate", "--check").returncode == 0
    status = _cli(dsn, "status", "--json")
    assert status.returncode == 0, status.stderr
    assert json.loads(status.stdout)


def test_pause_resume_check_and_backlog_work_through_the_pooler(
    workers: WorkerBench, pgbouncer: PgBouncer
) -> None:
    """What operators ask for is asked for in single transactions."""
    bench = workers.on("one-async", poll_seconds=0.1)
    letter = bench.letter("one-async", "evt_paused", "test.paid")
    bench.receive(letter)
    bench.expect(letter)

    async def operate() -> None:
        inbox = Inbox(pgbouncer.dsn_of(bench.dsn))
        endpoint = bench.inbox._endpoints["one-async"]
        inbox.endpoint("one-async", endpoint.plan.source)
        async with inbox.running():
            await inbox.check()
            await inbox.pause("one-async", by="a test")
            await asyncio.to_thread(bench.drained, dsn=pgbouncer.dsn_of(bench.dsn))
            assert bench.unsettled() == 1
            assert await inbox.resume("one-async")
            assert (await inbox.backlog()) is not None
            await asyncio.to_thread(bench.drained, dsn=pgbouncer.dsn_of(bench.dsn))

    asyncio.run(operate())
    bench.check()


@pytest.mark.parametrize("name", NOT_SERVED)
def test_what_is_not_run_through_a_pooler_is_a_test_that_there_is(name: str) -> None:
    """The list of what WEBHOOK_INBOX_TEST_PGBOUNCER leaves out has no name that means nothing any more."""
    file, _, function = name.partition("[")[0].partition("::")
    assert function.startswith("test_")
    assert re.search(rf"^(async )?def {function}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def _letters(bench: WorkerBench, *, each: int) -> list[Letter]:
    letters = []
    for endpoint in bench.endpoints:
        for number in range(each):
            letter = bench.letter(endpoint, f"evt_{endpoint}_{number}", "test.paid", key=str(number % 3))
            bench.expect(letter)
            letters.append(letter)
    return letters


def _cli(dsn: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "WEBHOOK_INBOX_DATABASE_URL": dsn, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "webhook_inbox", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_doctor_notes_the_pooler(database: str, pgbouncer: PgBouncer) -> None:
    """It tells its clients another process than the server does."""
    dsn = pgbouncer.dsn_of(direct(database))
    health = run_plan(dsn, lambda: read_health("webhooks"))
    assert health.server.pooled
    assert "pooler" in {each.name for each in diagnose(health, [])}
