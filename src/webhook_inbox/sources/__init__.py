"""Answer the question "who sent it?": one file a provider."""

from __future__ import annotations

from webhook_inbox.sources.source import Answer, Identity, Rejected, Source, Unreadable, Verified

__all__ = ["Answer", "Identity", "Rejected", "Source", "Unreadable", "Verified"]
