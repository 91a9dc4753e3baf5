"""Each bounce is noted once, whatever else its body holds."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg

from webhook_inbox import Inbox
from webhook_inbox.testing import InboxTester, Sample, prove

BOUNCES = json.loads((Path(__file__).parent / "events" / "bounce.json").read_text())
BLOCKED = BOUNCES[0] | {"sg_event_id": "blocked-1", "type": "blocked"}


def test_a_bounce_is_noted_once(inbox_tester: InboxTester, webhook_inbox_database: str) -> None:
    """Also where it comes again in other company."""
    inbox_tester.deliver("mail", BOUNCES)
    inbox_tester.deliver("mail", [BLOCKED, *BOUNCES])
    assert inbox_tester.drain() == {"processed": 1, "ignored": 1}
    assert [message.payload for message in inbox_tester.outbox()] == [{"address": "gone@example.test"}]
    with psycopg.connect(webhook_inbox_database) as connection:
        assert connection.execute("SELECT address FROM suppressions").fetchall() == [("gone@example.test",)]


def test_a_mailbox_that_was_busy_is_kept(inbox_tester: InboxTester) -> None:
    """The handler has looked at it, and left it at that."""
    inbox_tester.deliver("mail", [BLOCKED])
    inbox_tester.drain()
    assert inbox_tester.event("blocked-1").state == "ignored"
    assert inbox_tester.outbox() == []


def test_whatever_happens_it_is_noted_once(inbox: Inbox) -> None:
    """Copies at once, either order, two at once, and a crash before each statement: the same list in the end."""
    bodies = [BOUNCES, [BOUNCES[0] | {"sg_event_id": "bounce-next"}, BLOCKED]]
    proof = prove(inbox, [Sample("mail", body) for body in bodies], second_ids=False)
    assert proof.holds, str(proof)
