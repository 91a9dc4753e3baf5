"""
Give plans a connection and a thread of their own, so that one can stand still while another goes on.

What runs on an event loop has that to itself, too: its thread simply stands where it is told to.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from webhook_inbox.drivers.psycopg_async import AsyncPsycopgRunner
from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.drivers.runner import Runner
from webhook_inbox.drivers.silence import Wait
from webhook_inbox.drivers.waiting import Doing, on_loop, on_thread
from webhook_inbox.drivers.wire import Lender
from webhook_inbox.protocol.probe import no_probe
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.testing.schedules.stepping import Crashed, Gate, stepped

T = TypeVar("T")
_RUN_SECONDS_MAX = 60.0
_CLOSE_SECONDS_MAX = 5.0


class Place(ABC):
    """
    Run plans, one at a time; a connection that has ended is opened again for the next.

    Args:
        loop: Whether its connection is of an event loop.
    """

    def __init__(self, *, loop: bool) -> None:
        self._on_loop = loop
        self._loop: asyncio.Runner | None = None
        self._jobs: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._last: Future[Any] = Future()
        self._last.set_result(None)
        # What does not come back from a handler must not hold the program up.
        threading.Thread(target=self._work, name="schedule-place", daemon=True).start()

    @property
    def free(self) -> bool:
        """Say whether nothing runs here."""
        return self._last.done()

    def start(self, job: Callable[[], T]) -> Future[T]:
        """Do *job* on this place's thread."""
        future: Future[T] = Future()
        self._last = future
        self._jobs.put((future, job))
        return future

    def run(self, plan: Plan[T]) -> T:
        """
        Run *plan* to its end, and wait for that.

        Raises:
            TimeoutError: It does not come to it.
        """
        return self.start(lambda: self.perform(plan)).result(_RUN_SECONDS_MAX)

    def perform(self, plan: Plan[T], gate: Gate | None = None) -> T:
        """Run *plan* to its end, stopped by *gate*; called on this place's thread."""
        doing = self._doing(plan, gate)
        return self._wait(doing) if self._on_loop else on_thread(doing)

    def close(self) -> None:
        """Close the connection; a place that is not free is left to itself."""
        if self.free:
            self.start(self._leave).result(_CLOSE_SECONDS_MAX)
        self._jobs.put(None)

    @abstractmethod
    def _doing(self, plan: Plan[T], gate: Gate | None) -> Doing[T]:
        """Run *plan* on the connection."""

    @abstractmethod
    def _end(self) -> Doing[None]:
        """Close what is open."""

    def _work(self) -> None:
        while (given := self._jobs.get()) is not None:
            future, job = given
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - whoever waits for it hears of it
                future.set_exception(error)

    def _leave(self) -> None:
        if not self._on_loop:
            on_thread(self._end())
        elif self._loop is not None:
            self._leave_loop(self._loop)

    def _wait(self, doing: Doing[T]) -> T:
        loop = self._loop = self._loop or asyncio.Runner()
        try:
            value, crash = loop.run(_met(doing))
        except Crashed:
            # It rose from a task that a handler had made, past the one that waits for it.
            self._leave_loop(loop)
            raise
        if crash is not None:
            raise crash
        return value

    def _leave_loop(self, loop: asyncio.Runner) -> None:
        self._loop = None
        # Before the loop runs again: no task of a handler's may go on in a process that is dead.
        tasks = asyncio.all_tasks(loop.get_loop())
        for task in tasks:
            task.cancel()
        loop.run(_ended(tasks))
        loop.run(on_loop(self._end()))
        loop.close()


class PsycopgPlace(Place):
    """
    Run plans on psycopg's own connections, as production does.

    Args:
        connect: Opens one; awaited where *loop* says so.
    """

    def __init__(self, connect: Callable[[], Any], *, loop: bool = False) -> None:
        super().__init__(loop=loop)
        self._connect = connect
        self._runner: Callable[[Any], Any] = AsyncPsycopgRunner if loop else PsycopgRunner
        self._conn: Any = None

    def _doing(self, plan: Plan[T], gate: Gate | None) -> Doing[T]:
        if self._conn is None or self._conn.closed:
            self._conn = yield self._connect()
        with stepped(self._conn, gate):
            value: T = yield self._runner(self._conn).run(plan)
        return value

    def _end(self) -> Doing[None]:
        if self._conn is not None:
            yield self._conn.close()


class LentPlace(Place):
    """
    Run plans on what a lender lends: SQLAlchemy's, Django's, asyncpg's.

    Args:
        lender: Of this place alone, so that it lends the same connection each time.
    """

    def __init__(self, lender: Lender, *, loop: bool) -> None:
        super().__init__(loop=loop)
        self._lender = lender
        self._lent = False

    def _doing(self, plan: Plan[T], gate: Gate | None) -> Doing[T]:
        loan = yield from self._lender.lend()
        self._lent = True
        try:
            with stepped(loan.wire.raw, gate):
                runner = Runner(loan, loop=self._on_loop, probe=no_probe, wait=Wait(loan.wire))
                return (yield from runner.run(plan))
        finally:
            yield from loan.give_back()

    def _end(self) -> Doing[None]:
        if self._lent:
            # What is the user's, a lender leaves open.
            loan = yield from self._lender.lend()
            yield from loan.wire.close()
            yield from loan.give_back()
        yield from self._lender.close()


async def _met(doing: Doing[T]) -> tuple[T, Crashed | None]:
    """Do *doing*; hand a crash over rather than let it end the event loop."""
    try:
        return await on_loop(doing), None
    except Crashed as crash:
        return None, crash  # type: ignore[return-value]  # nobody looks at it


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
