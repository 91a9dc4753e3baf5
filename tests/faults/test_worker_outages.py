"""
Take the database away under running workers, for a moment and for a night: nothing dies, nothing is lost, no attempt is
used up.

Time is moved rather than spent: while the server is down nobody can read its clock, so that after its restart every
stored instant is set back by the length of the outage, as if so much time had passed (P-CLOCK).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.faults.invariants import one_row, until
from tests.faults.ledger import Ledger
from tests.faults.sender import Letter, Sender
from tests.faults.server import Server
from tests.faults.worker_app import KINDS
from tests.faults.worker_bench import WorkerBench
from webhook_inbox.embedded import EmbeddedPostgres

MINUTES, HOURS = 60, 3600
INSTANTS = {
    "inbox": ("received_at", "available_at", "give_up_at", "processed_at"),
    "workers": ("started_at", "heartbeat_at", "lease_ends_at"),
    "bodies": ("received_at",),
}
SETTINGS = {
    "poll_seconds": 0.1,
    "stop_seconds_max": 5.0,
    "lease_seconds": 5.0,
    "connection_wait_seconds": 0.5,
}
COUNT = "SELECT count(*) FROM webhooks.inbox WHERE state = 'processed'"


def pass_time(dsn: str, seconds: int) -> None:
    """Let *seconds* have passed since everything that is stored."""
    with psycopg.connect(dsn) as connection:
        for table, columns in INSTANTS.items():
            changes = ", ".join(
                f"{column} = {column} - make_interval(secs => {seconds})" for column in columns
            )
            connection.execute(f"UPDATE webhooks.{table} SET {changes}".encode())


def send_all(bench: WorkerBench, letters: list[Letter], receiver: Server) -> None:
    """Deliver *letters* as a provider does."""
    sender = Sender(receiver.address, Ledger(bench.room / "ledger"))
    for letter in letters:
        assert sender.deliver(letter).heard


def waits(bench: WorkerBench, server: Server) -> Callable[[], bool]:
    """Whether the worker has said that it waits for the database."""
    return lambda: "looking again in" in bench.log_of(server.pid or 0)


def letters_of(bench: WorkerBench, name: str, count: int, event_type: str, **data: object) -> list[Letter]:
    """Make events that must all be applied."""
    made = [bench.letter(bench.endpoints[0], f"evt_{name}_{n}", event_type, **data) for n in range(count)]
    for letter in made:
        bench.expect(letter)
    return made


@pytest.mark.parametrize("seconds", [15 * MINUTES, 8 * HOURS], ids=["15 minutes", "8 hours"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_outage_kills_no_event_and_costs_no_attempt(
    kind: str, seconds: int, workers_apart: WorkerBench, cluster: EmbeddedPostgres
) -> None:
    """The server goes under two workers in full flight and a receiver, and comes back later (P-COUNT, P-KEEP)."""
    bench = workers_apart.on(f"one-{kind}", attempts_max=1, retry_hours=0.2, crashes_max=1, **SETTINGS)
    receiver, *working = bench.nursery.servers[:3]
    try:
        receiver.start(bench.setup(0, role="receiver"))
        send_all(bench, letters_of(bench, "before", 40, "test.pause", seconds=0.1), receiver)
        for number, server in enumerate(working, start=1):
            server.start(bench.setup(number, drain=False))
        until(lambda: one_row(bench.connection, COUNT)[0] >= 5, "the workers are in full flight", 20)
        bench.connection.close()
        cluster.halt("immediate")
        during = letters_of(bench, "during", 3, "test.paid")
        sender = Sender(receiver.address, Ledger(bench.room / "ledger-during"))
        for letter in during:
            answer = sender.attempt(letter)
            assert (answer.status, "retry-after" in answer.headers) == (503, True)
        for server in working:
            until(waits(bench, server), "it waits", 30)
        cluster.start()
        pass_time(bench.dsn, seconds)
        send_all(bench, during, receiver)
        with psycopg.connect(bench.dsn, autocommit=True) as connection:
            bench.__dict__["connection"] = connection
            until(lambda: bench.unsettled() == 0, "everything is applied", 60)
            attempts = connection.execute("SELECT DISTINCT attempts, crashes FROM webhooks.inbox").fetchall()
        for server in working:
            assert server.stop().status == 0
    finally:
        for server in (receiver, *working):
            server.close()
        bench.__dict__.pop("connection", None)
    assert attempts == [(1, 0)]
    bench.check(again_in_one_claim=True)


@contextmanager
def read_only(dsn: str) -> Iterator[None]:
    """Make the server read-only for everybody, as a failover does to those who stay connected."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("SET default_transaction_read_only = off")
        admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        admin.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            admin.execute("ALTER SYSTEM RESET default_transaction_read_only")
            admin.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_only_failover_costs_no_attempt_and_needs_no_restart(
    kind: str, workers_apart: WorkerBench, cluster: EmbeddedPostgres
) -> None:
    """Read-only under worker and receiver: 503, the worker waits; afterwards all is applied (C42, P-COUNT)."""
    bench = workers_apart.on(f"one-{kind}", attempts_max=1, **SETTINGS)
    receiver, worker = bench.nursery.servers[:2]
    try:
        receiver.start(bench.setup(0, role="receiver"))
        send_all(bench, letters_of(bench, "before", 40, "test.pause", seconds=0.1), receiver)
        worker.start(bench.setup(1, drain=False))
        until(lambda: one_row(bench.connection, COUNT)[0] >= 5, "the worker is in full flight", 20)
        during = letters_of(bench, "during", 3, "test.paid")
        sender = Sender(receiver.address, Ledger(bench.room / "ledger-during"))
        with read_only(bench.dsn):
            until(lambda: sender.attempt(during[0]).status == 503, "the receiver asks to come again", 10)
            assert [sender.attempt(letter).status for letter in during[1:]] == [503, 503]
            until(waits(bench, worker), "the worker waits", 30)
        send_all(bench, during, receiver)
        until(lambda: bench.unsettled() == 0, "everything is applied", 60)
        assert worker.stop().status == 0
    finally:
        receiver.close()
        worker.close()
    attempts = bench.connection.execute("SELECT DISTINCT attempts, crashes FROM webhooks.inbox").fetchall()
    assert attempts == [(1, 0)]
    bench.check(again_in_one_claim=True)


def test_a_listener_whose_session_is_ended_is_replaced_and_polling_goes_on(workers: WorkerBench) -> None:
    """``pg_terminate_backend`` of the listener: the poll finds the next event, later ones are heard of (C38)."""
    bench = workers.on("one-async", poll_seconds=0.3, stop_seconds_max=3.0)
    end_listener = """
        SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND (query LIKE '%%LISTEN%%' OR query LIKE '%%pg_notify%%')
            AND state = 'idle'
    """
    with bench.workers(drain=False) as (server,):
        pid = server.pid or 0
        until(lambda: one_row(bench.connection, end_listener)[0] >= 1, "it listens, and is ended", 20)
        letter = bench.letter("one-async", "evt_polled", "test.paid")
        bench.receive(letter)
        bench.expect(letter)
        until(lambda: bench.unsettled() == 0, "the poll finds it", 10)
        until(lambda: "listener: notifications arrive again" in bench.log_of(pid), "it listens again", 20)
        assert server.stop().status == 0
    bench.check()
