"""An inbox keeps its promises whatever database its user gives it: pools, engines, sessionmakers, Django's own."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, sessionmaker

from tests.fixtures.benches import set_django_up, url_of
from tests.fixtures.databases import GIVEN, POOL_CONNECTIONS, Given
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.queue import SECRET, body_of, signed, until
from webhook_inbox import Django, Inbox, Outcome
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources import Stripe
from webhook_inbox.testing.databases import apply_migrations

#: Beside the pool: leases of receiving and of the worker, the notifier, the listener, and its proof for a moment.
OWN_CONNECTIONS = 5
ON_EVERY = pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.label)


@dataclass
class Shop:
    """An inbox over a user's database, and a witness of it."""

    inbox: Inbox
    witness: psycopg.Connection[Any]

    def effects(self) -> list[str]:
        """The ids of the events that had an effect."""
        return [row[0] for row in self.witness.execute("SELECT event_id FROM effects ORDER BY event_id")]

    def outbox(self) -> int:
        """How many messages are waiting."""
        row = self.witness.execute("SELECT count(*) FROM webhooks.outbox").fetchone()
        assert row is not None
        return int(row[0])

    async def deliver(self, event_id: str) -> Outcome:
        """Deliver one event."""
        body = body_of(event_id)
        return (await self.inbox.receive("billing", headers=signed(body), body=body)).outcome


@contextlib.asynccontextmanager
async def shop(
    given: Given, dsn: str, mode: Any, before: Callable[[], None] = lambda: None, **settings: Any
) -> AsyncIterator[Shop]:
    """Open a shop whose handler writes one effect an event."""
    async with given.open(dsn) as database:
        usual: dict[str, Any] = {"connections_max": 8, "connection_wait_seconds": 20.0, "poll_seconds": 0.2}
        inbox = Inbox(database, **usual | settings)
        billing = inbox.endpoint("billing", Stripe(secrets=SECRET), mode=mode)
        billing.on("invoice.paid")(
            given.handler(lambda event: f"INSERT INTO effects VALUES ('{event.id}')", before)
        )
        with psycopg.connect(dsn, autocommit=True, application_name="witness") as witness:
            witness.execute("CREATE TABLE effects (event_id text NOT NULL)")
            async with inbox.running():
                yield Shop(inbox, witness)


@ON_EVERY
@pytest.mark.parametrize("mode", ["inline", "hybrid"])
def test_eight_copies_at_once_have_one_effect(database: str, given: Given, mode: str) -> None:
    """P-ONCE, P-DUP: the first is processed, the others hear so; the effect and its message are there once."""

    async def story() -> None:
        async with shop(given, database, mode) as opened:
            outcomes = await asyncio.gather(*(opened.deliver("evt_1") for _ in range(8)))
            assert sorted(outcomes) == [Outcome.DUPLICATE] * 7 + [Outcome.PROCESSED]
            assert (opened.effects(), opened.outbox()) == (["evt_1"], 1)

    asyncio.run(story())


@ON_EVERY
def test_a_handler_that_fails_once_is_run_again_by_the_worker(database: str, given: Given) -> None:
    """P-COUNT, P-ONCE: recorded, failed, retried; one effect each, whoever runs it."""
    runs: list[int] = []

    def fails_first() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise ValueError

    async def story() -> None:
        async with shop(given, database, "queued", fails_first) as opened:
            ids = [f"evt_{number}" for number in range(5)]
            assert {await opened.deliver(event_id) for event_id in ids} == {Outcome.QUEUED}

            def done() -> bool:
                opened.witness.execute(
                    "UPDATE webhooks.inbox SET available_at = clock_timestamp() WHERE state = 'retrying'"
                )
                return len(opened.effects()) == len(ids)

            async with opened.inbox.running(worker=True):
                await until(done)
            assert (opened.effects(), opened.outbox(), len(runs)) == (ids, len(ids), len(ids) + 1)

    asyncio.run(story())


@ON_EVERY
def test_a_process_opens_no_more_connections_than_the_formula_says(database: str, given: Given) -> None:
    """
    The pool given, and five of the inbox's own. Where there is no pool to be given, as with a DSN or Django,
    ``connections_max`` for receiving and as many for the worker.
    """
    most = 0

    async def story() -> None:
        nonlocal most
        async with shop(given, database, "hybrid", connections_max=4, lease_seconds=0.8) as opened:

            def sessions() -> int:
                row = opened.witness.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND backend_type = 'client backend' AND application_name <> 'witness'"
                ).fetchone()
                assert row is not None
                return int(row[0])

            async def count() -> None:
                nonlocal most
                while True:
                    most = max(most, await asyncio.to_thread(sessions))
                    await asyncio.sleep(0.002)

            counting = asyncio.create_task(count())
            async with opened.inbox.running(worker=True):
                await asyncio.gather(*(opened.deliver(f"evt_{number}") for number in range(60)))
                await until(lambda: len(opened.effects()) == 60)
                await asyncio.sleep(0.5)  # two beats of either lease
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)

    asyncio.run(story())
    pools = {"dsn": 2 * 4, "django": 2 * 4, "asyncpg-opens": 2 * POOL_CONNECTIONS}.get(
        given.label, POOL_CONNECTIONS
    )
    assert 2 <= most <= pools + OWN_CONNECTIONS


