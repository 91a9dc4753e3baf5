"""Note which addresses bounce."""

from __future__ import annotations

import os
from typing import Any

from psycopg import AsyncConnection

from webhook_inbox import Event, Handlers, Ignore, Inbox, Tx
from webhook_inbox.sources import SendGrid

handlers = Handlers()


@handlers.on("bounce", "dropped")
async def suppress(tx: Tx[AsyncConnection[Any]], event: Event) -> None:
    """Write one suppression, and tell others; both commit with the event, or not at all."""
    if event.payload.get("type") == "blocked":
        raise Ignore("the mailbox is there, and was only busy")
    await tx.conn.execute(
        "INSERT INTO suppressions (event_id, address, reason) VALUES (%s, %s, %s)",
        (event.id, event.payload["email"], event.payload.get("reason", event.type)),
    )
    await tx.emit("AddressSuppressed", {"address": event.payload["email"]})


def make_inbox(database: str | None = None) -> Inbox:
    """Open the endpoint that SendGrid posts to; None takes the database from DATABASE_URL."""
    inbox = Inbox(database)
    mail = inbox.endpoint(
        "mail",
        SendGrid(secrets=os.environ["SENDGRID_PUBLIC_KEY"]),
        mode="inline" if os.environ.get("MAIL_INLINE") else "queued",
    )
    mail.include(handlers)
    return inbox
