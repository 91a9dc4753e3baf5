"""Receive with webhook-inbox, inline: the handler's three statements commit with the event, only then 200."""

from __future__ import annotations

import os
from typing import Any

from psycopg import AsyncConnection

from benchmarks.process.business import PERCENT, Booking
from webhook_inbox import Event, Inbox, Tx
from webhook_inbox.sources import Stripe

inbox = Inbox(prepared_statements=True)
stripe = inbox.endpoint("stripe", Stripe(secrets=os.environ["STRIPE_WEBHOOK_SECRET"]), mode="inline")
app = inbox.asgi()


@stripe.on("charge.succeeded")
async def book(tx: Tx[AsyncConnection[Any]], event: Event) -> None:
    """Book the charge, once."""
    booking = Booking.of(event.payload)
    for statement, params in zip(PERCENT, booking.params, strict=True):
        await tx.conn.execute(statement.encode(), params)
