"""Say how much of an endpoint all workers together may do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from webhook_inbox.errors import ConfigurationError

_SECONDS = {"s": 1, "min": 60, "h": 3600}
_UNITS = {seconds: unit for unit, seconds in _SECONDS.items()}
_RATE = re.compile(r"([0-9]{1,6})/(s|min|h)")
# What one event takes of its rate's time is told in microseconds.
_RATE_EVENTS_MAX = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """
    Hold the limits of one endpoint, which all workers keep together.

    Attributes:
        concurrency: How many of its events may be under way at once; None: any number.
        rate_events: How many may begin in ``rate_seconds``, evenly; None: any number.
        rate_seconds: None where there is no rate.
    """

    concurrency: int | None = None
    rate_events: int | None = None
    rate_seconds: int | None = None

    @classmethod
    def of(cls, concurrency: int | None, rate: str) -> Self:
        """
        Read what an operator says.

        Args:
            rate: ``5/s``, ``30/min`` or ``200/h``; empty: none.

        Raises:
            ConfigurationError: Nothing could begin within it, or it is no rate.
        """
        if concurrency is not None and concurrency < 1:
            raise ConfigurationError(
                f"concurrency is {concurrency}: nothing would begin; endpoints pause is for that"
            )
        if not rate:
            return cls(concurrency=concurrency)
        found = _RATE.fullmatch(rate)
        if found is None or not 0 < int(found[1]) <= _RATE_EVENTS_MAX:
            raise ConfigurationError(
                f"{rate!r} is no rate: 5/s, 30/min or 200/h are, of 1 to {_RATE_EVENTS_MAX} events; "
                "endpoints pause lets none begin"
            )
        return cls(concurrency=concurrency, rate_events=int(found[1]), rate_seconds=_SECONDS[found[2]])

    @property
    def bounds(self) -> bool:
        """Say whether anything is limited."""
        return self.concurrency is not None or self.rate_events is not None

    @property
    def rate(self) -> str | None:
        """Give the rate as an operator says it; None where there is none."""
        if self.rate_seconds is None:
            return None
        return f"{self.rate_events}/{_UNITS.get(self.rate_seconds, f'{self.rate_seconds} s')}"

    def __str__(self) -> str:
        """Give it in words: ``4 at once, 30/min``; empty where nothing is limited."""
        at_once = None if self.concurrency is None else f"{self.concurrency} at once"
        return ", ".join(filter(None, (at_once, self.rate)))
