"""Each paid order is written down once."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from django.test import Client
from shop.models import Order
from shop.webhooks import inbox

from webhook_inbox.testing import InboxTester, Sample, prove

PAID = json.loads((Path(__file__).parent / "events" / "orders_paid.json").read_text())


def test_an_order_is_written_down_once(inbox_tester: InboxTester) -> None:
    """Eight copies at once, and one more afterwards."""
    inbox_tester.deliver_at_once("orders", PAID, copies=8, type="orders/paid", id="example-event-1")
    assert inbox_tester.drain() == {"processed": 1}
    again = inbox_tester.deliver("orders", PAID, type="orders/paid", id="example-event-1")
    assert again.outcome == "duplicate"
    assert [order.total for order in Order.objects.all()] == [Decimal("49.90")]
    assert [message.event_type for message in inbox_tester.outbox()] == ["OrderPaid"]


def test_the_view_receives(inbox_tester: InboxTester, client: Client) -> None:
    """Where Shopify posts to, by Django's own client."""
    sent = inbox_tester.signed("orders", PAID, type="orders/paid")
    headers = dict(sent.headers)
    content_type = headers.pop("content-type")
    answer = client.post("/webhooks/orders", sent.body, content_type=content_type, headers=headers)
    assert answer.json()["outcome"] == "queued"


@pytest.mark.usefixtures("inbox_tester")
def test_whatever_happens_it_is_written_down_once() -> None:
    """Copies at once, either order, two at once, and a crash before each statement: the same orders in the end."""
    events = [Sample("orders", PAID, type="orders/paid", id=f"example-event-{number}") for number in (1, 2)]
    proof = prove(inbox, events, second_ids=False)
    assert proof.holds, str(proof)
