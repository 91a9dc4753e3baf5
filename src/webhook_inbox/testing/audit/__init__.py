"""Examine any receiver of webhooks from outside, in whatever language it is written."""

from __future__ import annotations

from webhook_inbox.testing.audit.catalogue import CHECKS
from webhook_inbox.testing.audit.examination import audit
from webhook_inbox.testing.audit.report import Report
from webhook_inbox.testing.audit.settings import Settings

__all__ = ["CHECKS", "Report", "Settings", "audit"]
