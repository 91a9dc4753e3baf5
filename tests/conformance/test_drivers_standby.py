"""Whatever database was given: a commit that the server stopped holding back for its standby is not acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.faults.invariants import until
from tests.fixtures.databases import GIVEN, Given
from tests.fixtures.queue import SECRET, body_of, signed
from webhook_inbox import Inbox, Outcome
from webhook_inbox.drivers.standby import confirmed_to_asyncpg
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.sources import Stripe
from webhook_inbox.testing.databases import apply_migrations

#: As a time limit of the server's does, or an operator.
GIVE_UP = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def lonely(_calm_environment: None) -> Iterator[EmbeddedPostgres]:
    """A server with our schema that can be told to wait for a standby that it does not have."""
    with EmbeddedPostgres(durable=False) as server:
        apply_migrations(server.dsn)
        with psycopg.connect(server.dsn) as connection:
            connection.execute("CREATE TABLE effects (event_id text NOT NULL)")
        yield server


def wait_for_standby(server: EmbeddedPostgres, names: str) -> None:
    """Have the server wait for the standbys called *names*, from now on."""
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute("SET synchronous_commit = local")
        admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        admin.execute("SELECT pg_reload_conf()")

    def told() -> bool:
        with psycopg.connect(server.dsn) as fresh:
            return fresh.execute("SHOW synchronous_standby_names").fetchone() == (names,)

    until(told, "the server has heard of it")


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.label)
def test_what_no_standby_has_confirmed_is_not_acknowledged(given: Given, lonely: EmbeddedPostgres) -> None:
    """P-ACK: the server confirms such a commit with a warning; we answer 503, until the standby has it."""
    body = body_of(f"evt_{given.label}")

    async def deliver(*, giving_up: bool) -> tuple[int, Outcome]:
        async with given.open(lonely.dsn) as database:
            inbox = Inbox(database)
            billing = inbox.endpoint("billing", Stripe(secrets=SECRET), mode="inline")
            billing.on("invoice.paid")(
                given.handler(lambda event: f"INSERT INTO effects VALUES ('{event.id}')")
            )
            async with inbox.running():
                delivering = asyncio.ensure_future(inbox.receive("billing", headers=signed(body), body=body))
                if giving_up:
                    await asyncio.to_thread(give_up_until, delivering.done)
                receipt = await delivering
                return receipt.status, receipt.outcome

    def give_up_until(done: Callable[[], bool]) -> None:
        with psycopg.connect(lonely.dsn, autocommit=True) as admin:
            until(lambda: admin.execute(GIVE_UP) is not None and done(), "it is answered", 30)

    wait_for_standby(lonely, "nobody")
    try:
        for _ in range(2):  # the resend finds it on this server, and the standby still has not got it
            assert asyncio.run(deliver(giving_up=True)) == (503, Outcome.UNAVAILABLE)
    finally:
        wait_for_standby(lonely, "")
    assert asyncio.run(deliver(giving_up=False)) == (200, Outcome.DUPLICATE)
    with psycopg.connect(lonely.dsn) as connection:
        counted = "SELECT count(*) FROM effects WHERE event_id = %s"
        assert connection.execute(counted, [f"evt_{given.label}"]).fetchone() == (1,)


@pytest.mark.parametrize("silenced", ["by its user", "by a handler"])
def test_the_servers_warning_is_heard_whatever_was_silenced(silenced: str, lonely: EmbeddedPostgres) -> None:
    """P-ACK: a session in which only errors shall be told is told that its commit is on this server alone."""
    body = body_of(f"evt_{silenced}")
    options = "-c client_min_messages=error" if silenced == "by its user" else ""
    inbox = Inbox(make_conninfo(lonely.dsn, options=options))

    @inbox.endpoint("billing", Stripe(secrets=SECRET), mode="inline").on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        if silenced == "by a handler":
            tx.conn.execute("SET client_min_messages = 'error'")
        tx.conn.execute("INSERT INTO effects VALUES (%s)", [event.id])

    wait_for_standby(lonely, "nobody")
    try:
        with ThreadPoolExecutor(1) as threads, psycopg.connect(lonely.dsn, autocommit=True) as admin:
            delivering = threads.submit(inbox.receive_sync, "billing", headers=signed(body), body=body)
            until(lambda: admin.execute(GIVE_UP) is not None and delivering.done(), "it is answered", 30)
    finally:
        wait_for_standby(lonely, "")
        inbox.close()
    assert (delivering.result().status, delivering.result().outcome) == (503, Outcome.UNAVAILABLE)


def test_a_connection_that_a_pool_has_taken_back_hides_no_failure(database: str) -> None:
    """What ended the COMMIT is what is told, not that the connection is gone since."""

    async def commit() -> None:
        async with asyncpg.create_pool(database, min_size=0, max_size=1) as pool:
            conn = await pool.acquire()
            with confirmed_to_asyncpg(conn):
                conn.terminate()
                raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(commit())
