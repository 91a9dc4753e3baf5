"""Whoever asks for metrics hears until when everything is here, whichever process has asked the provider, and when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.fixtures.provider_apis import API_KEY, StripeApi, Told, served
from tests.fixtures.queue import SECRET, Queue, until
from webhook_inbox.runtime import reconciler
from webhook_inbox.sources import Stripe


@pytest.fixture
def stripe() -> Iterator[StripeApi]:
    """Stripe, on loopback."""
    api = StripeApi()
    with served(api):
        yield api


def shop(dsn: str, api: StripeApi) -> Queue:
    """An inbox of one process, whose endpoint ``shop`` can be asked."""
    queue = Queue(dsn)
    source = Stripe(SECRET, api_key=API_KEY, api_base=api.url)
    queue.inbox.endpoint("shop", source).on("*")(lambda tx, event: None)
    return queue


def told(queue: Queue) -> float | None:
    """The gauge of that process, and whether there is one."""
    registry = queue.inbox.metrics.registry
    return registry.get_sample_value("webhook_inbox_reconciled_timestamp_seconds", {"endpoint": "shop"})


def test_a_process_that_has_asked_nothing_tells_what_another_has_found(
    database: str, stripe: StripeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a restart, and several workers, change nothing about the age of what is known."""
    monkeypatch.setattr(reconciler, "LOOK_SECONDS_MAX", 0.05)

    async def story() -> None:
        first, second = shop(database, stripe), shop(database, stripe)
        await first.inbox.reconcile("shop")
        asked, began = len(stripe.asked), time.time()
        first.rows("UPDATE {s}.reconciles SET complete_at = now() - interval '40 min'")
        async with second.working():
            await until(lambda: told(second) is not None)
            assert told(second) == pytest.approx(began - 2400, abs=30)
            assert len(stripe.asked) == asked
            first.rows("UPDATE {s}.reconciles SET complete_at = now()")
            await until(lambda: (told(second) or 0) > began - 60)
        await first.close()
        await second.close()

    asyncio.run(story())


def test_a_list_that_was_never_walked_to_its_end_is_complete_until_never(
    database: str, stripe: StripeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zero, which no alert about an age overlooks."""
    monkeypatch.setattr(reconciler, "LOOK_SECONDS_MAX", 0.05)

    async def story() -> None:
        queue = shop(database, stripe)
        stripe.troubles.append(Told(status=401))
        assert not (await queue.inbox.reconcile("shop")).good
        async with queue.working():
            await until(lambda: told(queue) is not None)
            assert told(queue) == 0
        await queue.close()

    asyncio.run(story())
