"""Serve a real PostgreSQL for demo, development and tests; nothing here is for production."""

from __future__ import annotations

from webhook_inbox.embedded.binaries import Binaries, find_binaries
from webhook_inbox.embedded.process import StopMode
from webhook_inbox.embedded.provide import provide_postgres
from webhook_inbox.embedded.server import EmbeddedPostgres

__all__ = ["Binaries", "EmbeddedPostgres", "StopMode", "find_binaries", "provide_postgres"]