@pytest.mark.parametrize("elsewhere", ["nowhere", "another database"])
def test_an_engine_whose_url_does_not_lead_there_lends_its_own_connections(
    database: str, empty_database: str, caplog: pytest.LogCaptureFixture, elsewhere: str
) -> None:
    """P-COUNT: leases are kept where the events are, whatever else the engine's URL leads to; it is told."""

    async def story() -> None:
        url = url_of(empty_database, "psycopg")
        if elsewhere == "nowhere":
            url = url.set(query={"host": "/nowhere"})
        engine = create_engine(url, connect_args=_arguments(url_of(database, "psycopg")), pool_size=3)
        inbox = Inbox(engine, poll_seconds=0.1, connection_wait_seconds=1, lease_seconds=2)
        billing = inbox.endpoint("billing", Stripe(secrets=SECRET))
        (given,) = (each for each in GIVEN if each.label == "engine")
        billing.on("*")(given.handler(lambda event: f"INSERT INTO effects VALUES ('{event.id}')"))
        with psycopg.connect(database, autocommit=True) as witness:
            witness.execute("CREATE TABLE effects (event_id text NOT NULL)")
            opened = Shop(inbox, witness)
            renewed = (
                "SELECT count(*) FROM webhooks.workers WHERE heartbeat_at > started_at + interval '1 second'"
            )
            async with inbox.running(worker=True):
                assert await opened.deliver("evt_1") is Outcome.QUEUED
                await until(lambda: opened.effects() == ["evt_1"])
                await until(lambda: witness.execute(renewed).fetchone() == (1,))
        engine.dispose()

    with caplog.at_level("WARNING", "webhook_inbox"):
        asyncio.run(story())
    assert "own_session_refused" in {getattr(record, "event", "") for record in caplog.records}


def _arguments(url: Any) -> dict[str, Any]:
    return {
        "host": url.query["host"],
        "port": url.query["port"],
        "dbname": url.database,
        "user": url.username,
    }


class Model(DeclarativeBase):
    """A base without tables."""


@pytest.mark.parametrize(
    ("database", "says"),
    [
        (create_engine("sqlite://"), "sqlite"),
        (sessionmaker(), "bound to no engine"),
        (async_sessionmaker(), "bound to no engine"),
        (Django("no such alias"), "no such entry"),
        (object(), "give a DSN"),
        (Model, "give a DSN"),
    ],
    ids=["sqlite", "unbound", "unbound async", "django", "object", "model"],
)
def test_what_cannot_serve_is_refused_at_once(database: Any, says: str) -> None:
    """A ConfigurationError says what to give instead, before any delivery."""
    set_django_up()
    with pytest.raises(ConfigurationError, match=says):
        Inbox(database)


def test_a_pool_that_gives_text_as_bytes_is_refused_by_name(postgres: PostgresServer) -> None:
    """P-ACK: where the database is in SQL_ASCII, a pool that says in which encoding it talks serves, and no other."""
    name = f"test_ascii_{secrets.token_hex(4)}"
    dsn = postgres.direct_dsn_of(name)
    postgres.admin.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        apply_migrations(dsn)
        for number, kind in enumerate((ConnectionPool, AsyncConnectionPool)):
            body = body_of(f"evt_{number}")
            assert asyncio.run(_delivered(kind, dsn, {}, body)) == (503, Outcome.UNAVAILABLE, "configuration")
            talking = {"client_encoding": "utf8"}
            assert asyncio.run(_delivered(kind, dsn, talking, body)) == (200, Outcome.IGNORED, "")
    finally:
        postgres.drop(name)


async def _delivered(
    kind: Any, dsn: str, connecting: dict[str, str], body: bytes
) -> tuple[int, Outcome, str]:
    pool = kind(dsn, kwargs=connecting, min_size=0, max_size=1, open=False)
    inbox = Inbox(pool)
    inbox.endpoint("billing", Stripe(secrets=SECRET))
    await (pool.open() or asyncio.sleep(0))  # one waits, the other does not
    async with inbox.running():
        receipt = await inbox.receive("billing", headers=signed(body), body=body)
    await (pool.close() or asyncio.sleep(0))
    return receipt.status, receipt.outcome, receipt.reason


def test_handlers_of_the_wrong_kind_are_refused_at_registration() -> None:
    """An engine of threads serves no ``async def``, one of event loops no ``def``, and Django serves threads."""
    engine, async_engine = (
        create_engine("postgresql+psycopg://"),
        create_async_engine("postgresql+asyncpg://"),
    )

    def on_thread(tx: Any, event: Any) -> None:
        """Never registered."""

    async def on_loop(tx: Any, event: Any) -> None:
        """Never registered."""

    for given, handler in ((engine, on_loop), (async_engine, on_thread)):
        endpoint = Inbox(given).endpoint("billing", Stripe(secrets=SECRET))
        with pytest.raises(ConfigurationError, match="the database given serves"):
            endpoint.on("*")(handler)
