"""Use the public names as a user does; two type checkers read this file, nothing runs it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_type
from uuid import UUID

from psycopg import AsyncConnection, Connection
from psycopg_pool import ConnectionPool

from webhook_inbox import Event, EventResult, GiveUp, Handlers, Ignore, Inbox, Outcome, Receipt, State, Tx
from webhook_inbox.sources import GitHub, Hmac, Meta, Shopify, Slack, Source, StandardWebhooks, Stripe

inbox = Inbox("postgresql:///app", schema="hooks", duplicate_wait_seconds=2.0)
pooled = Inbox(ConnectionPool("postgresql:///app", open=False))
configured_by_environment = Inbox()

billing = inbox.endpoint("billing", Stripe(secrets="whsec_fake_typing"), mode="inline", unhandled="drop")
several = inbox.endpoint("several", Stripe(secrets=["whsec_fake_a", "whsec_fake_b"]), mode="inline")
mail = inbox.endpoint("mail", StandardWebhooks(secrets="whsec_ZmFrZV90eXBpbmdfc2VjcmV0"), mode="inline")

# Whatever has a name of its own is typed like any class, although it is imported only when it is asked for.
named: list[Source] = [
    GitHub("fake-secret", algorithm="sha1"),
    Meta("fake-secret", verify_token="fake-token"),
    Shopify(["fake-old", "fake-new"], event_id="webhook"),
    Slack("fake-secret", tolerance_seconds=60),
]


@billing.on("invoice.paid", "invoice.payment_succeeded")
def book_payment(tx: Tx[Connection], event: Event) -> None:
    """Write on the driver's own connection, as in any other code."""
    assert_type(tx.conn.execute("SELECT 1").fetchone(), tuple[Any, ...] | None)
    assert_type(event.id, str)
    assert_type(event.body, bytes)
    assert_type(event.created_at, datetime | None)
    assert_type(event.idempotency_key("update-customer-metadata"), str)
    assert_type(
        tx.emit("InvoicePaymentBooked", {"invoice_id": 1}, aggregate_type="Invoice", aggregate_id=1), UUID
    )
    tx.review("paid after void", details={"invoice": 1})
    if event.account:
        raise Ignore("not ours")
    raise GiveUp("unknown plan")


handlers = Handlers()


@handlers.on("*")
async def note(tx: Tx[AsyncConnection], event: Event) -> None:
    """Await the same calls on an asynchronous connection."""
    await tx.conn.execute("INSERT INTO notes (event_id) VALUES (%s)", [event.id])
    assert_type(await tx.emit("Noted", {"id": event.id}), UUID)
    await tx.review("look at this")


mail.include(handlers)


@inbox.on_error
def tell(endpoint: str, error: BaseException) -> None:
    """Receive what the log leaves out."""


async def own_route(body: bytes) -> tuple[int, bytes]:
    """Take a delivery in within a route of one's own."""
    receipt = await inbox.receive("billing", headers=[("stripe-signature", "t=1,v1=00")], body=body)
    assert_type(receipt, Receipt)
    assert_type(receipt.outcome, Outcome)
    assert_type(receipt.results, tuple[EventResult, ...])
    for result in receipt.results:
        assert_type(result.state, State | None)
    return receipt.status, receipt.body


def own_thread(body: bytes) -> Receipt:
    """Take a delivery in without an event loop."""
    return inbox.receive_sync("billing", headers=[], body=body)


async def serve() -> None:
    """Run until the block ends."""
    async with inbox.running():
        await inbox.check()


assert_type(Hmac.__name__, str)
