"""Write down the orders that Shopify says are paid."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

from shop.models import Order
from webhook_inbox import Django, Event, Inbox, Tx
from webhook_inbox.sources import Shopify

inbox = Inbox(Django("default"))
orders = inbox.endpoint(
    "orders",
    Shopify(secrets=os.environ["SHOPIFY_CLIENT_SECRET"]),
    mode="inline" if os.environ.get("ORDERS_INLINE") else "queued",
)


@orders.on("orders/paid")
def note_order(tx: Tx[Any], event: Event) -> None:
    """Write one order, and tell others; both commit with the event, or not at all."""
    payload = event.payload
    order = Order.objects.create(
        event_id=event.id,
        shopify_id=payload["id"],
        total=Decimal(payload["total_price"]),
        currency=payload["currency"],
    )
    tx.emit(
        "OrderPaid", {"order": order.shopify_id}, aggregate_type="Order", aggregate_id=str(order.shopify_id)
    )
