"""Every provider's signature is measured on a delivery that its class believes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.suite import Bench, Subject
from benchmarks.verification import suite as verification
from benchmarks.verification.deliveries import sent_by
from benchmarks.verification.suite import SUITE
from webhook_inbox.sources import Stripe
from webhook_inbox.sources.catalogue import providers


def bench() -> Bench:
    """Conditions without a server, in which each is done once or twice."""
    nowhere: Any = None
    return Bench(nowhere, 0.0, quick=True)


def test_every_provider_is_measured() -> None:
    """And the bare HMAC beside them."""
    names = [subject.name for subject in SUITE.subjects]
    assert names == ["hmac", *(each.provider for each in providers())]


@pytest.mark.parametrize("subject", SUITE.subjects, ids=lambda subject: subject.name)
def test_a_run_gives_times_and_their_ratio(subject: Subject) -> None:
    """A delivery that is not believed would be no figure; each of these is."""
    figures = subject.measure(bench())
    assert figures["hmacs"] == pytest.approx(figures["verify_us"] / figures["hmac_us"])
    assert figures["hmac_us"] > 0


def test_what_is_not_believed_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run says so instead."""
    sent = sent_by(Stripe)
    other = replace(sent, delivery=replace(sent.delivery, body=b"{}"))
    monkeypatch.setattr(verification, "sent_by", lambda kind: other)
    with pytest.raises(InvariantError, match="stripe does not believe"):
        verification.measure_verification(Stripe, bench())
