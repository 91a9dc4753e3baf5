"""Each completed payment is booked once."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from webhooks import make_inbox

from webhook_inbox.testing import AsyncInboxTester, Sample, prove

pytestmark = pytest.mark.anyio
UPDATED = json.loads((Path(__file__).parent / "events" / "payment_updated.json").read_text())


async def test_a_payment_is_booked_once(webhook_inbox_database: str) -> None:
    """Eight copies at once, and one more afterwards."""
    async with (
        asyncpg.create_pool(webhook_inbox_database) as pool,
        AsyncInboxTester(make_inbox(pool)) as tester,
    ):
        await tester.deliver_at_once("payments", UPDATED, copies=8)
        assert await tester.drain() == {"processed": 1}
        assert (await tester.deliver("payments", UPDATED)).outcome == "duplicate"
        assert [message.event_type for message in await tester.outbox()] == ["OrderPaid"]
        booked = await pool.fetch("SELECT order_id, amount FROM payments")
    assert [tuple(row) for row in booked] == [("ExampleOrder01", 1250)]


async def test_a_payment_that_is_not_completed_is_left_alone(webhook_inbox_database: str) -> None:
    """Square tells of every step; only the last one is booked."""
    pending = json.loads(json.dumps(UPDATED).replace("COMPLETED", "APPROVED"))
    async with (
        asyncpg.create_pool(webhook_inbox_database) as pool,
        AsyncInboxTester(make_inbox(pool)) as tester,
    ):
        await tester.deliver("payments", pending)
        assert await tester.drain() == {"ignored": 1}
        assert await tester.outbox() == []


def test_whatever_happens_it_is_booked_once(webhook_inbox_database: str) -> None:
    """Copies at once, either order, two at once, and a crash before each statement: the same payments in the end."""
    inbox = make_inbox(partial(asyncpg.create_pool, webhook_inbox_database))
    events = [Sample("payments", UPDATED), Sample("payments", UPDATED | {"event_id": "evt_next"})]
    proof = prove(inbox, events, second_ids=False)
    assert proof.holds, str(proof)
