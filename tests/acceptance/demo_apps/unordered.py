"""Our queued receiver without the order of one invoice's events."""

from __future__ import annotations

import os

from webhook_inbox import Inbox
from webhook_inbox.demo.billing import billing
from webhook_inbox.sources import Stripe

# In one transaction with those that the story waits for, the second event would hold them up: it waits for the first's.
inbox = Inbox(schema="webhooks_queued", lease_seconds=2.0, poll_seconds=0.2, batch_events_max=1)
stripe = inbox.endpoint("stripe", Stripe(secrets=os.environ["STRIPE_WEBHOOK_SECRET"]), mode="queued")
stripe.include(billing)
app = inbox.asgi()
