"""
Help users test their handlers: signed deliveries, what came of them, retries without waiting; fault points; a proof.

    def test_a_payment_is_booked_once(inbox_tester: InboxTester) -> None:
        inbox_tester.deliver("billing", PAYMENT)
        inbox_tester.deliver("billing", PAYMENT)
        assert inbox_tester.event("evt_1").state == "processed"

A name is imported when it is first used: pytest loads the plugin in every run, whether or not it is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webhook_inbox.testing.deliveries import signed
    from webhook_inbox.testing.proof import Finding, Proof, Sample, prove
    from webhook_inbox.testing.signers import Draft, Signed
    from webhook_inbox.testing.sync_tester import InboxTester
    from webhook_inbox.testing.tester import AsyncInboxTester
    from webhook_inbox.testing.witness import OutboxMessage, RecordedEvent, Review

__all__ = [
    "AsyncInboxTester",
    "Draft",
    "Finding",
    "InboxTester",
    "OutboxMessage",
    "Proof",
    "RecordedEvent",
    "Review",
    "Sample",
    "Signed",
    "prove",
    "signed",
]

_HOMES = {
    "AsyncInboxTester": "tester",
    "Draft": "signers",
    "Finding": "proof",
    "InboxTester": "sync_tester",
    "OutboxMessage": "witness",
    "Proof": "proof",
    "RecordedEvent": "witness",
    "Review": "witness",
    "Sample": "proof",
    "Signed": "signers",
    "prove": "proof",
    "signed": "deliveries",
}


def __getattr__(name: str) -> object:
    """Import a public *name* from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
