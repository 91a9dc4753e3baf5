"""What leaves no row is counted by endpoint, outcome and reason, and by nothing that a stranger chooses."""

from __future__ import annotations

from webhook_inbox.model.count import Count
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.states import Outcome
from webhook_inbox.telemetry.tally import KINDS_MAX, OTHER, Tally


def answer(outcome: Outcome, reason: str = "", *results: Outcome) -> Receipt:
    """A receipt of this outcome, with a result of each of these."""
    each = tuple(EventResult(outcome=result, event_id=f"evt_{n}") for n, result in enumerate(results))
    return Receipt(status=200, headers=(), body=b"", outcome=outcome, reason=reason, results=each)


def test_each_kind_is_added_up() -> None:
    """Duplicates by event, refusals and failures by delivery; what leaves a row is not counted."""
    tally, told = Tally(), []
    tally.tell(lambda: told.append(True))
    tally.add("shop", answer(Outcome.PROCESSED, "", Outcome.PROCESSED, Outcome.DUPLICATE, Outcome.DUPLICATE))
    tally.add("shop", answer(Outcome.DUPLICATE, "", Outcome.DUPLICATE))
    tally.add("shop", answer(Outcome.QUEUED, "", Outcome.QUEUED))
    assert len(told) == 2
    tally.add("shop", answer(Outcome.REJECTED, "signature_mismatch"))
    tally.add("shop", answer(Outcome.REJECTED, "signature_mismatch"))
    tally.add("shop", answer(Outcome.UNAVAILABLE, "away"))
    assert set(tally.take()) == {
        Count("shop", "duplicate", "", 3),
        Count("shop", "rejected", "signature_mismatch", 2),
        Count("shop", "unavailable", "away", 1),
    }
    assert tally.take() == ()


def test_what_could_not_be_kept_is_counted_with_what_came_since() -> None:
    """Nothing is lost by a database that is away."""
    tally = Tally()
    tally.add("shop", answer(Outcome.FAILED, "handler"))
    taken = tally.take()
    tally.add("shop", answer(Outcome.FAILED, "handler"))
    tally.give_back(taken)
    assert tally.take() == (Count("shop", "failed", "handler", 2),)


def test_kinds_are_bounded() -> None:
    """Past the limit the rest is counted together (P-CALM)."""
    tally = Tally()
    for number in range(KINDS_MAX + 5):
        tally.add(f"tenant-{number}", answer(Outcome.REJECTED, "signature_missing"))
    counts = tally.take()
    assert len(counts) == KINDS_MAX + 1
    assert Count(OTHER, OTHER, OTHER, 5) in counts
