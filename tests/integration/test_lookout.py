"""What a newcomer forgets is told once, by the command that mends it: the schema, and the worker."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator

import psycopg
import pytest
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import create_async_engine

from tests.fixtures.benches import url_of
from tests.fixtures.http_apps import BODY, SECRET, post
from tests.fixtures.http_servers import signed
from webhook_inbox import Inbox
from webhook_inbox.runtime import lookout
from webhook_inbox.sources import Stripe
from webhook_inbox.telemetry.events import NO_WORKER, NOT_READY

SECONDS_MAX = 20.0


class Told(logging.Handler):
    """Keep every hint, and wait for one."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._arrived = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if record.__dict__["event"] in {NO_WORKER.name, NOT_READY.name}:
            self.texts.append(record.getMessage())
            self._arrived.set()

    def wait(self) -> str:
        """Give the first hint."""
        assert self._arrived.wait(SECONDS_MAX)
        return self.texts[0]


@pytest.fixture
def told() -> Iterator[Told]:
    """Hears what the library logs."""
    handler, logger = Told(), logging.getLogger("webhook_inbox")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at once."""
    monkeypatch.setattr(lookout, "LOOK_AFTER_SECONDS", 0.0)


def queued(dsn: str) -> Inbox:
    """An inbox with a queued endpoint."""
    inbox = Inbox(dsn)
    inbox.endpoint("billing", Stripe(SECRET)).on("*")(lambda tx, event: None)
    return inbox


def record(inbox: Inbox) -> None:
    """Record an event on this thread, and wait until the look that follows is over."""
    assert inbox.receive_sync("billing", headers=signed(BODY, secret=SECRET), body=BODY).status == 200
    timer = inbox._service._own.lookout._timer
    assert timer is not None
    timer.join(SECONDS_MAX)
    assert not timer.is_alive()


async def until_it_has_a_lease(dsn: str) -> None:
    """Wait for the worker to register; asked again and again, since nothing tells."""
    async with (
        asyncio.timeout(SECONDS_MAX),
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as witness,
    ):
        while not (await (await witness.execute("SELECT FROM webhooks.workers")).fetchall()):
            await asyncio.sleep(0.01)


def test_an_event_that_no_worker_will_run_is_told_of_once(database: str, told: Told) -> None:
    """An application of the user's own answers 200 as ever; the log names the worker's command, and repeats nothing."""
    inbox = queued(database)
    app = FastAPI(lifespan=inbox.lifespan)
    app.mount("/webhooks", inbox.asgi())
    assert post(app, inbox, "/webhooks/billing").status_code == 200
    assert told.wait() == (
        "events wait in schema webhooks and no worker is running: start `webhook-inbox worker APP`, "
        "or give running(worker=True)"
    )
    record(inbox)
    assert len(told.texts) == 1
    inbox.close()


def test_the_lease_of_a_hybrid_endpoint_is_no_worker(database: str, told: Told) -> None:
    """A process that runs handlers in its requests holds a lease too, and claims nothing."""
    inbox = queued(database)
    inbox.endpoint("now", Stripe(SECRET), mode="hybrid").on("*")(lambda tx, event: None)
    ran = inbox.receive_sync("now", headers=signed(BODY, secret=SECRET), body=BODY)
    assert ran.outcome == "processed"
    record(inbox)
    assert len(told.texts) == 1
    inbox.close()


def test_a_worker_in_this_process_or_in_another_is_seen(database: str, told: Told) -> None:
    """The other's by the lease that it holds, before it has run anything."""
    here, there = queued(database), queued(database)

    async def story() -> None:
        async with here.running(worker=True):
            await until_it_has_a_lease(database)
            await asyncio.to_thread(record, here)
            await asyncio.to_thread(record, there)

    asyncio.run(story())
    there.close()
    assert told.texts == []


def test_a_schema_that_is_not_there_is_told_of_when_the_app_starts(
    empty_database: str, database: str, told: Told
) -> None:
    """By the command that makes it; an app on a database that is migrated, or away, says nothing."""

    async def start(dsn: str) -> None:
        inbox = queued(dsn)
        async with inbox.running():
            await inbox._service.look_around()

    asyncio.run(start(database))
    asyncio.run(start("postgresql://127.0.0.1:1/nowhere?connect_timeout=1"))
    assert told.texts == []
    asyncio.run(start(empty_database))
    assert "run `webhook-inbox migrate MODULE:ATTRIBUTE` of this inbox, or inbox.migrate()" in told.wait()


def test_with_an_engine_for_event_loops_the_first_delivery_tells(
    empty_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Such an engine shows no DSN that is sure to lead there before it has connected: the start says nothing."""
    engine = create_async_engine(url_of(empty_database, "asyncpg"))

    async def story() -> str:
        inbox = Inbox(engine)
        inbox.endpoint("billing", Stripe(SECRET)).on("*")(_take)
        async with inbox.running():
            receipt = await inbox.receive("billing", headers=signed(BODY, secret=SECRET), body=BODY)
        await engine.dispose()
        return receipt.reason

    assert asyncio.run(story()) == "schema_version"
    assert "run `webhook-inbox migrate MODULE:ATTRIBUTE` of this inbox, or inbox.migrate()" in caplog.text


async def _take(tx: object, event: object) -> None:
    """Handle whatever comes."""
