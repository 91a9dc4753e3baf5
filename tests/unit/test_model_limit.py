"""A limit is what an operator says, and is told in the same words."""

from __future__ import annotations

import pytest

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.limit import Limit


@pytest.mark.parametrize(
    ("concurrency", "rate", "told", "seconds"),
    [
        (4, "", "4 at once", None),
        (None, "5/s", "5/s", 1),
        (1, "30/min", "1 at once, 30/min", 60),
        (None, "200/h", "200/h", 3600),
        (None, "100000/s", "100000/s", 1),
        (None, "007/s", "7/s", 1),
    ],
)
def test_a_limit_is_read_and_told(concurrency: int | None, rate: str, told: str, seconds: int | None) -> None:
    """What is left out is not bounded."""
    limit = Limit.of(concurrency, rate)
    assert (str(limit), limit.concurrency, limit.rate_seconds, limit.bounds) == (
        told,
        concurrency,
        seconds,
        True,
    )


def test_no_limit_bounds_nothing() -> None:
    """It has no words, and no rate."""
    assert Limit.of(None, "") == Limit()
    assert (str(Limit()), Limit().rate, Limit().bounds) == ("", None, False)


def test_a_rate_that_was_written_by_hand_is_told_in_seconds() -> None:
    """Operators may write SQL."""
    assert str(Limit(rate_events=3, rate_seconds=90)) == "3/90 s"


@pytest.mark.parametrize(
    "rate", ["0/s", "5", "5/day", "-1/s", "5 /s", "1.5/s", "100001/s", "5/s ", "٣/s", "1000000/s", "/s"]
)
def test_what_is_no_rate_is_refused(rate: str) -> None:
    """With what would be one; a rate of nothing is a pause."""
    with pytest.raises(
        ConfigurationError, match=r"is no rate: 5/s, 30/min or 200/h are, of 1 to 100000 events"
    ):
        Limit.of(None, rate)


@pytest.mark.parametrize("concurrency", [0, -1])
def test_nothing_at_once_is_a_pause(concurrency: int) -> None:
    """And the error says so."""
    with pytest.raises(ConfigurationError, match=rf"^concurrency is {concurrency}: .*endpoints pause"):
        Limit.of(concurrency, "")
