"""Answer the question "who sent it?": one file a provider."""

from __future__ import annotations

from webhook_inbox.sources.source import Answer, Identity, Rejected, Source, Unreadable, Verified
from webhook_inbox.sources.stripe import Stripe

__all__ = ["Answer", "Identity", "Rejected", "Source", "Stripe", "Unreadable", "Verified"]
