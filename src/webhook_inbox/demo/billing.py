"""
Keep invoices and a ledger true to what Stripe tells, in whatever order and however often it tells it.

A handler's writes commit together with the event, or not at all; so the rules below are all there is to write:

- ``invoice.created`` opens an invoice that nothing newer is known of.
- ``invoice.paid`` may come first. It is booked once, also under two event ids, and announced only when it is booked.
- A void invoice stays void and a paid one paid. The event that contradicts it becomes a review: a person must look.
- A payment in a currency that no books are kept in is given up: dead, not tried again, and a review says why.

The tables are in ``billing.sql``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeAlias

from psycopg import Connection

from webhook_inbox import Event, GiveUp, Handlers, Tx

BillingTx: TypeAlias = Tx[Connection[Any]]
CURRENCIES = frozenset({"eur", "gbp", "jpy", "kwd", "usd"})

billing = Handlers()


@billing.on("invoice.created")
def open_invoice(tx: BillingTx, event: Event) -> None:
    """Open the invoice, unless it is known already."""
    tx.conn.execute(
        """
        INSERT INTO invoices (id, customer, currency, amount_due, status)
        VALUES (%(id)s, %(customer)s, %(currency)s, %(amount_due)s, 'open')
        ON CONFLICT (id) DO NOTHING
        """,
        _invoice(event),
    )


@billing.on("invoice.paid")
def book_payment(tx: BillingTx, event: Event) -> None:
    """Book the payment once, and tell the others; one that cannot be booked goes to a person."""
    invoice = _invoice(event)
    if invoice["currency"] not in CURRENCIES:
        tx.review(
            "no books in this currency", details={"invoice": invoice["id"], "currency": invoice["currency"]}
        )
        raise GiveUp(f"no books are kept in {invoice['currency']}")
    paid = tx.conn.execute(
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
        tx.review("paid after void", details={"invoice": invoice["id"], "amount": invoice["amount_paid"]})
        return
    booked = tx.conn.execute(
        """
        INSERT INTO ledger_entries (invoice_id, kind, currency, amount)
        VALUES (%(id)s, 'payment', %(currency)s, %(amount_paid)s)
        ON CONFLICT (invoice_id, kind) DO NOTHING
        """,
        invoice,
    )
    if booked.rowcount == 1:
        message = {
            "invoice": invoice["id"],
            "amount": invoice["amount_paid"],
            "currency": invoice["currency"],
        }
        tx.emit("InvoicePaymentBooked", message, aggregate_type="Invoice", aggregate_id=invoice["id"])


@billing.on("invoice.voided")
def void_invoice(tx: BillingTx, event: Event) -> None:
    """Void the invoice; one that is paid stays paid and goes to a person."""
    invoice = _invoice(event)
    voided = tx.conn.execute(
        """
        INSERT INTO invoices (id, customer, currency, amount_due, status)
        VALUES (%(id)s, %(customer)s, %(currency)s, %(amount_due)s, 'void')
        ON CONFLICT (id) DO UPDATE SET status = 'void' WHERE invoices.status <> 'paid'
        """,
        invoice,
    )
    if voided.rowcount == 0:
        tx.review("voided after paid", details={"invoice": invoice["id"]})


def _invoice(event: Event) -> dict[str, Any]:
    """Give Stripe's invoice as columns; its times are Unix seconds."""
    invoice = event.payload["data"]["object"]
    paid_at = invoice["status_transitions"]["paid_at"]
    return {
        "id": invoice["id"],
        "customer": invoice["customer"],
        "currency": invoice["currency"],
        "amount_due": invoice["amount_due"],
        "amount_paid": invoice["amount_paid"],
        "paid_at": None if paid_at is None else datetime.fromtimestamp(paid_at, UTC),
    }
