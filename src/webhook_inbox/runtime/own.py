"""
Run the inbox's own plans, its leases and notifications, on a session that no handler can hold up.

It is opened by the DSN that the database given was made with. Where that cannot be told (a pool's ``SSLContext``, a
password that a function gives), or does not lead there (an engine's ``connect_args``), the plans borrow the user's
connections: then a pool that is exhausted, or an event loop that is blocked, can cost a worker its lease. Its events
run once more then, and none commits twice (P-FENCE).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import TimeoutError as WaitedTooLong
from typing import TypeVar

from webhook_inbox.drivers.driver import AsyncDriver, Driver
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.telemetry import events

_LOOP_SECONDS_MAX = 10.0
T = TypeVar("T")


def _nothing() -> None:
    """Tell nobody."""


class OwnDriver:
    """
    Run plans on *own*, or on *shared* where nothing has ever come of that.

    Args:
        own: Has one connection that nobody else uses; None where its DSN is not known.
        shared: Borrows the user's connections.
    """

    def __init__(self, own: Driver | None, shared: Driver) -> None:
        self._own = own
        self._shared = shared
        self._proven = False

    def run(self, plan: Callable[[], Plan[T]], *, abandoned: Callable[[], None] = _nothing) -> T:
        """Run a fresh plan; see ``Driver.run``."""
        if self._own is not None:
            try:
                done = self._own.run(plan, abandoned=abandoned)
            except StoreUnavailableError:
                if self._proven:
                    raise
            else:
                self._proven = True
                return done
        done = self._shared.run(plan, abandoned=abandoned)
        if self._own is not None:  # the database is there, and our DSN is no way to it
            events.OWN_SESSION_REFUSED.log()
            self.close()
            self._own = None
        return done

    def close(self) -> None:
        """Close the session of our own."""
        if self._own is not None:
            self._own.close()

    def give_up(self) -> None:
        """Cut the connections of plans that are under way."""
        if self._own is not None:
            self._own.give_up()


class OverLoop:
    """Run plans of a thread on *driver*'s event loop, the one on which it has run a plan before."""

    def __init__(self, driver: AsyncDriver, loop: Callable[[], asyncio.AbstractEventLoop | None]) -> None:
        self._driver = driver
        self._loop = loop

    def run(self, plan: Callable[[], Plan[T]], *, abandoned: Callable[[], None] = _nothing) -> T:  # noqa: ARG002 - no handler runs here
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
        except WaitedTooLong:
            running.cancel()
            raise StoreUnavailableError("the event loop of the pool given is blocked") from None

    def close(self) -> None:
        """Close nothing: the pool is the user's."""

    def give_up(self) -> None:
        """Cut nothing: the worker's own drivers do."""
