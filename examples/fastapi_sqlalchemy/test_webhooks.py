"""Each payment is booked once."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg

from webhook_inbox import Inbox
from webhook_inbox.testing import InboxTester, Sample, prove

PAID = json.loads((Path(__file__).parent / "events" / "invoice_paid.json").read_text())


def test_a_payment_is_booked_once(inbox_tester: InboxTester, webhook_inbox_database: str) -> None:
    """Eight copies at once, and one more afterwards."""
    inbox_tester.deliver_at_once("billing", PAID, copies=8)
    assert inbox_tester.drain() == {"processed": 1}
    assert inbox_tester.deliver("billing", PAID).outcome == "duplicate"
    assert [message.event_type for message in inbox_tester.outbox()] == ["PaymentBooked"]
    with psycopg.connect(webhook_inbox_database) as connection:
        booked = connection.execute("SELECT invoice_id, amount, currency FROM ledger_entries").fetchall()
    assert booked == [("in_1PExampleInvoice0001", 4900, "eur")]


def test_another_type_is_recorded_and_changes_nothing(inbox_tester: InboxTester) -> None:
    """What no handler is for is ignored, and could be run later."""
    receipt = inbox_tester.deliver("billing", PAID | {"id": "evt_other", "type": "invoice.voided"})
    assert receipt.outcome == "ignored"
    assert inbox_tester.outbox() == []


def test_whatever_happens_it_is_booked_once(inbox: Inbox) -> None:
    """Copies at once, either order, two at once, and a crash before each statement: the same ledger in the end."""
    events = [Sample("billing", PAID), Sample("billing", PAID | {"id": "evt_next"})]
    proof = prove(inbox, events, second_ids=False)
    assert proof.holds, str(proof)
