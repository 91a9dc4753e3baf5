"""
Let one copy of an event in at a time, per process; the others wait without a connection.

The unique key alone would do: a second INSERT waits for the first. But each waiting INSERT holds a
connection, so one slow event that is delivered ten times at once would take the whole pool, and other events
would wait for nothing. The gate is an optimisation of that
wait, never a judge: what is a duplicate is decided by the database (P-DUP).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from webhook_inbox.model.event import EventKey


class KeyGate:
    """Hand each event key to one holder at a time, in order of arrival, across threads and event loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[EventKey, deque[Future[None]]] = {}

    def hold(self, keys: Iterable[EventKey], seconds: float) -> tuple[EventKey, ...]:
        """Hold *keys*, which are sorted, waiting at most *seconds* in all; give those that came free in time."""
        deadline = time.monotonic() + seconds
        held: list[EventKey] = []
        try:
            for key in keys:
                with self._turn(key) as turn:
                    if turn is None or _came(turn, deadline - time.monotonic()):
                        held.append(key)
        except BaseException:
            self.release(held)
            raise
        return tuple(held)

    async def hold_async(self, keys: Iterable[EventKey], seconds: float) -> tuple[EventKey, ...]:
        """Hold *keys* without blocking the loop; see ``hold``."""
        deadline = time.monotonic() + seconds
        held: list[EventKey] = []
        try:
            for key in keys:
                with self._turn(key) as turn:
                    if turn is None or await _came_async(turn, deadline - time.monotonic()):
                        held.append(key)
        except BaseException:
            self.release(held)
            raise
        return tuple(held)

    def release(self, keys: Iterable[EventKey]) -> None:
        """Give up *keys*; each goes to whoever has waited longest for it."""
        with self._lock:
            for key in keys:
                self._pass_on(key)

    @contextmanager
    def _turn(self, key: EventKey) -> Iterator[Future[None] | None]:
        """Stand in line for *key*; None: it is ours. Who is interrupted while waiting gives up the place or key."""
        turn = self._enter(key)
        try:
            yield turn
        except BaseException:
            if turn is None or not turn.cancel():
                self.release((key,))
            raise

    def _enter(self, key: EventKey) -> Future[None] | None:
        with self._lock:
            if key not in self._waiting:
                self._waiting[key] = deque()
                return None
            turn: Future[None] = Future()
            self._waiting[key].append(turn)
            return turn

    def _pass_on(self, key: EventKey) -> None:
        waiting = self._waiting[key]
        while waiting:
            turn = waiting.popleft()
            if turn.set_running_or_notify_cancel():  # False: it has given up
                turn.set_result(None)
                return
        del self._waiting[key]


def _came(turn: Future[None], seconds: float) -> bool:
    with suppress(TimeoutError):
        turn.result(max(0.0, seconds))
    return not turn.cancel()  # cancel() fails where the turn has come in this very moment: then it is ours


async def _came_async(turn: Future[None], seconds: float) -> bool:
    await asyncio.wait({asyncio.wrap_future(turn)}, timeout=max(0.0, seconds))
    return not turn.cancel()
