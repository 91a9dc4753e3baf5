"""Run plans on connections that a lender lends: the drivers of every world but psycopg's own pools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from webhook_inbox.drivers.driver import tell_nobody
from webhook_inbox.drivers.psycopg_settings import STALE_POOL_SQLSTATES
from webhook_inbox.drivers.runner import Runner
from webhook_inbox.drivers.silence import Watch
from webhook_inbox.drivers.waiting import Doing, on_loop, on_thread
from webhook_inbox.drivers.walk import NotBegunError
from webhook_inbox.drivers.wire import Lender, Loan
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.protocol.steps import Plan

T = TypeVar("T")


class _Lending:
    """
    Run plans on what *lender* lends.

    Args:
        probe: Told each fault point.
    """

    _loop: bool

    def __init__(self, lender: Lender, *, probe: Probe = no_probe) -> None:
        self._lender = lender
        self._probe = probe
        self._watch = Watch()

    def _run(self, plan: Callable[[], Plan[T]], abandoned: Callable[[], None]) -> Doing[T]:
        try:
            return (yield from self._run_once(plan, abandoned))
        except NotBegunError:
            # What was lent had died while idle (a restart, a failover). Nothing was begun on it, so nothing can have
            # been applied: do without its neighbours, and try once more.
            yield from self._lender.forget_idle()
        try:
            return (yield from self._run_once(plan, abandoned))
        except NotBegunError as error:
            raise error.reason from error.reason.__cause__

    def _run_once(self, plan: Callable[[], Plan[T]], abandoned: Callable[[], None]) -> Doing[T]:
        loan = yield from self._lender.lend()
        try:
            return (yield from self._run_on(loan, plan, abandoned))
        finally:
            yield from loan.give_back()

    def _run_on(self, loan: Loan, plan: Callable[[], Plan[T]], abandoned: Callable[[], None]) -> Doing[T]:
        def abandon() -> None:
            loan.abandon()
            abandoned()

        with self._watch.over(loan.wire, None if self._loop else abandon) as wait:
            runner = Runner(loan, loop=self._loop, probe=self._probe, wait=wait)
            try:
                return (yield from runner.run(plan()))
            except StoreUnavailableError as error:
                if not runner.began and loan.wire.closed and not wait.given_up:
                    raise NotBegunError(error) from None
                if error.sqlstate in STALE_POOL_SQLSTATES:
                    yield from loan.wire.close()
                    yield from self._lender.forget_idle()
                raise
            finally:
                if wait.given_up:  # its neighbours are silent too, most likely
                    yield from self._lender.forget_idle()

    def give_up(self) -> None:
        """Cut the connections of plans that are under way; see ``Driver.give_up``."""
        self._watch.give_up()


class ThreadDriver(_Lending):
    """Run plans on the calling thread; see ``Driver``."""

    _loop = False

    def run(self, plan: Callable[[], Plan[T]], *, abandoned: Callable[[], None] = tell_nobody) -> T:
        """Run a fresh plan to its end; see ``Driver.run``."""
        return on_thread(self._run(plan, abandoned))

    def close(self) -> None:
        """Close what was opened here; see ``Driver.close``."""
        on_thread(self._lender.close())


class LoopDriver(_Lending):
    """
    Run plans on the event loop; see ``AsyncDriver``.

    Attributes:
        loop: The one on which the connections are used; None: it is not known yet.
    """

    _loop = True
    loop: asyncio.AbstractEventLoop | None = None

    async def run(self, plan: Callable[[], Plan[T]]) -> T:
        """Run a fresh plan to its end; see ``Driver.run``."""
        self.loop = asyncio.get_running_loop()
        return await on_loop(self._run(plan, tell_nobody))

    async def close(self) -> None:
        """Close what was opened here; see ``Driver.close``."""
        await on_loop(self._lender.close())
