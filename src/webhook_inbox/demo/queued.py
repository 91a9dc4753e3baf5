"""
Receive the same deliveries with the same handlers, but run them after the 200: this is the whole application.

    webhook-inbox serve webhook_inbox.demo.queued:inbox
    webhook-inbox worker webhook_inbox.demo.queued:inbox

A worker that gives no sign of life is replaced after two seconds, so that nobody waits; by default after two minutes.
"""

from __future__ import annotations

import os

from webhook_inbox import Inbox
from webhook_inbox.demo.billing import billing
from webhook_inbox.sources import Stripe

inbox = Inbox(schema="webhooks_queued", lease_seconds=2.0, poll_seconds=0.2)
stripe = inbox.endpoint(
    "stripe", Stripe(secrets=os.environ["STRIPE_WEBHOOK_SECRET"]), mode="queued", order_by="data.object.id"
)
stripe.include(billing)
app = inbox.asgi()
