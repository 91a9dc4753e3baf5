"""A rate bounds what begins in a second, over every window of time, and wastes nothing that it allows."""

from __future__ import annotations

import pytest

from webhook_inbox.runtime.rate import Rate


class Clock:
    """A monotonic clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """The time."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that the rate reads."""
    clock = Clock()
    monkeypatch.setattr("webhook_inbox.runtime.rate.time", clock)
    return clock


@pytest.mark.parametrize("per_second", [0.25, 1, 3, 50])
def test_no_window_holds_more_than_the_rate_allows(per_second: float, clock: Clock) -> None:
    """Asked as often as one likes, at most one second's worth plus rate times time has begun."""
    rate, begun = Rate(per_second), 0
    for step in range(2000):
        allowed = rate.allowed(1000)
        rate.spend(allowed)
        begun += allowed
        assert begun <= max(1.0, per_second) + per_second * step * 0.01 + 1e-6
        clock.now += 0.01
    assert begun >= per_second * 19, "what is allowed is used"


def test_a_long_rest_saves_up_one_second_only(clock: Clock) -> None:
    """After an idle night a burst is one second's worth."""
    rate = Rate(5)
    clock.now += 40_000
    assert rate.allowed(1000) == 5


def test_no_rate_no_bound() -> None:
    """0 bounds nothing."""
    rate = Rate(0)
    rate.spend(10_000)
    assert rate.allowed(10_000) == 10_000
