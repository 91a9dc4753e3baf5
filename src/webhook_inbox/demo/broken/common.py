"""Share what is right about the three: Stripe's signature, and the rules of the billing example."""

from __future__ import annotations

import hmac
import json
import os
import time
from datetime import UTC, datetime
from typing import Any, TypeAlias

import psycopg
from fastapi import HTTPException, Request

StripeEvent: TypeAlias = dict[str, Any]
TOLERANCE_SECONDS = 300


async def verified_event(request: Request) -> StripeEvent:
    """
    Read the event, and refuse what Stripe did not sign.

    Source: docs.stripe.com/webhooks, "Verify webhook signatures manually".
    """
    body = await request.body()
    try:
        parts = dict(part.split("=", 1) for part in request.headers["stripe-signature"].split(","))
        age = abs(time.time() - int(parts["t"]))
        signed = f"{parts['t']}.".encode() + body
        expected = hmac.new(os.environ["STRIPE_WEBHOOK_SECRET"].encode(), signed, "sha256").hexdigest()
        genuine = hmac.compare_digest(expected.encode(), parts["v1"].encode()) and age <= TOLERANCE_SECONDS
    except (KeyError, ValueError):
        genuine = False
    if not genuine:
        raise HTTPException(400, "bad signature")
    event: StripeEvent = json.loads(body)
    return event


def connect() -> psycopg.Connection[Any]:
    """Open a connection; as a context manager it commits, or rolls back on an exception, and closes."""
    return psycopg.connect(os.environ["DATABASE_URL"])


def book(conn: psycopg.Connection[Any], event: StripeEvent) -> None:
    """Do what ``webhook_inbox.demo.billing`` does."""
    stripe = event["data"]["object"]
    paid_at = stripe["status_transitions"]["paid_at"]
    paid_at = None if paid_at is None else datetime.fromtimestamp(paid_at, UTC)
    invoice = {key: stripe[key] for key in ("id", "customer", "currency", "amount_due", "amount_paid")}
    match event["type"]:
        case "invoice.created":
            _open_invoice(conn, invoice)
        case "invoice.paid":
            _book_payment(conn, {**invoice, "paid_at": paid_at})
        case "invoice.voided":
            _void_invoice(conn, invoice)
        case _:
            pass  # not ours


def _open_invoice(conn: psycopg.Connection[Any], invoice: dict[str, Any]) -> None:
    conn.execute(
        """
        INSERT INTO invoices (id, customer, currency, amount_due, status)
        VALUES (%(id)s, %(customer)s, %(currency)s, %(amount_due)s, 'open')
        ON CONFLICT (id) DO NOTHING
        """,
        invoice,
    )


def _book_payment(conn: psycopg.Connection[Any], invoice: dict[str, Any]) -> None:
    paid = conn.execute(
        """
        INSERT INTO invoices (id, customer, currency, amount_due, status, paid_at)
        VALUES (%(id)s, %(customer)s, %(currency)s, %(amount_due)s, 'paid', %(paid_at)s)
        ON CONFLICT (id) DO UPDATE
            SET status = 'paid', paid_at = coalesce(invoices.paid_at, excluded.paid_at)
            WHERE invoices.status <> 'void'
        """,
        invoice,
    )
    if paid.rowcount == 0:
        _review(conn, "paid after void", invoice)
        return
    conn.execute(
        """
        INSERT INTO ledger_entries (invoice_id, kind, currency, amount)
        VALUES (%(id)s, 'payment', %(currency)s, %(amount_paid)s)
        """,
        invoice,
    )
    conn.execute("INSERT INTO outbox (message, invoice) VALUES ('InvoicePaymentBooked', %(id)s)", invoice)


def _void_invoice(conn: psycopg.Connection[Any], invoice: dict[str, Any]) -> None:
    voided = conn.execute(
        """
        INSERT INTO invoices (id, customer, currency, amount_due, status)
        VALUES (%(id)s, %(customer)s, %(currency)s, %(amount_due)s, 'void')
        ON CONFLICT (id) DO UPDATE SET status = 'void' WHERE invoices.status <> 'paid'
        """,
        invoice,
    )
    if voided.rowcount == 0:
        _review(conn, "voided after paid", invoice)


def _review(conn: psycopg.Connection[Any], summary: str, invoice: dict[str, Any]) -> None:
    conn.execute(
        "INSERT INTO reviews (summary, details) VALUES (%(summary)s, %(id)s)", {**invoice, "summary": summary}
    )
