"""The billing example keeps its rules in every order, under every number of copies, on a real PostgreSQL."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import psycopg
import pytest

from tests.deliveries import PAYLOADS
from webhook_inbox import Inbox, Outcome
from webhook_inbox.demo.billing import billing
from webhook_inbox.demo.events import (
    UNKNOWN_CURRENCY,
    EventType,
    Invoice,
    StripeEvent,
    stripe_id,
    write_event,
)
from webhook_inbox.sources import Stripe
from webhook_inbox.testing.signing import sign_stripe

SECRET = "whsec_fake_billing"
SHARED_EVENTS = PAYLOADS / "stripe"
CREATED_AT = 1_760_000_000
PAID_AT = CREATED_AT + 3600


@dataclass(frozen=True)
class Books:
    """What is known of one invoice."""

    status: str | None
    paid_at: int | None
    ledger: tuple[tuple[str, str, int], ...]
    messages: int
    reviews: tuple[str, ...]


class Billing:
    """The example behind an inbox, on a database of the test's own."""

    def __init__(self, dsn: str, inbox: Inbox) -> None:
        self.dsn = dsn
        self.inbox = inbox

    def deliver_body(self, body: bytes) -> Outcome:
        """Deliver *body*, signed."""
        headers = sign_stripe(body, SECRET, int(time.time()))
        return self.inbox.receive_sync("stripe", headers=headers, body=body).outcome

    def deliver(self, *events: StripeEvent) -> list[Outcome]:
        """Deliver *events* one after the other."""
        return [self.deliver_body(event.body) for event in events]

    def deliver_at_once(self, events: Sequence[StripeEvent]) -> list[Outcome]:
        """Deliver all *events* at the same moment."""
        together = threading.Barrier(len(events))

        def one(event: StripeEvent) -> Outcome:
            together.wait(30)
            return self.deliver_body(event.body)

        with ThreadPoolExecutor(len(events)) as threads:
            return list(threads.map(one, events))

    def books(self, invoice: Invoice) -> Books:
        """Read what the tables say of *invoice*."""
        with psycopg.connect(self.dsn) as conn:

            def rows(statement: str) -> list[tuple[Any, ...]]:
                return conn.execute(statement.encode(), {"id": invoice.id}).fetchall()

            found = rows("SELECT status, extract(epoch FROM paid_at)::bigint FROM invoices WHERE id = %(id)s")
            status, paid_at = found[0] if found else (None, None)
            return Books(
                status=status,
                paid_at=paid_at,
                ledger=tuple(
                    rows("SELECT kind, currency, amount FROM ledger_entries WHERE invoice_id = %(id)s")
                ),
                messages=len(
                    rows(
                        """
                        SELECT FROM webhooks.outbox
                        WHERE event_type = 'InvoicePaymentBooked' AND aggregate_type = 'Invoice'
                          AND aggregate_id = %(id)s
                        """
                    )
                ),
                reviews=tuple(
                    row[0]
                    for row in rows("SELECT summary FROM webhooks.reviews WHERE details->>'invoice' = %(id)s")
                ),
            )


@pytest.fixture
def shop(database: str) -> Iterator[Billing]:
    """The billing example, its tables empty."""
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute(files("webhook_inbox.demo").joinpath("billing.sql").read_bytes())
    inbox = Inbox(database)
    inbox.endpoint("stripe", Stripe(secrets=SECRET), mode="inline").include(billing)
    yield Billing(database, inbox)
    inbox.close()


def invoice(name: str = "a", amount: int = 4900, currency: str = "eur") -> Invoice:
    """An invoice that nobody has heard of."""
    return Invoice(name=name, amount=amount, created=CREATED_AT, currency=currency)


def changed(event: StripeEvent, copy: int, **fields: Any) -> StripeEvent:
    """The same fact under another event id, with other *fields* in the invoice."""
    payload = json.loads(event.body)
    payload["id"] = stripe_id("evt", f"{event.id} {copy}")
    payload["data"]["object"] |= fields
    return StripeEvent(
        id=payload["id"], type=event.type, invoice=event.invoice, body=json.dumps(payload).encode()
    )


