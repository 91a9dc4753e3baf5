"""Bound how many events of an endpoint a process begins in a second."""

from __future__ import annotations

import time


class Rate:
    """
    Hold a bucket that fills at *per_second*, up to one second's worth; 0: no bound.

    Args:
        per_second: Events a second.
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._tokens = max(1.0, per_second)
        self._filled_at = time.monotonic()

    def allowed(self, wanted: int) -> int:
        """Give how many of *wanted* events may begin now."""
        if self._per_second <= 0:
            return wanted
        now = time.monotonic()
        filled = self._tokens + (now - self._filled_at) * self._per_second
        self._tokens, self._filled_at = min(max(1.0, self._per_second), filled), now
        return min(wanted, int(self._tokens))

    @property
    def seconds_until_next(self) -> float:
        """Give how long until one more event may begin, as of the last time that was asked for; 0: at once."""
        return max(0.0, (1.0 - self._tokens) / self._per_second) if self._per_second > 0 else 0.0

    def spend(self, begun: int) -> None:
        """Take *begun* events out of the bucket."""
        if self._per_second > 0:
            self._tokens -= begun
