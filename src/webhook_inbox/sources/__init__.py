"""Answer the question "who sent it?": one file a provider."""

from __future__ import annotations

from webhook_inbox.sources.generic import Hmac
from webhook_inbox.sources.source import Answer, Identity, Rejected, Source, Unreadable, Verified
from webhook_inbox.sources.standard_webhooks import StandardWebhooks
from webhook_inbox.sources.stripe import Stripe

__all__ = [
    "Answer",
    "Hmac",
    "Identity",
    "Rejected",
    "Source",
    "StandardWebhooks",
    "Stripe",
    "Unreadable",
    "Verified",
]
