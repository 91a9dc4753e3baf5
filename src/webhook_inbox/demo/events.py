"""
Write Stripe's events as Stripe sends them: snapshot events around a whole invoice, pretty-printed UTF-8.

``python -m webhook_inbox.demo.events`` prints a new ``invoice.paid``, to be piped into ``webhook-inbox send``.

What is the same for every invoice stands in ``invoice.json``.

Source: docs.stripe.com/api/events/object and /api/invoices/object, API version 2025-09-30.clover.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
import time
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal, TypeAlias, assert_never

API_VERSION = "2025-09-30.clover"
MONTH_SECONDS = 30 * 24 * 3600
INVOICE_OPEN_SECONDS = 3600
ID_CHARACTERS = 24
UNKNOWN_CURRENCY = "isk"  # the billing example keeps no books in it
EventType: TypeAlias = Literal["invoice.created", "invoice.paid", "invoice.voided"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """
    Hold what the demo chooses about an invoice; the rest is the same for all.

    Attributes:
        name: What every id of it is made from.
        amount: In the currency's minor unit.
        created: Unix seconds.
    """

    name: str
    amount: int
    created: int
    currency: str = "eur"

    @property
    def id(self) -> str:
        """Give Stripe's id of it."""
        return stripe_id("in", self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeEvent:
    """
    Hold one event and its bytes.

    Attributes:
        body: What is signed and sent, the same on every attempt.
    """

    id: str
    type: EventType
    invoice: Invoice
    body: bytes = field(repr=False)


def write_event(event_type: EventType, invoice: Invoice, *, copy: int = 1) -> StripeEvent:
    """
    Write the event that *event_type* happened to *invoice*.

    Args:
        copy: Another number is another event id for the same fact, as Stripe does it now and then.
    """
    event_id = stripe_id("evt", f"{invoice.name} {event_type} {copy}")
    happened_at = invoice.created + (0 if event_type == "invoice.created" else INVOICE_OPEN_SECONDS)
    event = {
        "id": event_id,
        "object": "event",
        "api_version": API_VERSION,
        "created": happened_at,
        "data": {"object": _invoice(invoice, event_type, happened_at)},
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": None, "idempotency_key": None},
        "type": event_type,
    }
    body = json.dumps(event, indent=2, ensure_ascii=False).encode()
    return StripeEvent(id=event_id, type=event_type, invoice=invoice, body=body)


def stripe_id(prefix: str, name: str) -> str:
    """Make an id that looks like Stripe's, always the same for *name*."""
    return f"{prefix}_1{hashlib.sha256(f'{prefix} {name}'.encode()).hexdigest()[:ID_CHARACTERS]}"


def _invoice(invoice: Invoice, event_type: EventType, happened_at: int) -> dict[str, Any]:
    filled = _template()
    _fill_amounts(filled, invoice)
    _fill_ids(filled, invoice.name)
    filled |= {"created": invoice.created, "period_end": invoice.created}
    filled |= {"period_start": invoice.created - MONTH_SECONDS}
    due_at = invoice.created + INVOICE_OPEN_SECONDS
    match event_type:
        case "invoice.created":
            filled |= {"status": "draft", "auto_advance": True, "automatically_finalizes_at": due_at}
            return filled | {"next_payment_attempt": due_at}
        case "invoice.paid":
            filled |= {"status": "paid", "attempted": True, "attempt_count": 1}
            filled |= {"amount_paid": invoice.amount, "amount_remaining": 0}
            filled["status_transitions"] |= {"finalized_at": happened_at, "paid_at": happened_at}
        case "invoice.voided":
            filled |= {"status": "void"}
            filled["status_transitions"] |= {"finalized_at": happened_at, "voided_at": happened_at}
        case _:
            assert_never(event_type)
    filled |= {"number": f"DEMO-{invoice.name.upper()}", "effective_at": happened_at, "ending_balance": 0}
    return filled | {"hosted_invoice_url": f"https://invoice.stripe.example/i/{invoice.id}"}


def _template() -> dict[str, Any]:
    template: dict[str, Any] = json.loads(files("webhook_inbox.demo").joinpath("invoice.json").read_bytes())
    return template


def _fill_amounts(filled: dict[str, Any], invoice: Invoice) -> None:
    line = filled["lines"]["data"][0]
    line |= {"amount": invoice.amount, "currency": invoice.currency, "invoice": invoice.id}
    line["period"] |= {"start": invoice.created, "end": invoice.created + MONTH_SECONDS}
    line["pricing"]["unit_amount_decimal"] = str(invoice.amount)
    totals = (
        "amount_due",
        "amount_remaining",
        "subtotal",
        "subtotal_excluding_tax",
        "total",
        "total_excluding_tax",
    )
    filled |= dict.fromkeys(totals, invoice.amount) | {"amount_paid": 0, "currency": invoice.currency}


def _fill_ids(filled: dict[str, Any], name: str) -> None:
    subscription = stripe_id("sub", name)
    filled |= {"id": stripe_id("in", name), "customer": stripe_id("cus", name)}
    filled["parent"]["subscription_details"]["subscription"] = subscription
    filled["lines"]["url"] = f"/v1/invoices/{filled['id']}/lines"
    line = filled["lines"]["data"][0]
    line["id"] = stripe_id("il", name)
    item = line["parent"]["subscription_item_details"]
    item |= {"subscription": subscription, "subscription_item": stripe_id("si", name)}


def main() -> None:
    """Print an ``invoice.paid`` that nobody has seen yet."""
    invoice = Invoice(name=secrets.token_hex(4), amount=4900, created=int(time.time()) - INVOICE_OPEN_SECONDS)
    sys.stdout.buffer.write(write_event("invoice.paid", invoice).body)


if __name__ == "__main__":
    main()