OPEN = Books(status="open", paid_at=None, ledger=(), messages=0, reviews=())
VOID = Books(status="void", paid_at=None, ledger=(), messages=0, reviews=())
PAID = Books(status="paid", paid_at=PAID_AT, ledger=(("payment", "eur", 4900),), messages=1, reviews=())


def test_created_opens_an_invoice(shop: Billing) -> None:
    """invoice.created leaves an open invoice and nothing else."""
    assert shop.deliver(write_event("invoice.created", invoice())) == [Outcome.PROCESSED]
    assert shop.books(invoice()) == OPEN


def test_created_inserts_only_if_absent(shop: Billing) -> None:
    """A second invoice.created, under another id and with another amount, changes nothing."""
    created = write_event("invoice.created", invoice())
    shop.deliver(created, changed(created, 2, amount_due=1))
    with psycopg.connect(shop.dsn) as conn:
        assert conn.execute("SELECT amount_due FROM invoices").fetchall() == [(4900,)]


def test_paid_may_come_first(shop: Billing) -> None:
    """invoice.paid alone books the payment; the invoice.created that follows does not reopen the invoice."""
    shop.deliver(write_event("invoice.paid", invoice()))
    assert shop.books(invoice()) == PAID
    shop.deliver(write_event("invoice.created", invoice()))
    assert shop.books(invoice()) == PAID


def test_one_payment_under_two_event_ids_is_booked_and_announced_once(shop: Billing) -> None:
    """P-OUT: the second event is processed, and adds neither a ledger entry nor a message."""
    outcomes = shop.deliver(*(write_event("invoice.paid", invoice(), copy=copy) for copy in (1, 2)))
    assert outcomes == [Outcome.PROCESSED, Outcome.PROCESSED]
    assert shop.books(invoice()) == PAID


def test_first_paid_at_stays(shop: Billing) -> None:
    """A later event that names another time of payment does not move the first one."""
    paid = write_event("invoice.paid", invoice())
    later = changed(paid, 2, status_transitions={"paid_at": PAID_AT + 86_400})
    shop.deliver(paid, later)
    assert shop.books(invoice()) == PAID


def test_missing_paid_at_is_filled_in_later(shop: Billing) -> None:
    """The first time of payment that is told is kept, also where the first event told none."""
    paid = write_event("invoice.paid", invoice())
    shop.deliver(changed(paid, 2, status_transitions={"paid_at": None}), paid)
    assert shop.books(invoice()) == PAID


def test_void_invoice_is_never_overwritten_and_its_payment_goes_to_a_person(shop: Billing) -> None:
    """invoice.paid after invoice.voided: still void, nothing booked or announced, one review with the amount."""
    shop.deliver(*(write_event(each, invoice()) for each in ("invoice.voided", "invoice.paid")))
    assert shop.books(invoice()) == Books("void", None, (), 0, ("paid after void",))
    with psycopg.connect(shop.dsn) as conn:
        details = conn.execute("SELECT details FROM webhooks.reviews").fetchall()
    assert details == [({"invoice": invoice().id, "amount": 4900},)]


def test_paid_invoice_is_not_voided_and_the_contradiction_goes_to_a_person(shop: Billing) -> None:
    """invoice.voided after invoice.paid: still paid and booked, one review."""
    shop.deliver(*(write_event(each, invoice()) for each in ("invoice.paid", "invoice.voided")))
    assert shop.books(invoice()) == Books("paid", PAID_AT, PAID.ledger, 1, ("voided after paid",))


@pytest.mark.parametrize(
    ("currency", "amount"), [("eur", 4900), ("jpy", 5000), ("kwd", 12_345), ("eur", 2**53 + 1), ("usd", 0)]
)
def test_amounts_are_exact_integers_in_the_minor_unit(shop: Billing, currency: str, amount: int) -> None:
    """What Stripe names is what is booked, to the last digit, whatever the currency's unit."""
    shop.deliver(write_event("invoice.paid", invoice(amount=amount, currency=currency)))
    assert shop.books(invoice()).ledger == (("payment", currency, amount),)


def test_payment_in_a_currency_without_books_is_given_up(shop: Billing) -> None:
    """Dead, and its redelivery is never called processed; nothing is booked, and a person is asked to look."""
    event = write_event("invoice.paid", invoice(currency=UNKNOWN_CURRENCY))
    assert shop.deliver(event, event) == [Outcome.DEAD, Outcome.DUPLICATE]
    assert shop.books(invoice()) == Books(None, None, (), 0, ("no books in this currency",))


