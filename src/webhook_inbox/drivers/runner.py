"""Run plans on a loan, whatever connection it is of: every step, once for threads and event loops."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar, assert_never

from webhook_inbox.drivers.failures import caused_by, handler_error, store_error, transaction_ended
from webhook_inbox.drivers.silence import Wait
from webhook_inbox.drivers.waiting import Doing, Left, is_cancelled, on_loop, on_thread
from webhook_inbox.drivers.walk import Walk, refuse_awaitable, too_long
from webhook_inbox.drivers.wire import Loan
from webhook_inbox.errors import InboxError, StoreUnavailableError, TransactionEndedError
from webhook_inbox.model.steering import STEERING, Steering
from webhook_inbox.protocol.probe import Probe
from webhook_inbox.protocol.steps import (
    All,
    Begin,
    Commit,
    One,
    Params,
    Plan,
    Release,
    Rollback,
    RollbackTo,
    Row,
    Run,
    Savepoint,
    Script,
    Step,
    Together,
)
from webhook_inbox.sql.statements import Statement

T = TypeVar("T")


class LoanSession:
    """Hand a handler what it may use, and run our own statements beside it."""

    def __init__(self, loan: Loan, *, loop: bool) -> None:
        self._loan = loan
        self._wait = on_loop if loop else on_thread
        self.conn = loan.conn
        self.session = loan.session
        self.ended = 0

    def execute(self, statement: Statement, params: Params) -> object:
        """Run *statement*; give its first row, or None; on an event loop, an awaitable of it."""
        return self._wait(self._first(statement, params))

    def _first(self, statement: Statement, params: Params) -> Doing[Row | None]:
        try:
            return next(iter((yield from self._loan.wire.rows(statement, params))), None)
        finally:
            self.ended += 1


class Runner:
    """
    Run plans on one loan.

    Args:
        loop: Whether it is of an event loop.
        probe: Told each fault point, ``<plan>.<step>.before`` and ``.after``.
        wait: Told what is waited for; the driver's watch gives up a connection that goes silent.
    """

    def __init__(self, loan: Loan, *, loop: bool, probe: Probe, wait: Wait) -> None:
        self._loan = loan
        self._wire = loan.wire
        self._loop = loop
        self._probe = probe
        self._wait = wait
        self.began = False

    def run(self, plan: Plan[T]) -> Doing[T]:
        """Run *plan* to its end; roll back what it leaves open, and close a connection that cannot be."""
        walk = Walk(plan, probe=self._probe)
        try:
            yield from self._wire.enter()
            while (step := walk.step()) is not None:
                self._wait.expect(step)
                try:
                    walk.succeeded((yield from self._perform(step)))
                except InboxError as error:
                    walk.failed(error)
                except self._wire.errors as error:
                    walk.failed(caused_by(error, store_error(error, broken=self._wire.lost(error))))
            return walk.value
        except TransactionEndedError:
            yield from self._wire.close()  # what else the handler has left in the session, nobody knows
            raise
        finally:
            walk.close()
            yield from self._wire.leave()

    def _perform(self, step: Step) -> Doing[object]:
        match step:
            case Begin(statement, params):
                yield from self._loan.start()
                row = yield from self._wire.begin(statement, params)
                self.began = True
                return row
            case One(statement, params):
                return next(iter((yield from self._wire.rows(statement, params))), None)
            case All(statement, params):
                return (yield from self._wire.rows(statement, params))
            case Run():
                return (yield from self._run_handler(step))
            case Together(steps):
                return (yield from self._together(steps))
            case Script() | Savepoint() | RollbackTo() | Release() | Commit() | Rollback():
                yield from self._command(step)
                return None
            case _:
                assert_never(step)

    def _together(self, steps: tuple[Step, ...]) -> Doing[tuple[object, ...]]:
        results = []
        for step in steps:
            result = yield from self._perform(step)
            results.append(result)
        return tuple(results)

    def _command(self, step: Script | Savepoint | RollbackTo | Release | Commit | Rollback) -> Doing[None]:
        match step:
            case Script(_, text):
                yield from self._wire.script(text)
            case Savepoint():
                yield from self._wire.savepoint()
            case RollbackTo():
                yield from self._wire.rollback_to()
            case Release():
                yield from self._wire.release()
            case Commit():
                yield from self._wire.commit()
            case Rollback():
                yield from self._wire.rollback()
            case _:
                assert_never(step)

    def _run_handler(self, step: Run) -> Doing[Steering | None]:
        started = time.monotonic()
        try:
            if self._loop:
                yield self._work_on_loop(step)
            else:
                self._work_on_thread(step)
        except STEERING as steering:
            return steering
        except (KeyboardInterrupt, GeneratorExit, Left):
            raise
        except BaseException as raised:
            if self._loop and is_cancelled(raised):
                raise
            # The server may have ended the session of a handler that overran: its own doing, not an outage.
            if time.monotonic() - started > step.seconds_max:
                raise too_long(step) from raised
            raise self._failed(step, raised) from raised
        if what := self._loan.ended():
            raise transaction_ended(step.name, what)
        if time.monotonic() - started > step.seconds_max:
            raise too_long(
                step
            )  # on an event loop: it ignored the attempt to stop it, or left no chance for one
        return None

    def _failed(self, step: Run, raised: BaseException) -> InboxError:
        error = handler_error(raised, handler=step.name, broken=self._wire.broken)
        if isinstance(error, StoreUnavailableError) or (what := self._loan.misuse(raised)) is None:
            return error
        return transaction_ended(step.name, what)

    def _work_on_thread(self, step: Run) -> None:
        self._loan.open()
        refuse_awaitable(step, step.work(LoanSession(self._loan, loop=False)))
        on_thread(self._loan.finish())

    async def _work_on_loop(self, step: Run) -> None:
        self._loan.open()
        limit = asyncio.timeout(step.seconds_max)
        try:
            async with limit:
                await step.work(LoanSession(self._loan, loop=True))
                self._loan.check_awaited(step.name)
                await on_loop(self._loan.finish())
        except TimeoutError as error:
            raise (too_long(step) if limit.expired() else error) from error.__cause__
