"""
Say how long to wait for the next look at the outbox.

A look that was worth it, or a hint that something was recorded, is followed by another one soon; each that finds
nothing doubles the pause, until it is as long as where nothing happens. So a message is found within milliseconds of
its commit while events come in, although its own transaction notifies nobody: NOTIFY takes a lock on the whole database
at commit, which every handler would pay for.
"""

from __future__ import annotations

import asyncio
import contextlib

_PAUSE_SECONDS = 0.02


class Rest:
    """
    Wait until there is something to do.

    Args:
        seconds_max: Where nothing happens.
    """

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._pause = self._shortest = min(_PAUSE_SECONDS, seconds_max)
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """End the wait."""
        self._woken.set()

    def found(self) -> None:
        """Say that the look was worth it: the next one comes soon."""
        self._pause = self._shortest

    async def wait(self, seconds_min: float = 0.0) -> None:
        """Wait until woken; else for the pause, or *seconds_min* where that is longer."""
        seconds, self._pause = max(self._pause, seconds_min), min(self._seconds_max, self._pause * 2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
            self.found()
        self._woken.clear()
