"""
Gather what arrives together into one commit, by back-pressure and never by a timer.

While one commit is under way, the next batch gathers; when it is done, all that has gathered goes in one
transaction. So a lone event is recorded at once, and a thousand at once take a handful of commits. What may
wait is bounded: the next delivery hears 503 before memory grows.

Two forms of one idea: on an event loop a task writes; on threads the caller that finds nobody writing becomes
the writer, and hands that on as soon as its own delivery is answered.

A batch that cannot be recorded falls apart: each of its deliveries is recorded alone. One whose key stays busy
then waits for its rival in a line of its own, so that it takes neither the writer nor the pool (P-FLOW).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeAlias, TypeVar

from webhook_inbox.drivers.driver import AsyncDriver, Driver
from webhook_inbox.errors import (
    ConflictError,
    InboxError,
    KeyBusyError,
    StatementError,
    StoreUnavailableError,
)
from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.protocol.enqueue import BATCH_WAIT_SECONDS, enqueue
from webhook_inbox.protocol.flow import Enqueue
from webhook_inbox.protocol.steps import Plan

BATCH_EVENTS_MAX = 200
BATCH_BYTES_MAX = 8 * 1024 * 1024
# How many deliveries of a batch that fell apart are recorded at once, and how many wait for a rival at once.
_ALONE_MAX = 3
_PATIENT_MAX = 2
# What one delivery of a batch may be to blame for.
_FALLS_APART = (KeyBusyError, StatementError, ConflictError)
Results: TypeAlias = tuple[EventResult, ...]


# Of a thread, or of an event loop.
Answer: TypeAlias = "Future[Results] | asyncio.Future[Results]"
A = TypeVar("A", "Future[Results]", "asyncio.Future[Results]")
Batch: TypeAlias = Sequence[tuple[Enqueue, Answer]]


@dataclass(slots=True)
class Waiting(Generic[A]):
    """Hold the deliveries that wait for the recorder, at most *limit* of them."""

    limit: int
    _queue: deque[tuple[Enqueue, A]] = field(default_factory=deque)

    def add(self, request: Enqueue, answer: A) -> A:
        """
        Put *request* at the end, to be answered by *answer*.

        Raises:
            StoreUnavailableError: As many wait already as may.
        """
        if len(self._queue) >= self.limit:
            raise self.full()
        self._queue.append((request, answer))
        return answer

    def full(self) -> StoreUnavailableError:
        """Say that no more may wait."""
        return StoreUnavailableError(
            f"{self.limit} deliveries wait to be recorded already (setting waiting_max)"
        )

    def hand_on(self, answer: A) -> bool:
        """Make whoever has waited longest the writer, to be answered by *answer*; False where nobody waits."""
        if not self._queue:
            return False
        request, waiting = self._queue[0]
        self._queue[0] = (request, answer)
        settle(waiting, answer)
        return True

    def take(self) -> list[tuple[Enqueue, A]]:
        """Give the next batch, at least one where any waits: bounded in events and bytes."""
        batch: list[tuple[Enqueue, A]] = []
        events = size = 0
        while self._queue:
            arrivals = self._queue[0][0].arrivals
            events += len(arrivals)
            size += sum(len(arrival.body) for arrival in arrivals)
            if batch and (events > BATCH_EVENTS_MAX or size > BATCH_BYTES_MAX):
                break
            batch.append(self._queue.popleft())
        return batch


def together(batch: Batch) -> Callable[[], Plan[Results]]:
    """Give the plan that records a whole batch, with a short wait: a busy key must not hold who comes next."""
    arrivals = tuple(arrival for request, _ in batch for arrival in request.arrivals)
    revive = frozenset(
        arrival.key.endpoint for request, _ in batch if request.revive for arrival in request.arrivals
    )
    to = batch[0][0].to
    to = replace(to, wait_seconds=min(to.wait_seconds, BATCH_WAIT_SECONDS))
    return lambda: enqueue(arrivals, to, revive=revive)


def alone(request: Enqueue, *, patient: bool) -> Callable[[], Plan[Results]]:
    """Give the plan that records one delivery by itself; *patient*: it waits for a rival as long as it may."""
    revive = frozenset(arrival.key.endpoint for arrival in request.arrivals if request.revive)
    to = request.to
    if not patient:
        to = replace(to, wait_seconds=min(to.wait_seconds, BATCH_WAIT_SECONDS))
    return lambda: enqueue(request.arrivals, to, revive=revive)


def share(batch: Batch, results: Results) -> None:
    """Hand each delivery its own part of *results*."""
    start = 0
    for request, answer in batch:
        end = start + len(request.arrivals)
        settle(answer, results[start:end])
        start = end


def settle(answer: Future[Any] | asyncio.Future[Any], outcome: object) -> None:
    """Answer one delivery, unless it is answered."""
    if answer.done():
        return
    if isinstance(outcome, InboxError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


def unexpected(error: BaseException) -> InboxError:
    """Say that recording met a defect, without what it says (P-QUIET)."""
    return StoreUnavailableError(f"recording ended unexpectedly: {describe(error)}")


def still_busy() -> KeyBusyError:
    """Say that others wait for the same rival already."""
    return KeyBusyError("another transaction kept its lock for too long", sqlstate="55P03")


class AsyncRecorder:
    """
    Record on an event loop.

    Args:
        driver: Runs the plans.
        waiting_max: Deliveries that may wait at once.
        recorded: Called after each commit that recorded something for the worker.
    """

    def __init__(self, driver: AsyncDriver, *, waiting_max: int, recorded: Callable[[], None]) -> None:
        self._driver = driver
        self._waiting: Waiting[asyncio.Future[Results]] = Waiting(waiting_max)
        self._recorded = recorded
        self._writer: asyncio.Task[None] | None = None
        self._apart: set[asyncio.Task[None]] = set()
        self._alone = asyncio.Semaphore(_ALONE_MAX)
        self._patient = asyncio.Semaphore(_PATIENT_MAX)

    async def record(self, request: Enqueue) -> Results:
        """
        Record *request*; return when its commit is confirmed (P-ACK).

        Raises:
            StoreError: Nothing of it is stored, or the commit's fate is unknown.
        """
        if len(self._apart) >= self._waiting.limit:
            raise self._waiting.full()
        answer = self._waiting.add(request, asyncio.get_running_loop().create_future())
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        return await answer

    async def _write(self) -> None:
        while batch := self._waiting.take():
            try:
                results = await self._driver.run(together(batch))
            except _FALLS_APART:
                for request, answer in batch:
                    self._part(request, answer)
            except InboxError as error:
                self._settle(batch, error)
            except Exception as error:  # noqa: BLE001 - a defect; the next batch is not to blame
                self._settle(batch, unexpected(error))
            except BaseException as error:
                self._settle(batch, unexpected(error))
                raise
            else:
                share(batch, results)
                self._recorded()

    def _settle(self, batch: Batch, error: InboxError) -> None:
        for _, answer in batch:
            settle(answer, error)

    def _part(self, request: Enqueue, answer: asyncio.Future[Results]) -> None:
        task = asyncio.create_task(self._write_alone(request, answer))
        self._apart.add(task)
        task.add_done_callback(self._apart.discard)

    async def _write_alone(self, request: Enqueue, answer: asyncio.Future[Results]) -> None:
        try:
            try:
                async with self._alone:
                    results = await self._driver.run(alone(request, patient=False))
            except (KeyBusyError, ConflictError):
                results = await self._write_patiently(request)
            settle(answer, results)
            self._recorded()
        except InboxError as error:
            settle(answer, error)
        except BaseException as error:
            settle(answer, unexpected(error))
            if not isinstance(error, Exception):
                raise

    async def _write_patiently(self, request: Enqueue) -> Results:
        try:
            async with asyncio.timeout(request.to.wait_seconds):
                await self._patient.acquire()
        except TimeoutError:
            raise still_busy() from None
        try:
            return await self._driver.run(alone(request, patient=True))
        finally:
            self._patient.release()


class SyncRecorder:
    """
    Record on threads: the caller that finds nobody writing writes, and hands that on to whoever waits longest.

    A waiting thread hears one of three things: its results, that it shall record its delivery by itself (an
    ``Enqueue``), or that it is the writer now (a ``Future``, in which its results will be).

    Args: As ``AsyncRecorder``.
    """

    def __init__(self, driver: Driver, *, waiting_max: int, recorded: Callable[[], None]) -> None:
        self._driver = driver
        self._waiting: Waiting[Future[Results]] = Waiting(waiting_max)
        self._recorded = recorded
        self._lock = threading.Lock()
        self._writing = False
        self._alone = threading.Semaphore(_ALONE_MAX)
        self._patient = threading.Semaphore(_PATIENT_MAX)

    def record(self, request: Enqueue) -> Results:
        """Record *request*; see ``AsyncRecorder.record``."""
        with self._lock:
            told: Any = self._waiting.add(request, Future())
            leads, self._writing = not self._writing, True
        while isinstance(told, Future):
            if leads:
                self._write_next()
            told, leads = told.result(), True
        return self._write_alone(told) if isinstance(told, Enqueue) else told

    def _write_next(self) -> None:
        """Write one batch, the caller's own delivery in it, and make another thread the writer where any waits."""
        batch: list[tuple[Enqueue, Future[Any]]] = []
        try:
            with self._lock:
                batch = self._waiting.take()
            self._write(batch)
        except BaseException as error:
            for _, answer in batch:
                settle(answer, unexpected(error))
            if not isinstance(error, Exception):
                raise
        finally:
            with self._lock:
                self._writing = self._waiting.hand_on(Future())

    def _write(self, batch: list[tuple[Enqueue, Future[Any]]]) -> None:
        try:
            results = self._driver.run(together(batch))
        except _FALLS_APART:
            for request, answer in batch:
                settle(answer, request)
        except InboxError as error:
            for _, answer in batch:
                settle(answer, error)
        else:
            share(batch, results)
            self._recorded()

    def _write_alone(self, request: Enqueue) -> Results:
        try:
            try:
                with self._alone:
                    results = self._driver.run(alone(request, patient=False))
            except (KeyBusyError, ConflictError):
                results = self._write_patiently(request)
        except InboxError:
            raise
        except Exception as error:
            raise unexpected(error) from error
        self._recorded()
        return results

    def _write_patiently(self, request: Enqueue) -> Results:
        if not self._patient.acquire(timeout=request.to.wait_seconds):
            raise still_busy()
        try:
            return self._driver.run(alone(request, patient=True))
        finally:
            self._patient.release()
