"""A wrong secret is seen where only warnings are kept, and no stranger fills the log by it."""

from __future__ import annotations

import logging

import pytest

from tests.fixtures.receiving import STRIPE_SECRET
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe
from webhook_inbox.telemetry.rejections import EVERY_SECONDS, Rejections


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said at WARNING or above."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_refusals_are_told_by_the_clock_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """The first at once; those of a minute in one line; each endpoint and reason by itself."""
    now = [0.0]
    rejections = Rejections(clock=lambda: now[0])
    said = "endpoint {} refuses deliveries: {} ({} since it was last told); is the secret the provider's?"
    for _ in range(1_000):
        rejections.tell("shop", "signature_mismatch")
    rejections.tell("shop", "signature_missing")
    rejections.tell("other", "signature_mismatch")
    assert told(caplog) == [
        said.format("shop", "signature_mismatch", 1),
        said.format("shop", "signature_missing", 1),
        said.format("other", "signature_mismatch", 1),
    ]
    caplog.clear()
    now[0] = EVERY_SECONDS
    rejections.tell("shop", "signature_mismatch")
    rejections.tell("shop", "signature_mismatch")
    assert told(caplog) == [said.format("shop", "signature_mismatch", 1_000)]


def test_an_apps_wrong_secret_is_told_once_without_a_word_of_the_delivery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P-QUIET: the endpoint and a code; nothing that the sender chose."""
    inbox = Inbox("postgresql://127.0.0.1:1/never_asked")
    inbox.endpoint("shop", Stripe(secrets=STRIPE_SECRET)).on("*")(lambda tx, event: None)
    for _ in range(3):
        receipt = inbox.receive_sync("shop", headers=[("stripe-signature", "t=1,v1=canary")], body=b"canary")
        assert receipt.status == 400
    inbox.close()
    (line,) = (each.getMessage() for each in caplog.records if "refuses" in each.getMessage())
    assert line.startswith(f"endpoint shop refuses deliveries: {receipt.reason} (1 since")
    assert "canary" not in caplog.text
