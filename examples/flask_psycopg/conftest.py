"""Give each test a database with the tables of schema.sql, and the inbox on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from webhooks import make_inbox

from webhook_inbox import Inbox


@pytest.fixture(scope="session")
def webhook_inbox_tables() -> str:
    """Make the tables as in production."""
    return Path(__file__).with_name("schema.sql").read_text()


@pytest.fixture
def inbox(webhook_inbox_database: str, monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """Give the shop's inbox on the test's database."""
    monkeypatch.setenv("PADDLE_WEBHOOK_SECRET", "pdl_ntfset_fake_for_tests_only")
    return make_inbox(webhook_inbox_database)
