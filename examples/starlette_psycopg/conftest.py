"""Give each test a database with the tables of schema.sql, and the inbox on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from webhooks import make_inbox

from webhook_inbox import Inbox
from webhook_inbox.testing.key_pairs import PAIRS


@pytest.fixture(scope="session")
def webhook_inbox_tables() -> str:
    """Make the tables as in production."""
    return Path(__file__).with_name("schema.sql").read_text()


@pytest.fixture
def inbox(webhook_inbox_database: str, monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """Give the inbox on the test's database; the tester signs with a key of its own in place of SendGrid's."""
    monkeypatch.setenv("SENDGRID_PUBLIC_KEY", PAIRS["sendgrid"]().public)
    return make_inbox(webhook_inbox_database)
