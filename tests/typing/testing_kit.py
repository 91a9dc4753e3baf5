"""Use the testing kit as a typed program does; checked by mypy and pyright, never run."""

from __future__ import annotations

from collections import Counter
from typing import assert_type

from webhook_inbox import Inbox, Receipt, State
from webhook_inbox.sources import GitHub
from webhook_inbox.testing import (
    AsyncInboxTester,
    Draft,
    InboxTester,
    OutboxMessage,
    RecordedEvent,
    Review,
    Signed,
    signed,
)
from webhook_inbox.testing.signing import sign_hmac


def sign_acme(draft: Draft) -> Signed:
    """Sign for a source of one's own."""
    return Signed(sign_hmac(draft.body, draft.secret, "x-acme"), draft.body)


def use(inbox: Inbox) -> None:
    """From plain functions."""
    with InboxTester(inbox, fresh=True, signers={"acme": sign_acme}) as tester:
        assert_type(tester.deliver("billing", {"id": "evt_1"}, sent_at=1.5), Receipt)
        assert_type(tester.deliver_at_once("billing", b"{}", copies=8, type="push", id="1"), list[Receipt])
        assert_type(tester.drain(), Counter[str])
        assert_type(tester.relay(), Counter[str])
        assert_type(tester.bring_forward(hours=1), int)
        assert_type(tester.event("evt_1"), RecordedEvent)
        assert_type(tester.event("evt_1", endpoint="billing").state, State)
        assert_type(tester.outbox(), list[OutboxMessage])
        assert_type(tester.reviews(), list[Review])
        assert_type(tester.signed("billing", "{}"), Signed)
        assert_type(tester.errors, list[BaseException])
    assert_type(signed(GitHub("fake"), ["a"], type="push"), Signed)


async def use_async(inbox: Inbox) -> None:
    """On an event loop."""
    async with AsyncInboxTester(inbox) as tester:
        assert_type(await tester.deliver("billing", {"id": "evt_1"}), Receipt)
        assert_type(await tester.drain(), Counter[str])
        assert_type((await tester.events("billing"))[0], RecordedEvent)
