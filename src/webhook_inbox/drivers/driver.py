"""
Say what a driver is: who runs plans on real connections.

A driver borrows a connection, runs one plan on it to the end, and gives the connection back idle, whatever
happened: a plan that ends with its transaction open is rolled back, and a connection that cannot be is closed
(P-ONCE).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from webhook_inbox.protocol.steps import Plan

T = TypeVar("T")


def tell_nobody() -> None:
    """Stand for *abandoned* where nobody is to be told."""


class Driver(Protocol):
    """Run plans on this thread."""

    def run(self, plan: Callable[[], Plan[T]], *, abandoned: Callable[[], None] = ...) -> T:
        """
        Run a fresh plan to its end.

        Args:
            abandoned: Called, on another thread, once a handler of the plan is not waited for any longer: nothing that
                it did or does can be committed, and this thread is its own until it ends.

        Raises:
            StoreUnavailableError: No connection came free, or it was lost; a commit's fate may be unknown.
            InboxError: Whatever the plan raises.
        """
        ...

    def close(self) -> None:
        """Close what this driver opened itself; a pool that the user gave stays open."""
        ...

    def give_up(self) -> None:
        """Cut the connections of plans that are under way: each ends with StoreUnavailableError, soon."""
        ...


class AsyncDriver(Protocol):
    """Run plans on the event loop."""

    async def run(self, plan: Callable[[], Plan[T]]) -> T:
        """Run a fresh plan to its end; see ``Driver.run``."""
        ...

    async def close(self) -> None:
        """Close what this driver opened itself; see ``Driver.close``."""
        ...

    def give_up(self) -> None:
        """Cut the connections of plans that are under way; see ``Driver.give_up``."""
        ...
