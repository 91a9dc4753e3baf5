"""Name the examples, and how each is brought up and run, as its README says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from webhook_inbox.sources import Paddle, SendGrid, Shopify, Source, Square, Stripe
from webhook_inbox.testing.key_pairs import PAIRS

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, kw_only=True)
class Example:
    """
    Describe one example.

    Attributes:
        path: Where the provider posts to.
        event: The payload file; ``event_id`` is the member with its id, where the type is in no header.
        source: The provider, as the example has it configured; handed the URL that is posted to.
        table: Where the handler writes, with the event's id in ``event_id``.
        settings: Its environment, beside the database; ``{url}`` is where it listens.
        inline: What makes the handler run in the request.
        migrate, serve, worker: Commands of its README; ``{port}`` is a free one. No worker: the server works.
        tables: The file with its own tables, where no command makes them.
        event_type: Where the provider sends it in a header.
        secret: What the provider signs with, where it is not the source's.
        database: Spells the DSN as its library reads it.
    """

    folder: str
    path: str
    event: str
    event_id: str
    source: Callable[[str], Source]
    table: str
    settings: Mapping[str, str]
    inline: str
    migrate: tuple[str, ...]
    serve: str
    worker: str = ""
    tables: str = ""
    event_type: str = ""
    secret: str = ""
    database: Callable[[str], str] = field(default=lambda dsn: dsn)

    @property
    def home(self) -> Path:
        """Its folder."""
        return EXAMPLES / self.folder

    @property
    def event_path(self) -> str:
        """Where the event's id stands in its payload, as an audit is told."""
        return f"0.{self.event_id}" if self.event.startswith("bounce") else self.event_id

    def payload(self, event_id: str) -> Any:
        """The example's own event under another id."""
        payload = json.loads((self.home / "events" / self.event).read_text(encoding="utf-8"))
        holder = payload[0] if isinstance(payload, list) else payload
        if not self.event_type:
            holder[self.event_id] = event_id
        return payload


def _sqlalchemy(dsn: str) -> str:
    return dsn.replace("postgresql://", "postgresql+psycopg://")


SENDGRID = PAIRS["sendgrid"]()
MIGRATE = ("webhook-inbox migrate",)
UVICORN = "uvicorn app:app --port {port}"

APPS = (
    Example(
        folder="fastapi_sqlalchemy",
        path="/webhooks/billing",
        event="invoice_paid.json",
        event_id="id",
        source=lambda _: Stripe("whsec_fake_for_trying_only"),
        table="ledger_entries",
        settings={"STRIPE_WEBHOOK_SECRET": "whsec_fake_for_trying_only"},
        inline="BILLING_INLINE",
        migrate=("alembic upgrade head",),
        serve="uvicorn app:api --port {port}",
        database=_sqlalchemy,
    ),
    Example(
        folder="starlette_psycopg",
        path="/webhooks/mail",
        event="bounce.json",
        event_id="sg_event_id",
        source=lambda _: SendGrid(SENDGRID.public),
        secret=SENDGRID.private,
        table="suppressions",
        settings={"SENDGRID_PUBLIC_KEY": SENDGRID.public},
        inline="MAIL_INLINE",
        migrate=MIGRATE,
        tables="schema.sql",
        serve=UVICORN,
    ),
    Example(
        folder="litestar_asyncpg",
        path="/webhooks/payments",
        event="payment_updated.json",
        event_id="event_id",
        source=lambda url: Square("fake-key-for-trying-only", public_url=url),
        table="payments",
        settings={"SQUARE_SIGNATURE_KEY": "fake-key-for-trying-only", "PUBLIC_URL": "{url}"},
        inline="PAYMENTS_INLINE",
        migrate=MIGRATE,
        tables="schema.sql",
        serve=UVICORN,
    ),
    Example(
        folder="flask_psycopg",
        path="/webhooks/paddle",
        event="transaction_completed.json",
        event_id="event_id",
        source=lambda _: Paddle("pdl_ntfset_fake_for_trying_only"),
        table="entitlements",
        settings={"PADDLE_WEBHOOK_SECRET": "pdl_ntfset_fake_for_trying_only"},
        inline="PADDLE_INLINE",
        migrate=MIGRATE,
        tables="schema.sql",
        serve="flask run --port {port}",
        worker="webhook-inbox worker app:inbox",
    ),
    Example(
        folder="django_orm",
        path="/webhooks/orders",
        event="orders_paid.json",
        event_id="",
        event_type="orders/paid",
        source=lambda _: Shopify("fake-for-trying-only"),
        table="shop_order",
        settings={"SHOPIFY_CLIENT_SECRET": "fake-for-trying-only"},
        inline="ORDERS_INLINE",
        migrate=("python manage.py migrate",),
        serve="python manage.py runserver --noreload {port}",
        worker="python manage.py webhook_inbox worker",
    ),
)
