"""Drive flows on threads and on event loops: ask the user's code, hold keys, run plans, pause."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar, assert_never, cast

from webhook_inbox.drivers.driver import AsyncDriver, Driver
from webhook_inbox.errors import ConfigurationError, HandlerTimeoutError, InboxError, StoreUnavailableError
from webhook_inbox.model.event import EventKey
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.protocol.flow import (
    Acknowledge,
    Apart,
    Ask,
    Enqueue,
    Flow,
    FlowStep,
    Hold,
    Pause,
    Prepare,
    Transact,
)
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.runtime.gate import KeyGate
from webhook_inbox.runtime.recorder import AsyncRecorder, SyncRecorder
from webhook_inbox.runtime.users_functions import answered, answered_on_loop, prepared, prepared_on_loop

_PREPARE_GRACE_SECONDS = 2.0  # until a prepare stage that does not end is left to itself
T = TypeVar("T")


class FlowState:
    """
    Hold what one run of a flow has taken, so that it is given back however the flow ends.

    Attributes:
        acknowledged: What may be answered though the flow goes on; None: nothing yet.
    """

    __slots__ = ("acknowledged", "error", "held", "result")

    def __init__(self) -> None:
        self.acknowledged: EventResult | None = None
        self.held: tuple[EventKey, ...] = ()
        self.result: object = None
        self.error: InboxError | None = None

    def next(self, flow: Flow[T]) -> FlowStep:
        """Give the next step of *flow*; StopIteration where it has returned."""
        result, error, self.result, self.error = self.result, self.error, None, None
        return flow.send(result) if error is None else flow.throw(error)


class SyncFlows:
    """
    Drive flows on the calling thread.

    Args:
        driver: Runs plans; None where the database given serves no thread.
        gate: Shared with the flows on event loops.
        recorder: Records for the worker; None with *driver*.
    """

    def __init__(self, driver: Driver | None, gate: KeyGate, recorder: SyncRecorder | None) -> None:
        self._driver = driver
        self._gate = gate
        self._recorder = recorder

    def run(self, flow: Flow[T]) -> T:
        """Drive *flow* to its end."""
        state = FlowState()
        try:
            while True:
                try:
                    step = state.next(flow)
                except StopIteration as stop:
                    return cast("T", stop.value)
                try:
                    state.result = self._perform(step, state)
                except InboxError as error:
                    state.error = error
        finally:
            flow.close()
            self._gate.release(state.held)

    def _perform(self, step: FlowStep, state: FlowState) -> object:
        match step:
            case Apart(flow):
                return self.run(flow)
            case Ask():
                return answered(step)
            case Hold(keys, seconds):
                held = self._gate.hold(keys, seconds)
                state.held = held
                return held
            case Transact(plan, kind):
                if kind == "async" or self._driver is None:
                    raise ConfigurationError(
                        "this call runs on a thread, which an async def handler or an async pool cannot serve; "
                        "await inbox.receive(...)"
                    )
                return self._driver.run(plan)
            case Enqueue():
                return self._enqueue(step)
            case Prepare():
                return prepared(step)
            case Pause(seconds):
                time.sleep(seconds)
                return None
            case Acknowledge(result):
                state.acknowledged = result
                return None
            case _:
                assert_never(step)

    def _enqueue(self, step: Enqueue) -> object:
        if self._recorder is None:
            raise ConfigurationError(
                "this call runs on a thread, which an async pool cannot serve; await inbox.receive(...)"
            )
        return self._recorder.record(step)


class AsyncFlows:
    """
    Drive flows on the running event loop; plans with ``def`` handlers run on threads beside it.

    Args:
        driver: Runs plans on the loop; None where the database given serves threads only.
        threads: Runs plans on threads; None where the database given serves event loops only.
        gate: Shared with the flows on threads.
        recorder: Records for the worker.
        threads_max: Plans on threads at once; as many as the pool has connections.
        thread_wait_seconds: How long a plan waits for its turn on a thread.
    """

    def __init__(
        self,
        driver: AsyncDriver | None,
        threads: Driver | None,
        gate: KeyGate,
        recorder: AsyncRecorder | SyncRecorder,
        *,
        threads_max: int,
        thread_wait_seconds: float,
    ) -> None:
        self._driver = driver
        self._threads = threads
        self._gate = gate
        self._recorder = recorder
        self._free = asyncio.Semaphore(threads_max)
        self._thread_wait_seconds = thread_wait_seconds
        self._threads_max = threads_max
        self._executor = self._new_threads()

    async def run(self, flow: Flow[T], state: FlowState | None = None) -> T:
        """Drive *flow* to its end; *state* may be watched from outside."""
        state = state or FlowState()
        try:
            while True:
                try:
                    step = state.next(flow)
                except StopIteration as stop:
                    return cast("T", stop.value)
                try:
                    state.result = await self._perform(step, state)
                except InboxError as error:
                    state.error = error
        finally:
            flow.close()
            self._gate.release(state.held)

    async def _perform(self, step: FlowStep, state: FlowState) -> object:
        match step:
            case Apart(flow):
                return await self.run(flow)
            case Ask():
                return await answered_on_loop(step)
            case Hold(keys, seconds):
                held = await self._gate.hold_async(keys, seconds)
                state.held = held
                return held
            case Transact(plan, kind):
                return await self._transact(plan, kind)
            case Pause(seconds):
                await asyncio.sleep(seconds)
                return None
            case Enqueue():
                return await self._enqueue(step)
            case Prepare():
                return await self._prepare(step)
            case Acknowledge(result):
                state.acknowledged = result
                return None
            case _:
                assert_never(step)

    async def _transact(self, plan: Callable[[], Plan[Any]], kind: str | None) -> object:
        if self._driver is not None and kind != "sync":
            return await self._driver.run(plan)
        if self._threads is None:
            raise ConfigurationError(
                "a def handler needs a database that threads can use; the pool given serves event loops only"
            )
        if kind == "async":
            raise ConfigurationError(
                "an async def handler needs a database that event loops can use; the pool given serves threads only"
            )
        lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run = partial(self._threads.run, abandoned=partial(_tell, lost))
        return await self._on_thread(run, plan, lost)

    async def _enqueue(self, step: Enqueue) -> object:
        if isinstance(self._recorder, AsyncRecorder):
            return await self._recorder.record(step)
        return await self._on_thread(self._recorder.record, step)

    async def _prepare(self, step: Prepare) -> object:
        if not inspect.iscoroutinefunction(step.function):
            lost = asyncio.ensure_future(asyncio.sleep(step.seconds_max + _PREPARE_GRACE_SECONDS))
            return await self._on_thread(prepared, step, lost)
        return await prepared_on_loop(step)

    async def _on_thread(
        self, function: Callable[[Any], Any], argument: object, lost: asyncio.Future[None] | None = None
    ) -> object:
        """
        Call *function* on a thread.

        Raises:
            HandlerTimeoutError: *lost* came first: the thread is left to itself, and another takes its place (P-FLOW).
        """
        try:
            async with self._place():
                running = self._begin(partial(function, argument))
                try:
                    if lost is None:
                        return await running
                    await asyncio.wait({running, lost}, return_when=asyncio.FIRST_COMPLETED)
                    if running.done():
                        return running.result()
                finally:
                    running.cancel()  # what a thread that was left says when it ends, nobody wants to know
                self._replace_threads()
                raise HandlerTimeoutError("the handler does not end; its thread is left to itself")
        finally:
            if lost is not None:
                lost.cancel()

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Have a place for a plan on a thread while the block runs."""
        try:
            async with asyncio.timeout(self._thread_wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise StoreUnavailableError(
                f"every thread for def handlers was busy for {self._thread_wait_seconds}s "
                "(settings connections_max, connection_wait_seconds)"
            ) from None
        try:
            yield
        finally:
            self._free.release()

    def _begin(self, call: Callable[[], object]) -> asyncio.Future[Any]:
        # As asyncio.to_thread does: the current span, and whatever else the user keeps in a context, goes along.
        run = partial(copy_context().run, call)
        try:
            return asyncio.get_running_loop().run_in_executor(self._executor, run)
        except RuntimeError:
            raise StoreUnavailableError(
                "no thread for a def handler could be started: the process has as many as it may, or ends"
            ) from None

    def _replace_threads(self) -> None:
        self._executor.shutdown(wait=False)  # what runs there goes on
        self._executor = self._new_threads()

    def _new_threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads_max, thread_name_prefix="webhook-inbox")

    def give_up(self) -> None:
        """Cut the connections of all plans that are under way; see ``Driver.give_up``."""
        if self._driver is not None:
            self._driver.give_up()
        if self._threads is not None:
            self._threads.give_up()

    def close(self) -> None:
        """Let the threads end once they are idle."""
        self._executor.shutdown(wait=False)


def _tell(lost: asyncio.Future[None]) -> None:
    """End *lost*, from another thread."""
    with contextlib.suppress(RuntimeError):  # the loop has just been closed
        lost.get_loop().call_soon_threadsafe(lost.cancel)
