"""Whatever the inbox was given as its database, a rehearsal shows what a run would change, and changes nothing."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from tests.fixtures.databases import GIVEN, Given
from tests.fixtures.recorded import Recorded
from tests.fixtures.worlds import say
from webhook_inbox import Inbox
from webhook_inbox.model.rehearsed import Rehearsed, RowChange
from webhook_inbox.protocol.look import find_events
from webhook_inbox.sources import Stripe

TABLES = """
CREATE TABLE invoices (id text PRIMARY KEY, state text NOT NULL, total numeric NOT NULL);
INSERT INTO invoices VALUES ('in_1', 'open', 10.50), ('in_2', 'open', 1), ('in_3', 'open', 2);
CREATE TABLE "Odd ""Name" (note text);
INSERT INTO "Odd ""Name" VALUES ('gone'), ('stays')
"""
EVERYTHING = (
    "invoices",
    '"Odd ""Name"',
    "webhooks.inbox",
    "webhooks.outbox",
    "webhooks.reviews",
    "webhooks.attempts",
)
CHANGES = (
    "SELECT * FROM invoices WHERE id = 'in_3' FOR UPDATE",
    "UPDATE invoices SET state = 'paid' WHERE id = 'in_1'",
    "UPDATE invoices SET state = 'void' WHERE id = 'in_2'",
    "UPDATE invoices SET state = 'open' WHERE id = 'in_2'",
    "INSERT INTO invoices VALUES ('in_4', 'new', 12345678901234567890.123)",
    'DELETE FROM "Odd ""Name" WHERE note = \'gone\'',
)


def everything(recorded: Recorded) -> dict[str, Any]:
    """All rows, with the transaction that wrote each."""
    return {name: recorded.rows(f"SELECT xmin::text, * FROM {name} ORDER BY 2") for name in EVERYTHING}


def rehearsed(given: Given, dsn: str, handler: Any, event_id: str = "evt_1") -> Rehearsed:
    """Rehearse an event with *handler* at its endpoint."""

    async def story() -> Rehearsed:
        async with given.open(dsn) as handle:
            inbox = Inbox(handle)
            inbox.endpoint("shop", Stripe("whsec_fake")).on("invoice.paid")(handler)
            async with inbox.running():
                (record,) = await inbox.perform(partial(find_events, event_id))
                return await inbox.rehearse(record)

    return asyncio.run(story())


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.label)
def test_a_rehearsal_shows_every_row_and_leaves_none(given: Given, database: str) -> None:
    """Inserted, updated and deleted, messages, reviews; not what was only locked, or comes to the same (P-ONCE)."""
    recorded = Recorded(database)
    recorded.rows(TABLES)
    recorded.add("evt_1", "dead", attempts=3)
    before = everything(recorded)

    async def on_loop(tx: Any, event: Any) -> None:
        for statement in CHANGES:
            await say(tx.conn, statement)
        await tx.emit("Paid", {"attempt": event.attempt}, aggregate_type="Invoice", aggregate_id="in_1")
        await tx.review("look", details={"id": event.id})

    def on_thread(tx: Any, event: Any) -> None:
        for statement in CHANGES:
            say(tx.conn, statement)
        tx.emit("Paid", {"attempt": event.attempt}, aggregate_type="Invoice", aggregate_id="in_1")
        tx.review("look", details={"id": event.id})

    done = rehearsed(given, database, on_loop if given.is_async else on_thread)
    assert (done.end, done.whole, done.unread) == ("processed", True, ())
    assert sorted(done.rows, key=str) == sorted(
        [
            RowChange(table='public."Odd ""Name"', before={"note": "gone"}, after=None),
            RowChange(
                table="public.invoices",
                before={"id": "in_1", "state": "open", "total": Decimal("10.50")},
                after={"id": "in_1", "state": "paid", "total": Decimal("10.50")},
            ),
            RowChange(
                table="public.invoices",
                before=None,
                after={"id": "in_4", "state": "new", "total": Decimal("12345678901234567890.123")},
            ),
        ],
        key=str,
    )
    (message,) = done.messages
    assert (message.event_type, message.aggregate_id, message.payload) == ("Paid", "in_1", {"attempt": 4})
    assert [(each.summary, each.details) for each in done.reviews] == [("look", {"id": "evt_1"})]
    assert everything(recorded) == before


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.label)
@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
def test_a_handler_that_ends_the_transaction_is_refused_by_name(
    given: Given, statement: str, database: str
) -> None:
    """Its own COMMIT commits nothing, either: the server refuses it (P-ONCE)."""
    recorded = Recorded(database)
    recorded.rows(TABLES)
    recorded.add("evt_1", "processed")
    before = everything(recorded)

    async def on_loop(tx: Any, event: Any) -> None:
        await say(tx.conn, CHANGES[1])
        await say(tx.conn, statement)

    def on_thread(tx: Any, event: Any) -> None:
        say(tx.conn, CHANGES[1])
        say(tx.conn, statement)

    done = rehearsed(given, database, on_loop if given.is_async else on_thread)
    assert done.end == "failed"
    assert "Leave COMMIT and ROLLBACK to webhook-inbox" in done.reason
    assert "test_a_handler_that_ends_the_transaction_is_refused_by_name" in done.reason
    assert everything(recorded) == before
