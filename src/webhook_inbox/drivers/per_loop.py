"""Keep what lives on an event loop, a pool for instance, apart for each of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerLoop(Generic[T]):
    """
    Make one of something for each event loop that asks for it.

    Several may run at once, each on its own thread. What a loop had that is closed is forgotten when another one asks.

    Args:
        make: Makes one for the running loop; never waits.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self) -> T:
        """Give the running loop's own."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._made:
                self._made = {each: made for each, made in self._made.items() if not each.is_closed()}
                self._made[loop] = self._make()
            return self._made[loop]

    def take(self) -> T | None:
        """Give the running loop's own, if it has one, and forget it."""
        with self._lock:
            return self._made.pop(asyncio.get_running_loop(), None)
