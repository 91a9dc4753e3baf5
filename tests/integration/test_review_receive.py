"""Hold what a reader of the receive path found: effects that nobody awaited, types swallowed, orders lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import Queue
from webhook_inbox import GiveUp, Inbox, Outcome
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.sources import Hmac, Stripe
from webhook_inbox.testing.signing import sign_hmac

SECRET = "fake-review-secret"


def acme() -> Hmac:
    """Give a source whose bodies hold several events."""
    return Hmac("acme", secrets=SECRET, header="X-Signature", items="$.events", redelivers=True)


def body_of(*events: tuple[str, str]) -> bytes:
    """Give a body of (id, type) pairs under one order key."""
    return json.dumps({"events": [{"id": name, "type": kind, "key": "k"} for name, kind in events]}).encode()


def test_def_and_async_def_of_one_body_both_take_effect(database: str) -> None:
    """P-ONCE: an inline body whose events have handlers of both kinds is processed with both effects."""
    seen: list[str] = []

    async def story() -> None:
        inbox = Inbox(database)
        endpoint = inbox.endpoint("acme", acme(), mode="inline")
        endpoint.on("a")(lambda tx, event: seen.append(event.id))

        @endpoint.on("b")
        async def later(tx: Any, event: Any) -> None:
            await asyncio.sleep(0)
            seen.append(event.id)

        body = body_of(("evt_a", "a"), ("evt_b", "b"))
        async with inbox.running():
            receipt = await inbox.receive("acme", headers=sign_hmac(body, SECRET, "X-Signature"), body=body)
        assert [result.outcome for result in receipt.results] == [Outcome.PROCESSED] * 2

    asyncio.run(story())
    assert sorted(seen) == ["evt_a", "evt_b"]


def test_events_of_one_body_keep_their_order_of_arrival(database: str) -> None:
    """order_by: within one batch the oldest is the one that came first, not the first by name."""
    seen: list[str] = []

    async def story() -> None:
        inbox = Inbox(database)
        endpoint = inbox.endpoint("acme", acme(), order_by="key")
        endpoint.on("*")(lambda tx, event: seen.append(event.id))
        body = body_of(("z-first", "a"), ("m-second", "a"), ("a-third", "a"))
        async with inbox.running():
            await inbox.receive("acme", headers=sign_hmac(body, SECRET, "X-Signature"), body=body)
            await inbox.work(drain=True)

    asyncio.run(story())
    assert seen == ["z-first", "m-second", "a-third"]


def test_an_older_worker_leaves_a_type_that_it_does_not_know(database: str) -> None:
    """unhandled="refuse": the event that a newer release recorded waits for it, without cost."""

    async def story() -> None:
        box = Queue(database)
        box.billing.on("invoice.paid")(lambda tx, event: None)
        await box.receive("evt_1")
        await box.close()
        older = Inbox(database)
        older.endpoint("billing", Stripe(secrets="whsec_fake_queue"), unhandled="refuse")
        assert await older.work(drain=True) == {RunOutcome.RETRYING: 1}

    asyncio.run(story())
    with psycopg.connect(database) as conn:
        row = conn.execute("SELECT state, attempts, last_error FROM webhooks.inbox").fetchone()
    assert row == ("retrying", 0, "no handler for invoice.paid in this release")


def test_a_worker_reads_times_in_any_date_style(database: str) -> None:
    """P-FLOW: a database whose dates are written the German way is worked off like any other."""
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {conn.info.dbname} SET datestyle = 'German'")

    async def story() -> None:
        box = Queue(database)
        box.billing.on("invoice.paid")(lambda tx, event: None)
        await box.receive("evt_1")
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        await box.close()

    asyncio.run(story())


def test_a_hybrid_event_that_dies_is_told_of_once(database: str) -> None:
    """on_dead: once, though the run and the answer both know."""
    told: list[str] = []

    async def story() -> None:
        box = Queue(database)
        endpoint = box.endpoint("now", mode="hybrid")
        box.inbox.on_dead(lambda name, result: told.append(result.event_id))

        @endpoint.on("*")
        def book(tx: Any, event: Any) -> None:
            raise GiveUp("unknown plan")

        await box.receive("evt_1", to="now")
        await box.close()

    asyncio.run(story())
    assert told == ["evt_1"]


@pytest.mark.parametrize("given", [{"retry_hours": float("inf")}, {"handler_seconds_max": 1e9}])
def test_a_number_that_the_server_would_refuse_is_refused_at_once(given: dict[str, float]) -> None:
    """No delivery and no failure meets a setting that PostgreSQL cannot take."""
    with pytest.raises(ConfigurationError, match="must be at most"):
        Settings().with_overrides(given)


def test_what_belongs_to_the_process_is_refused_on_an_endpoint(database: str) -> None:
    """A setting that one endpoint cannot have is not ignored in silence."""
    with pytest.raises(ConfigurationError, match="crashes_max belongs to the process"):
        Inbox(database).endpoint("billing", Stripe(secrets="whsec_fake_queue"), crashes_max=9)
