"""A worker measures what is not settled, for whoever looks at its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.fixtures.programs import eventually
from tests.fixtures.queue import Queue
from tests.fixtures.receiving import stripe
from webhook_inbox import Event, GiveUp, Inbox, Tx
from webhook_inbox.runtime import gauging

EVENT = """INSERT INTO webhooks.inbox
    (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes, received_at)
    SELECT 'stripe', endpoint, 'evt_' || n || state, 'invoice.paid', state, '', 0, now() - interval '1 hour'
    FROM (VALUES ('shop', 'dead', 3), ('former', 'quarantined', 1)) AS given (endpoint, state, number),
         generate_series(1, number) n"""


def test_what_is_not_settled_is_measured(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By endpoint and state, those of an endpoint that is no more included; and 0 once it is settled."""
    monkeypatch.setattr(gauging, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(gauging, "EVERY_SECONDS", 0.02)
    inbox = Inbox(database)
    inbox.endpoint("shop", stripe())

    def events(endpoint: str, state: str) -> float | None:
        labels = {"endpoint": endpoint, "state": state}
        return inbox.metrics.registry.get_sample_value("webhook_inbox_events", labels)

    async def seen(condition: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(eventually, condition, what=what)

    async def run() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            async with inbox.running(worker=True):
                await seen(lambda: events("shop", "dead") == 0, "nothing is dead")
                connection.execute(EVENT)
                await seen(lambda: events("shop", "dead") == 3, "three are dead")
                assert events("former", "quarantined") == 1
                connection.execute("UPDATE webhooks.inbox SET state = 'ignored'")
                await seen(lambda: events("former", "quarantined") == 0, "none is quarantined")
                connection.execute("DELETE FROM webhooks.inbox")

    asyncio.run(run())


def test_the_oldest_that_waits_is_told_by_its_age(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since it was received; here it is held by a worker that lives, so nobody takes it."""
    monkeypatch.setattr(gauging, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(gauging, "EVERY_SECONDS", 0.02)
    inbox = Inbox(database)
    inbox.endpoint("shop", stripe())

    def oldest() -> float:
        value = inbox.metrics.registry.get_sample_value(
            "webhook_inbox_oldest_event_seconds", {"endpoint": "shop"}
        )
        return value or 0.0

    async def run() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO webhooks.workers (name, lease_ends_at) VALUES ('other', now() + interval '1 hour')"
            )
            connection.execute(EVENT)
            connection.execute(
                "UPDATE webhooks.inbox SET state = 'leased', worker_id = (SELECT id FROM webhooks.workers)"
            )
            async with inbox.running(worker=True):
                await asyncio.to_thread(eventually, lambda: oldest() > 3_600, what="an hour is told")

    asyncio.run(run())
    assert oldest() < 7_200


def test_runs_are_counted_and_the_time_to_an_effect_is_noted(database: str) -> None:
    """By outcome; only what was processed has a time."""
    queue = Queue(database)

    @queue.billing.on("invoice.paid")
    def book(tx: Tx[Any], event: Event) -> None:
        if event.id == "evt_bad":
            raise GiveUp("nobody can book this")

    async def run() -> None:
        async with queue.inbox.running():
            await queue.receive("evt_good", "evt_bad")
            await queue.drain()

    asyncio.run(run())

    def value(name: str, **labels: str) -> float | None:
        return queue.inbox.metrics.registry.get_sample_value(name, {"endpoint": "billing", **labels})

    assert value("webhook_inbox_runs_total", outcome="processed") == 1
    assert value("webhook_inbox_runs_total", outcome="dead") == 1
    assert value("webhook_inbox_effect_seconds_count") == 1
    assert 0 <= (value("webhook_inbox_effect_seconds_sum") or -1) < 60
