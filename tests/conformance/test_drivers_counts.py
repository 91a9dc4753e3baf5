"""Whatever database was given: what leaves no row is counted in it."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from tests.fixtures.databases import GIVEN, Given
from tests.fixtures.queue import SECRET
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.label)
def test_what_is_refused_is_counted_in_the_database(given: Given, database: str) -> None:
    """Once the inbox has been closed at the latest, though nothing else was asked of it; three refusals are one row."""

    async def refuse() -> None:
        async with given.open(database) as opened:
            inbox = Inbox(opened)
            inbox.endpoint("billing", Stripe(secrets=SECRET))
            async with inbox.running():
                for _ in range(3):
                    assert (await inbox.receive("billing", headers=[], body=b"{}")).status == 400

    asyncio.run(refuse())
    with psycopg.connect(database) as conn:
        counted = conn.execute("SELECT endpoint, outcome, number FROM webhooks.counters").fetchall()
    assert counted == [("billing", "rejected", 3)]
