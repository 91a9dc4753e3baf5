"""Give each test a database with the tables of schema.sql, and a tester on the test's own event loop."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def webhook_inbox_tables() -> str:
    """Make the tables as in production."""
    return Path(__file__).with_name("schema.sql").read_text()


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, as asyncpg does."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUARE_SIGNATURE_KEY", "fake-key-for-tests-only")
    monkeypatch.setenv("PUBLIC_URL", "https://shop.example.test/webhooks/payments")
