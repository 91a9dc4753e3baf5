"""Give each test a database that Alembic has made, and the inbox on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from webhooks import make_inbox

from webhook_inbox import Inbox


def url_of(dsn: str) -> str:
    """Give *dsn* as SQLAlchemy reads it."""
    return dsn.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture(scope="session")
def webhook_inbox_tables() -> Callable[[str], None]:
    """Make the tables as in production."""

    def upgrade(dsn: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(os.environ, "DATABASE_URL", url_of(dsn))
            command.upgrade(Config(Path(__file__).with_name("alembic.ini")), "head")

    return upgrade


@pytest.fixture
def inbox(webhook_inbox_database: str, monkeypatch: pytest.MonkeyPatch) -> Inbox:
    """Give the shop's inbox on the test's database."""
    monkeypatch.setenv("STRIPE_WEBHOOK_SECRET", "whsec_fake_for_tests_only")
    engine = create_async_engine(url_of(webhook_inbox_database), poolclass=NullPool)
    return make_inbox(async_sessionmaker(engine, expire_on_commit=False))
