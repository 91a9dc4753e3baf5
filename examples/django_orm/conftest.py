"""Test the shop's inbox on the database that pytest-django makes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from webhook_inbox.testing import InboxTester

os.environ.setdefault(
    "SHOPIFY_CLIENT_SECRET", "fake-for-tests-only"
)  # the inbox is made when its module is imported


@pytest.fixture
def inbox_tester(transactional_db: None) -> Iterator[InboxTester]:
    """Give a tester; tests share the database, so each begins with an empty inbox."""
    from shop.webhooks import inbox

    with InboxTester(inbox, fresh=True) as tester:
        yield tester
