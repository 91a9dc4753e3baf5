"""Receive Stripe's deliveries with webhook-inbox: this is the whole application."""

from __future__ import annotations

import os

from webhook_inbox import Inbox
from webhook_inbox.demo.billing import billing
from webhook_inbox.sources import Stripe

inbox = Inbox()
stripe = inbox.endpoint("stripe", Stripe(secrets=os.environ["STRIPE_WEBHOOK_SECRET"]), mode="inline")
stripe.include(billing)
app = inbox.asgi()