def orders(*types: tuple[EventType, int]) -> list[tuple[tuple[EventType, int], ...]]:
    """Every order of *types*, each with the number of its event id; one stands for its own redelivery."""
    return sorted(set(itertools.permutations(types)))


def deliver_in_every_order(shop: Billing, *types: tuple[EventType, int]) -> dict[str, Books]:
    """Deliver each order to an invoice of its own; give what became of each."""
    found = {}
    for number, order in enumerate(orders(*types)):
        this = invoice(f"order-{number}")
        shop.deliver(*(write_event(kind, this, copy=copy) for kind, copy in order))
        found[" ".join(f"{kind}/{copy}" for kind, copy in order)] = shop.books(this)
    return found


def test_every_order_of_created_and_paid_ends_in_the_same_books(shop: Billing) -> None:
    """Created twice, paid twice and paid under a second id: 30 orders, one end."""
    found = deliver_in_every_order(
        shop,
        ("invoice.created", 1),
        ("invoice.created", 1),
        ("invoice.paid", 1),
        ("invoice.paid", 1),
        ("invoice.paid", 2),
    )
    assert len(found) == 30
    assert {order: books for order, books in found.items() if books != PAID} == {}


def test_every_order_of_created_and_voided_ends_in_the_same_books(shop: Billing) -> None:
    """Created twice, voided twice and voided under a second id: 30 orders, one end."""
    found = deliver_in_every_order(
        shop,
        ("invoice.created", 1),
        ("invoice.created", 1),
        ("invoice.voided", 1),
        ("invoice.voided", 1),
        ("invoice.voided", 2),
    )
    assert len(found) == 30
    assert {order: books for order, books in found.items() if books != VOID} == {}


def test_of_paid_and_voided_the_first_stays_and_the_other_is_reviewed_once(shop: Billing) -> None:
    """created, paid and voided, each twice: 90 orders, and only the first of the two contradicting facts matters."""
    found = deliver_in_every_order(
        shop,
        ("invoice.created", 1),
        ("invoice.created", 1),
        ("invoice.paid", 1),
        ("invoice.paid", 1),
        ("invoice.voided", 1),
        ("invoice.voided", 1),
    )
    assert len(found) == 90
    paid_first = Books("paid", PAID_AT, PAID.ledger, 1, ("voided after paid",))
    void_first = Books("void", None, (), 0, ("paid after void",))
    for order, books in found.items():
        first = order.replace("invoice.created/1", "").split()[0]
        assert books == (paid_first if first == "invoice.paid/1" else void_first), order


def test_one_payment_under_eight_ids_at_once_is_booked_and_announced_once(shop: Billing) -> None:
    """The ledger's own key decides between events that the inbox cannot know to be one payment."""
    outcomes = shop.deliver_at_once([write_event("invoice.paid", invoice(), copy=copy) for copy in range(8)])
    assert outcomes == [Outcome.PROCESSED] * 8
    assert shop.books(invoice()) == PAID


def test_paid_and_voided_at_once_never_leave_half_of_each(shop: Billing) -> None:
    """P-ONCE: whichever wins, ledger, message and review agree with the status."""
    for number in range(10):
        this = invoice(f"race-{number}")
        events = [write_event(kind, this) for kind in ("invoice.paid", "invoice.voided")]
        assert shop.deliver_at_once(events) == [Outcome.PROCESSED] * 2
        assert shop.books(this) in (
            Books("paid", PAID_AT, PAID.ledger, 1, ("voided after paid",)),
            Books("void", None, (), 0, ("paid after void",)),
        )


@pytest.mark.parametrize(
    "name",
    [
        "events/invoice_paid.json",
        "events/invoice_voided.json",
        "events-assembled/invoice_created.json",
    ],
)
def test_real_invoice_events_are_processed(shop: Billing, name: str) -> None:
    """Events of older API versions, as Stripe sent them, are understood; the redelivery is a duplicate."""
    body = (SHARED_EVENTS / name).read_bytes()
    assert [shop.deliver_body(body) for _ in range(2)] == [Outcome.PROCESSED, Outcome.DUPLICATE]
