"""Receive with webhook-inbox, in the mode that ``BENCHMARK_MODE`` names; the handler books the charge, once."""

from __future__ import annotations

import os
from typing import Any, cast

from psycopg import AsyncConnection

from benchmarks.process.business import PERCENT, Booking
from webhook_inbox import Event, Inbox, Tx
from webhook_inbox.protocol.endpoint import Mode
from webhook_inbox.sources import Stripe

inbox = Inbox()
stripe = inbox.endpoint(
    "stripe",
    Stripe(secrets=os.environ["STRIPE_WEBHOOK_SECRET"]),
    mode=cast("Mode", os.environ.get("BENCHMARK_MODE", "queued")),
)
app = inbox.asgi()


@stripe.on("charge.succeeded")
async def book(tx: Tx[AsyncConnection[Any]], event: Event) -> None:
    """Book the charge; queued, a worker would do so later, and none runs here."""
    booking = Booking.of(event.payload)
    for statement, params in zip(PERCENT, booking.params, strict=True):
        await tx.conn.execute(statement.encode(), params)
