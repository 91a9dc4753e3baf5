"""Book what Stripe says was paid."""

from __future__ import annotations

import os
from typing import Any

from models import LedgerEntry
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_sessionmaker

from webhook_inbox import Event, Handlers, Inbox, Tx
from webhook_inbox.sources import Stripe

handlers = Handlers()


@handlers.on("invoice.paid")
async def book_payment(tx: Tx[AsyncConnection], event: Event) -> None:
    """Write one entry, and tell others; both commit with the event, or not at all."""
    invoice: dict[str, Any] = event.payload["data"]["object"]
    entry = LedgerEntry(
        event_id=event.id,
        invoice_id=invoice["id"],
        amount=invoice["amount_paid"],
        currency=invoice["currency"],
    )
    tx.session.add(entry)
    await tx.emit("PaymentBooked", {"invoice": entry.invoice_id, "amount": entry.amount})


def make_inbox(sessions: async_sessionmaker[AsyncSession]) -> Inbox:
    """Open the endpoint that Stripe posts to."""
    inbox = Inbox(sessions)
    billing = inbox.endpoint(
        "billing",
        Stripe(secrets=os.environ["STRIPE_WEBHOOK_SECRET"]),
        mode="inline" if os.environ.get("BILLING_INLINE") else "queued",
    )
    billing.include(handlers)
    return inbox
