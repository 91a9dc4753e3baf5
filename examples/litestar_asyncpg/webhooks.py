"""Book the payments that Square has completed."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import asyncpg

from webhook_inbox import Event, Handlers, Ignore, Inbox, Tx
from webhook_inbox.sources import Square

handlers = Handlers()


@handlers.on("payment.updated")
async def book_payment(tx: Tx[asyncpg.Connection], event: Event) -> None:
    """Write one payment, and tell others; both commit with the event, or not at all."""
    payment: dict[str, Any] = event.payload["data"]["object"]["payment"]
    if payment["status"] != "COMPLETED":
        raise Ignore("not completed yet")
    money = payment["amount_money"]
    await tx.conn.execute(
        "INSERT INTO payments (event_id, order_id, amount, currency) VALUES ($1, $2, $3, $4)",
        event.id,
        payment["order_id"],
        money["amount"],
        money["currency"],
    )
    await tx.emit("OrderPaid", {"order": payment["order_id"], "amount": money["amount"]})


def make_inbox(pool: asyncpg.Pool | partial[Any]) -> Inbox:
    """Open the endpoint that Square posts to; *pool* is open, or what opens one where the first is needed."""
    inbox = Inbox(pool)
    payments = inbox.endpoint(
        "payments",
        Square(secrets=os.environ["SQUARE_SIGNATURE_KEY"], public_url=os.environ["PUBLIC_URL"]),
        mode="inline" if os.environ.get("PAYMENTS_INLINE") else "queued",
    )
    payments.include(handlers)
    return inbox
