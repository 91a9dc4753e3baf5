"""The page about testing handlers runs as it stands: each section is a suite of a user's."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.postgres import PostgresServer
from webhook_inbox.testing import InboxTester, plugin
from webhook_inbox.testing.plugin import DSN_VARIABLE

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "test-your-handlers.md"
TEXT = PAGE.read_text(encoding="utf-8")
BASE = "Begin"
#: What a section takes for granted that its reader has.
MODELS = """
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

class Base(DeclarativeBase):
    pass

class LedgerEntry(Base):
    __tablename__ = "ledger_entries"
    event_id: Mapped[str] = mapped_column(primary_key=True)
    amount: Mapped[int]
"""
SESSION_APP = """
from sqlalchemy import text
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe

def make_inbox(database):
    inbox = Inbox(database)
    billing = inbox.endpoint("billing", Stripe(secrets="whsec_fake_for_this_page"))

    @billing.on("invoice.paid")
    def book(tx, event):
        amount = event.payload["data"]["object"]["amount_paid"]
        tx.session.execute(text("INSERT INTO ledger_entries VALUES (:id, :amount)"), {"id": event.id, "amount": amount})
        tx.emit("PaymentBooked", {"amount": amount})

    return inbox
"""
ASYNC_APP = """
from webhook_inbox import Inbox
from webhook_inbox.sources import StandardWebhooks

def make_inbox(pool):
    inbox = Inbox(pool)
    users = inbox.endpoint("users", StandardWebhooks("whsec_ZmFrZS1mb3ItdGhpcy1wYWdl"))

    @users.on("user.created")
    async def welcome(tx, event):
        await tx.emit("WelcomeWanted", {"user": event.payload["data"]["id"]})

    return inbox
"""

#: A Django project that has the webhooks of the page about databases.
SETTINGS = """
import os
from psycopg.conninfo import conninfo_to_dict

dsn = conninfo_to_dict(os.environ["WEBHOOK_INBOX_TEST_DATABASE_URL"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": dsn["dbname"],
        "TEST": {"NAME": "test_django_page"},
        "USER": dsn["user"],
        "HOST": dsn["host"],
        "PORT": dsn["port"],
        "PASSWORD": dsn.get("password", ""),
    }
}
INSTALLED_APPS = ["shop"]
SECRET_KEY = "fake"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
"""
SHOP_MODELS = """
from django.db import models

class LedgerEntry(models.Model):
    event_id = models.TextField(primary_key=True)
    amount = models.BigIntegerField()
"""
SHOP_TEST = """
import pytest
from shop.models import LedgerEntry

PAID = {"id": "evt_1", "type": "invoice.paid", "data": {"object": {"amount_paid": 1999}}}

@pytest.mark.parametrize("n", range(2))
def test_a_payment_is_booked(inbox_tester, n):
    receipts = inbox_tester.deliver_at_once("billing", PAID, copies=3)
    assert sorted(receipt.outcome for receipt in receipts) == ["duplicate", "duplicate", "processed"]
    assert list(LedgerEntry.objects.values_list()) == [("evt_1", 1999)]
    assert inbox_tester.event("evt_1").state == "processed"
"""


def files(section: str) -> dict[str, str]:
    """The files that a section's blocks are, by the names they begin with."""
    text = TEXT.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", text, flags=re.DOTALL)
    assert blocks, section
    return dict(blocks)


SUITES: dict[str, tuple[dict[str, str], int]] = {
    BASE: ({}, 2),
    "A handler that fails, and the retry": ({"test_billing.py": ""}, 1),
    "Your framework's own route": ({"test_billing.py": ""}, 1),
    "An inbox that is made when its module is imported": (
        {"webhooks.py": files(BASE)["app.py"] + "\n\ninbox = make_inbox()\n"},
        2,
    ),
    "SQLAlchemy": ({"models.py": MODELS, "app.py": SESSION_APP, "test_async.py": ""}, 2),
}


@pytest.fixture
def suite(
    pytester: pytest.Pytester, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, str]], pytest.RunResult]:
    """Run a suite that is made of these files, on the run's server."""
    monkeypatch.setenv(DSN_VARIABLE, postgres.dsn)

    def run(texts: dict[str, str]) -> pytest.RunResult:
        for name, text in texts.items():
            path = pytester.path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider", timeout=60)

    return run


@pytest.mark.parametrize("section", SUITES)
def test_a_section_s_suite_passes(suite: Callable[[dict[str, str]], pytest.RunResult], section: str) -> None:
    """With what the page begins with, whatever the section does not say anew."""
    beside, passed = SUITES[section]
    suite({**files(BASE), **files(section), **beside}).assert_outcomes(passed=passed)


def test_a_pool_is_tested_on_its_loop(suite: Callable[[dict[str, str]], pytest.RunResult]) -> None:
    """With anyio's plugin, which comes with httpx."""
    backend = "import pytest\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    test = files("SQLAlchemy")["test_async.py"]
    suite({"app.py": ASYNC_APP, "conftest.py": backend, "test_async.py": test}).assert_outcomes(passed=1)


def test_a_django_project_is_tested(
    suite: Callable[[dict[str, str]], pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By pytest-django, on the database that it makes, which both tests share."""
    monkeypatch.setenv("STRIPE_WEBHOOK_SECRET", "whsec_fake_for_this_page")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "settings")
    databases = (PAGE.parent / "databases.md").read_text(encoding="utf-8")
    (webhooks,) = re.findall(r"```python\n# shop/webhooks.py\n(.*?)```", databases, flags=re.DOTALL)
    section = "A database that you have already, and pytest-django"
    shop = {"__init__": "", "models": SHOP_MODELS, "webhooks": webhooks}
    result = suite(
        {
            **files(section),
            "settings.py": SETTINGS,
            "test_shop.py": SHOP_TEST,
            **{f"shop/{name}.py": text for name, text in shop.items()},
        }
    )
    result.assert_outcomes(passed=2)


def rows(heading: str) -> set[str]:
    """The names in the first column of the table that begins with *heading*."""
    table = TEXT.partition(f"| {heading} |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)", cell)}


def test_every_method_and_every_fixture_stands_in_its_table() -> None:
    """And nothing else does."""
    assert rows("of `InboxTester`") == {name for name in vars(InboxTester) if not name.startswith("_")}
    fixtures = {name for name, found in vars(plugin).items() if isinstance(found, type(plugin.inbox_tester))}
    assert rows("fixture") == {name for name in fixtures if not name.startswith("_")}
