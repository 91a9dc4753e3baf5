"""
Know which endpoints an operator has limited, and when each is worth asking for again.

What is known here only spares questions: the claim itself keeps to the limits (``protocol/limits.py``). A limit that
is new stops the plain claim at once, and is looked for once in ``LOOK_SECONDS``, with a claim. While one holds events
back, its endpoint is not asked for: not before its rate lets the next begin, nor, where as many are under way as may
be, before one of this process's own has ended. But at least as often as the worker looks anyway, since the limit may
have been changed, and the places of others be free.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping

LOOK_SECONDS = 1.0


class Limits:
    """
    Hold what the claims so far have found of limits.

    Args:
        poll_seconds: The longest time between two questions.
    """

    def __init__(self, poll_seconds: float) -> None:
        self._poll_seconds = poll_seconds
        self._look_at = 0.0
        self._ask_at: dict[str, float] = {}
        self._full: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        """Give the endpoints that had a limit when they were asked for the last time."""
        return frozenset(self._ask_at)

    @property
    def held(self) -> frozenset[str]:
        """Give those that it is too early to ask for: their limit holds back what is due."""
        now = time.monotonic()
        return frozenset(name for name, ask_at in self._ask_at.items() if ask_at > now)

    @property
    def seconds_until_next(self) -> float:
        """Give how long until the first of those is to be asked for; 0: there are none."""
        now = time.monotonic()
        return min((ask_at - now for ask_at in self._ask_at.values() if ask_at > now), default=0.0)

    def look(self) -> bool:
        """Say whether to look for limits with the next claim; it counts as done."""
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + LOOK_SECONDS
        return True

    def found(self, asked: Iterable[str], waits: Mapping[str, float]) -> None:
        """Take note of what asking for the endpoints *asked* has shown; see ``Claimed.waits``."""
        now = time.monotonic()
        for name in asked:
            self._ask_at.pop(name, None)
            self._full.discard(name)
        for name, wait in waits.items():
            self._ask_at[name] = now + min(wait, self._poll_seconds)
            if wait == math.inf:
                self._full.add(name)

    def ended(self, name: str) -> None:
        """Take note that a run of that endpoint has ended here, so that its place may be free."""
        if name in self._full:
            self._ask_at[name] = 0.0
