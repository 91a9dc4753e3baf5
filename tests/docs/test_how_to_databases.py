"""Every way to give an inbox its database runs as the page shows it: one delivery, one effect."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from django.db import connections, models
from django.test import RequestFactory

from tests.fixtures.benches import asyncpg_arguments, django_alias, forget_alias, set_django_up, url_of
from tests.fixtures.queue import signed
from tests.fixtures.receiving import stripe_event
from webhook_inbox import Inbox

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "databases.md"
SECRET = "whsec_fake_queue"
BODY = stripe_event(type_="invoice.paid", data={"object": {"amount_paid": 4200}})


def section(title: str) -> dict[str, Any]:
    """What the block of that section defines."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    module = types.ModuleType("page")
    sys.modules["page"] = module  # SQLAlchemy looks annotations up there
    exec(compile(block, PAGE.name, "exec"), module.__dict__)  # noqa: S102 - the page is ours
    return module.__dict__


@pytest.fixture
def ledger(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    """A witness of the page's own table; the page's environment is set."""
    monkeypatch.setenv("STRIPE_WEBHOOK_SECRET", SECRET)
    with psycopg.connect(database, autocommit=True) as witness:
        (create,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
        witness.execute(create)
        yield witness
    sys.modules.pop("page", None)


def assert_booked(ledger: psycopg.Connection[Any], status: int) -> None:
    """See that the delivery was processed, with its effect and its message."""
    assert status == 200
    assert ledger.execute("SELECT * FROM ledger_entries").fetchall() == [("evt_1", 4200)]
    assert ledger.execute("SELECT event_type FROM webhooks.outbox").fetchall() == [("PaymentBooked",)]


async def deliver(inbox: Inbox) -> int:
    """Deliver the event within the block that runs the inbox."""
    async with inbox.running():
        return (await inbox.receive("billing", headers=signed(BODY), body=BODY)).status


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_sqlalchemy_async(
    database: str, ledger: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    """A session of an AsyncEngine's, on either driver."""
    monkeypatch.setenv("SQLALCHEMY_URL", url_of(database, driver).render_as_string(hide_password=False))
    page = section("SQLAlchemy, `async def`")

    async def story() -> int:
        status = await deliver(page["inbox"])
        await page["engine"].dispose()
        return status

    assert_booked(ledger, asyncio.run(story()))


def test_sqlalchemy_sync(
    database: str, ledger: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of an Engine's, from a thread and from an event loop."""
    monkeypatch.setenv("SQLALCHEMY_URL", url_of(database, "psycopg").render_as_string(hide_password=False))
    page = section("SQLAlchemy, `def`")
    assert_booked(ledger, asyncio.run(deliver(page["inbox"])))
    again = page["inbox"].receive_sync("billing", headers=signed(BODY), body=BODY)
    assert (again.status, again.outcome) == (200, "duplicate")
    page["inbox"]._database.kw["bind"].dispose()


def test_asyncpg(database: str, ledger: psycopg.Connection[Any]) -> None:
    """A pool that is opened where its loop runs."""
    page = section("asyncpg")

    async def story() -> int:
        async with asyncpg.create_pool(**asyncpg_arguments(database) | {"min_size": 1}) as pool:
            return await deliver(page["open_inbox"](pool))

    assert_booked(ledger, asyncio.run(story()))


@pytest.fixture
def shop(database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Django project with ``shop.models`` and a default database."""
    set_django_up()
    alias = django_alias(database)
    with contextlib.suppress(AttributeError):  # what this thread has of the default that is none
        del connections["default"]
    monkeypatch.setitem(connections.databases, "default", connections.databases[alias])
    monkeypatch.setitem(sys.modules, "shop", types.ModuleType("shop"))
    module: Any = types.ModuleType("shop.models")
    module.LedgerEntry = _ledger_entry()
    monkeypatch.setitem(sys.modules, "shop.models", module)
    yield
    connections["default"].close()
    del connections["default"]
    forget_alias(alias)


def _ledger_entry() -> Any:
    meta = type("Meta", (), {"app_label": "shop", "db_table": "ledger_entries", "managed": False})
    columns = {"event_id": models.TextField(primary_key=True), "amount": models.BigIntegerField()}
    return type("LedgerEntry", (models.Model,), {"__module__": "shop.models", "Meta": meta, **columns})


def test_django(ledger: psycopg.Connection[Any], shop: None) -> None:
    """A view, a model, and Django's default database."""
    page = section("Django")
    headers = dict(signed(BODY))
    request = RequestFactory().post(
        "/webhooks/billing", BODY, content_type="application/json", headers=headers
    )
    response = page["receive"](request)
    assert_booked(ledger, response.status_code)
