"""What was bought is granted once."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg

from webhook_inbox import Inbox
from webhook_inbox.testing import InboxTester, Sample, prove

COMPLETED = json.loads((Path(__file__).parent / "events" / "transaction_completed.json").read_text())


def test_a_purchase_is_granted_once(inbox_tester: InboxTester, webhook_inbox_database: str) -> None:
    """Eight copies at once, and one more afterwards."""
    inbox_tester.deliver_at_once("paddle", COMPLETED, copies=8)
    assert inbox_tester.drain() == {"processed": 1}
    assert inbox_tester.deliver("paddle", COMPLETED).outcome == "duplicate"
    assert [message.event_type for message in inbox_tester.outbox()] == ["EntitlementsGranted"]
    with psycopg.connect(webhook_inbox_database) as connection:
        granted = connection.execute("SELECT price_id, quantity FROM entitlements").fetchall()
    assert granted == [("pri_01example000000000000000001", 3)]


def test_a_purchase_without_items_is_retried(inbox_tester: InboxTester) -> None:
    """A handler that cannot read its event fails, by name; the event waits for the release that can."""
    inbox_tester.deliver("paddle", COMPLETED | {"event_id": "evt_odd", "data": {"customer_id": "ctm_1"}})
    inbox_tester.drain()
    assert inbox_tester.event("evt_odd").state == "retrying"
    assert "KeyError" in inbox_tester.event("evt_odd").last_error


def test_whatever_happens_it_is_granted_once(inbox: Inbox) -> None:
    """Copies at once, either order, two at once, and a crash before each statement: the same grants in the end."""
    events = [Sample("paddle", COMPLETED), Sample("paddle", COMPLETED | {"event_id": "evt_next"})]
    proof = prove(inbox, events, second_ids=False)
    assert proof.holds, str(proof)
