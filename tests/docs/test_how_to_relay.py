"""What the page about the outbox shows runs as it stands: two services end to end, a call, an emit of one's own."""

from __future__ import annotations

import asyncio
import base64
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import uvicorn

from tests.fixtures.outbox import Outbox
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.queue import in_time, signed, until
from tests.fixtures.receiving import stripe_event
from webhook_inbox.destinations import Call
from webhook_inbox.model.message import Failed, Sent

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "relay.md"
SECRET = "whsec_" + base64.b64encode(b"an obviously fake key for a page").decode()


def section(title: str) -> dict[str, Any]:
    """What the block of that section defines."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    module = types.ModuleType("page")
    sys.modules["page"] = module
    exec(compile(block, PAGE.name, "exec"), module.__dict__)  # noqa: S102 - the page is ours
    return module.__dict__


@pytest.fixture
def second_database(postgres: PostgresServer, _template: str) -> Iterator[str]:
    """Another service's database, with its own schema."""
    name = postgres.create(template=_template)
    yield postgres.dsn_of(name)
    postgres.drop(name)


class _Served(uvicorn.Server):
    """Serve without taking the test's signals."""

    def install_signal_handlers(self) -> None:
        """Leave them."""


def test_two_services_are_once_in_effect_end_to_end(
    database: str, second_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-OUT, P-DUP: webhook, inbox, outbox, HTTP, inbox: each effect once, although every message is sent twice."""
    config = uvicorn.Config("page:app", log_config=None, lifespan="off")
    socket = config.bind_socket()
    for name, value in {
        "SHOP_DATABASE_URL": database,
        "LEDGER_DATABASE_URL": second_database,
        "STRIPE_WEBHOOK_SECRET": "whsec_fake_queue",
        "LEDGER_SECRET": SECRET,
        "LEDGER_URL": f"http://127.0.0.1:{socket.getsockname()[1]}/payments",
        "WEBHOOK_INBOX_POLL_SECONDS": "0.05",
        "WEBHOOK_INBOX_STOP_SECONDS_MAX": "5",
    }.items():
        monkeypatch.setenv(name, value)
    shop_rows, ledger_rows = Outbox(database).rows, Outbox(second_database).rows
    shop_rows("CREATE TABLE payments (event_id text)")
    ledger_rows("CREATE TABLE entries (message_id text, invoice text)")
    page = section("Two services, end to end")

    async def story() -> None:
        server = _Served(config)
        serving = asyncio.create_task(server.serve(sockets=[socket]))
        async with page["shop"].running(worker=True, relay=True), page["ledger"].running(worker=True):
            for number in range(5):
                body = stripe_event(
                    f"evt_{number}", type_="invoice.paid", data={"object": {"id": f"in_{number}"}}
                )
                for _ in range(2):
                    receipt = await page["shop"].receive("billing", headers=signed(body), body=body)
                    assert receipt.status == 200
            await until(lambda: len(Outbox(database).published()) == 5)
            shop_rows(
                "UPDATE webhooks.outbox SET published_at = NULL"
            )  # as a relay that died before its mark
            shop_rows("UPDATE webhooks.sends SET state = 'waiting', sent_at = NULL")
            await until(lambda: len(Outbox(database).published()) == 5)
            await until(
                lambda: len(ledger_rows("SELECT id FROM webhooks.inbox WHERE state = 'processed'")) == 5
            )
        server.should_exit = True
        await in_time(serving)

    asyncio.run(in_time(story(), 60))
    assert len(shop_rows("SELECT event_id FROM payments")) == 5
    entries = ledger_rows("SELECT message_id, invoice FROM entries ORDER BY invoice")
    assert [row["invoice"] for row in entries] == [f"in_{number}" for number in range(5)]
    ids = {str(row["id"]) for row in shop_rows("SELECT id FROM webhooks.outbox")}
    assert {row["message_id"] for row in entries} == ids
    assert {row["attempts"] for row in shop_rows("SELECT attempts FROM webhooks.sends")} == {2}


def test_a_call_steers_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again later, never again, done."""
    monkeypatch.setenv("DATABASE_URL", "postgresql:///nowhere")
    page = section("Call another API")
    call = Call(page["update_customer"])

    async def verdicts() -> list[Any]:
        await call.open()
        found = []
        for event_type in ("CustomerMoved", "CustomerErased", "CustomerMoved"):
            message = page["Message"](
                id="fake-id",
                destination="crm",
                event_type=event_type,
                payload=b"{}",
                created_at=None,
            )
            found += list(await call.send([message]))
            page["customers"]["crm"] = "there"
        await call.close()
        return found

    first, second, third = asyncio.run(verdicts())
    assert first == Failed("the CRM is being migrated", retry_in_seconds=60)
    assert second == Failed("there is nobody to update", permanent=True)
    assert third == Sent()
    assert page["inbox"].destinations == {"crm": "call update_customer"}


def test_an_emit_of_ones_own_is_one_message(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-OUT: with the row beside it or not at all, and once for its key; the plain INSERT of the page works, too."""
    monkeypatch.setenv("DATABASE_URL", database)
    page = section("Emit outside of a handler")
    box = Outbox(database)
    with pytest.raises(psycopg.errors.UndefinedTable):
        page["close_month"]("2030-01")
    assert box.rows("SELECT id FROM webhooks.outbox") == []
    box.rows("CREATE TABLE closed_months (month text)")
    for _ in range(2):
        page["close_month"]("2030-01")
    (insert,) = re.findall(r"`(INSERT INTO webhooks\.outbox .*?)`", PAGE.read_text(encoding="utf-8"))
    box.rows(insert)
    rows = box.rows("SELECT event_type, payload FROM webhooks.outbox")
    assert [(row["event_type"], row["payload"]) for row in rows] == [
        ("MonthClosed", {"month": "2030-01"})
    ] * 2
