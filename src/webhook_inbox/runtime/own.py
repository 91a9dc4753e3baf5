"""
Run the inbox's own plans, its leases and notifications, on a session that no handler can hold up.

It is opened by the DSN that the database given was made with. Where that cannot be told (a pool's ``SSLContext``, a
password that a function gives), or does not lead there (an engine's ``connect_args``), the plans borrow the user's
connections: then a pool that is exhausted, or an event loop that is blocked, can cost a worker its lease. Its events
run once more then, and none commits twice (P-FENCE).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, TimeoutError as WaitedTooLong
from typing import TypeVar

from webhook_inbox.drivers.driver import AsyncDriver, Driver, tell_nobody
from webhook_inbox.errors import InboxError, StoreUnavailableError
from webhook_inbox.protocol.steps import Plan, Row
from webhook_inbox.telemetry import events

PROVE_AGAIN_SECONDS = 300.0
_LOOP_SECONDS_MAX = 10.0
T = TypeVar("T")


class OwnDriver:
    """
    Run plans on *own* where it leads to the database of *shared*, else on *shared*; it is tried again now and then.

    Args:
        own: Has one connection that nobody else uses.
        shared: Borrows the user's connections.
        which: Asks for the database that a session is on.
    """

    def __init__(self, own: Driver, shared: Driver, which: Callable[[], Plan[Row]]) -> None:
        self._own = own
        self._shared = shared
        self._which = which
        self._proven = self._refused = False
        self._prove_at = 0.0

    def run(self, plan: Callable[[], Plan[T]], *, abandoned: Callable[[], None] = tell_nobody) -> T:
        """Run a fresh plan; see ``Driver.run``."""
        if not self._proven and time.monotonic() >= self._prove_at:
            self._prove()
        return (self._own if self._proven else self._shared).run(plan, abandoned=abandoned)

    def _prove(self) -> None:
        wanted = self._shared.run(self._which)
        try:
            self._proven = self._own.run(self._which) == wanted
        except InboxError:  # or its server was full, or away, in this very moment: so it is tried again
            self._proven = False
        if not self._proven:
            self._own.close()
            self._prove_at = time.monotonic() + PROVE_AGAIN_SECONDS
            if not self._refused:
                events.OWN_SESSION_REFUSED.log()
            self._refused = True

    def close(self) -> None:
        """Close the session of our own."""
        self._own.close()

    def give_up(self) -> None:
        """Cut the connections of plans that are under way."""
        self._own.give_up()


class NotOurs:
    """Run plans on a driver of the user's connections, and leave it to its owner to close it."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def run(self, plan: Callable[[], Plan[T]], *, abandoned: Callable[[], None] = tell_nobody) -> T:
        """Run a fresh plan; see ``Driver.run``."""
        return self._driver.run(plan, abandoned=abandoned)

    def close(self) -> None:
        """Close nothing."""

    def give_up(self) -> None:
        """Cut nothing: the worker's own drivers do."""


class OverLoop:
    """Run plans of a thread on *driver*'s event loop, the one on which its connections are used."""

    def __init__(self, driver: AsyncDriver, loop: Callable[[], asyncio.AbstractEventLoop | None]) -> None:
        self._driver = driver
        self._loop = loop

    def run(self, plan: Callable[[], Plan[T]], *, abandoned: Callable[[], None] = tell_nobody) -> T:  # noqa: ARG002 - no handler runs here
        """
        Run a fresh plan; see ``Driver.run``.

        Raises:
            StoreUnavailableError: There is no event loop, or it did not come to it in time.
        """
        loop = self._loop()
        if loop is None or not loop.is_running():
            raise StoreUnavailableError("the event loop of the pool given does not run")
        running = asyncio.run_coroutine_threadsafe(self._driver.run(plan), loop)
        try:
            return running.result(_LOOP_SECONDS_MAX)
        except (WaitedTooLong, CancelledError):
            running.cancel()
            raise StoreUnavailableError("the event loop of the pool given is blocked, or ends") from None

    def close(self) -> None:
        """Close nothing: the pool is the user's."""

    def give_up(self) -> None:
        """Cut nothing: the worker's own drivers do."""
