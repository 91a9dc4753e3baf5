"""Grant what was bought by Paddle."""

from __future__ import annotations

import os
from typing import Any

from psycopg import Connection

from webhook_inbox import Event, Handlers, Inbox, Tx
from webhook_inbox.sources import Paddle

handlers = Handlers()


@handlers.on("transaction.completed")
def grant(tx: Tx[Connection[Any]], event: Event) -> None:
    """Write one entitlement for each item, and tell others; all commit with the event, or none does."""
    transaction: dict[str, Any] = event.payload["data"]
    for item in transaction["items"]:
        tx.conn.execute(
            "INSERT INTO entitlements (event_id, customer_id, price_id, quantity) VALUES (%s, %s, %s, %s)",
            (event.id, transaction["customer_id"], item["price"]["id"], item["quantity"]),
        )
    tx.emit("EntitlementsGranted", {"customer": transaction["customer_id"]})


def make_inbox(database: str | None = None) -> Inbox:
    """Open the endpoint that Paddle posts to; None takes the database from DATABASE_URL."""
    inbox = Inbox(database)
    paddle = inbox.endpoint(
        "paddle",
        Paddle(secrets=os.environ["PADDLE_WEBHOOK_SECRET"]),
        mode="inline" if os.environ.get("PADDLE_INLINE") else "queued",
    )
    paddle.include(handlers)
    return inbox
