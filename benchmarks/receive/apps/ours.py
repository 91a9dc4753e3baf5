"""Receive with webhook-inbox: recorded and answered, a worker runs the handler later."""

from __future__ import annotations

import os
from typing import Any

from psycopg import AsyncConnection

from webhook_inbox import Event, Inbox, Tx
from webhook_inbox.sources import Stripe

inbox = Inbox(prepared_statements=True)
stripe = inbox.endpoint("stripe", Stripe(secrets=os.environ["STRIPE_WEBHOOK_SECRET"]), mode="queued")
app = inbox.asgi()


@stripe.on("charge.succeeded")
async def book(tx: Tx[AsyncConnection[Any]], event: Event) -> None:
    """Stand for what a worker would run; none runs here."""
