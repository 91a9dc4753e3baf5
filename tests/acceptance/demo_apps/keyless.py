"""Our inbox around the very code of the broken three, whose ledger has no unique key: what is left is the protocol."""

from __future__ import annotations

import os
from typing import Any

import psycopg

from webhook_inbox import Event, Inbox, Tx
from webhook_inbox.demo.broken.common import book
from webhook_inbox.sources import Stripe

inbox = Inbox()
stripe = inbox.endpoint("stripe", Stripe(secrets=os.environ["STRIPE_WEBHOOK_SECRET"]), mode="inline")


@stripe.on("invoice.*")
def handle(tx: Tx[psycopg.Connection[Any]], event: Event) -> None:
    """Book as they do."""
    book(tx.conn, event.payload)


app = inbox.asgi()
