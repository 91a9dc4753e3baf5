"""The delay between two attempts follows its law: full jitter under a ceiling that doubles."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from webhook_inbox.model.claim import Retry

DELAYS = 10_000
# Of ten attempts' tests one fails by chance in ten thousand runs of this file: Bonferroni, 0.0001 / 10 each.
ERROR_RATE = 0.0001
ATTEMPTS = (1, 2, 3, 4, 5, 8, 11, 12, 13, 40)


def distance_from_uniform(samples: Sequence[float], ceiling: float) -> float:
    """The Kolmogorov-Smirnov statistic of *samples* against uniform(0, *ceiling*)."""
    ordered = sorted(samples)
    count = len(ordered)
    return max(
        max((index + 1) / count - value / ceiling, value / ceiling - index / count)
        for index, value in enumerate(ordered)
    )


def critical_distance(count: int, error_rate: float) -> float:
    """
    The distance that *count* samples of the right law exceed with probability *error_rate*.

    Source: the Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant, which holds for every count.
    """
    return math.sqrt(math.log(2 / error_rate) / (2 * count))


def retry(**given: float) -> Retry:
    """A policy."""
    return Retry(
        **{"backoff_seconds_max": 3600.0, "retry_seconds_max": 259_200.0, "attempts_max": 0} | given  # type: ignore[arg-type]  # a mapping of mixed numbers
    )


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_delays_are_uniform_below_the_ceiling(attempt: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 delays after one attempt are uniform(0, min(max, 2^attempt)); a false alarm in 100,000 at most."""
    seed = random.SystemRandom().getrandbits(64)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it where the test fails
    monkeypatch.setattr("webhook_inbox.model.claim.random", random.Random(seed))
    delays = [retry().delay(attempt) for _ in range(DELAYS)]
    ceiling = min(3600.0, 2.0**attempt)
    found = distance_from_uniform(delays, ceiling)
    assert found < critical_distance(DELAYS, ERROR_RATE / len(ATTEMPTS)), f"seed {seed}"


@pytest.mark.parametrize("law", ["no jitter", "equal jitter", "ceiling off by one", "square"])
def test_the_statistic_tells_other_laws_apart(law: str) -> None:
    """The same test refuses the laws that a backoff is usually mistaken for."""
    chance = random.Random(1)
    laws: dict[str, Callable[[], float]] = {
        "no jitter": lambda: 1.0,
        "equal jitter": lambda: 0.5 + chance.random() / 2,
        "ceiling off by one": lambda: chance.random() / 2,
        "square": lambda: chance.random() ** 1.1,
    }
    found = distance_from_uniform([laws[law]() for _ in range(DELAYS)], 1.0)
    assert found > critical_distance(DELAYS, ERROR_RATE / len(ATTEMPTS))


def test_no_attempt_number_overflows() -> None:
    """An event that has been tried for ever still waits no longer than the longest delay."""
    assert retry().delay(10_000_000, chance=1.0) == 3600.0
    assert retry(backoff_seconds_max=1e300).delay(10_000_000, chance=1.0) == 2.0**64
