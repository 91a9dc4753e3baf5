"""
Leave a destination alone while it takes nothing.

Closed, everything is sent. Open, nothing is claimed, so that no message is charged for the time. When that has passed,
one message is tried, the newest of those that were tried least: if it arrives the breaker closes, if not it opens
again, for longer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from webhook_inbox.model.message import Failed, Sent, Verdict

# One after another, with none between them that arrived: messages that fail for reasons of their own come mixed.
FAILURES_MAX = 20
_OPEN_SECONDS, _OPEN_SECONDS_MAX = 1.0, 60.0


class Breaker:
    """
    Say when a destination may be sent to, and how much.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._openings = 0
        self._opens_until = 0.0
        self._confirms = False

    @property
    def confirms(self) -> bool:
        """Say whether something has arrived since it was last open, or since it was made."""
        return self._confirms

    @property
    def seconds_left(self) -> float:
        """Give how long nothing is to be sent from now on; 0 where something may be."""
        return max(0.0, self._opens_until - self._clock())

    @property
    def trying(self) -> bool:
        """Say whether it is not known yet if the destination takes anything again: one message at a time, then."""
        return self._openings > 0

    def take(self, verdicts: Iterable[Verdict]) -> float:
        """Take note of what came of sending; give for how long that has opened it, 0 where it has not."""
        opened = 0.0
        for verdict in verdicts:
            match verdict:
                case Sent():
                    self._failures = self._openings = 0
                    self._opens_until = opened = 0.0
                    self._confirms = True
                case Failed(stop=True):
                    opened = self.open(verdict.retry_in_seconds)
                case Failed(permanent=True):  # the destination answers, and means the message
                    self._failures = 0
                case Failed():
                    self._failures += 1
                    if self.trying or self._failures >= FAILURES_MAX:
                        opened = self.open()
        return opened

    def open(self, seconds: float | None = None) -> float:
        """Open it for *seconds*; where nothing is asked, for half to all of 1, 2, 4, ... 60; give for how long."""
        if self.seconds_left:  # what is under way when it opens comes back as it does
            return self.seconds_left
        self._openings += 1
        self._confirms = False
        longest = min(_OPEN_SECONDS_MAX, _OPEN_SECONDS * 2.0 ** min(self._openings - 1, 64))
        jittered = longest * (1 + random.random()) / 2  # noqa: S311 - jitter, not a secret
        for_seconds = seconds if seconds is not None and seconds > 0 else jittered
        self._opens_until = self._clock() + for_seconds
        return for_seconds
