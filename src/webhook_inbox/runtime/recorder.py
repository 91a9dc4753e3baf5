"""
Gather what arrives together into one commit, by back-pressure and never by a timer.

While one commit is under way, the next batch gathers; when it is done, all that has gathered goes in one
transaction. So a lone event is recorded at once, and a thousand at once take a handful of commits. What may
wait is bounded: the next delivery hears 503 before memory grows.

Two forms of one idea: on an event loop a task writes; on threads the caller that finds nobody writing becomes
the writer.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from webhook_inbox.drivers.driver import AsyncDriver, Driver
from webhook_inbox.errors import InboxError, KeyBusyError, StatementError, StoreUnavailableError
from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.protocol.enqueue import BATCH_WAIT_SECONDS, enqueue
from webhook_inbox.protocol.flow import Enqueue
from webhook_inbox.protocol.steps import Plan

BATCH_EVENTS_MAX = 200
BATCH_BYTES_MAX = 8 * 1024 * 1024
Results = tuple[EventResult, ...]


@dataclass(slots=True)
class Waiting:
    """Hold the deliveries that wait for the recorder, at most *limit* of them."""

    limit: int
    _queue: deque[tuple[Enqueue, Future[Results]]] = field(default_factory=deque)

    def add(self, request: Enqueue) -> Future[Results]:
        """
        Put *request* at the end.

        Raises:
            StoreUnavailableError: As many wait already as may.
        """
        if len(self._queue) >= self.limit:
            raise StoreUnavailableError(
                f"{self.limit} deliveries wait to be recorded already (setting waiting_max)"
            )
        answer: Future[Results] = Future()
        self._queue.append((request, answer))
        return answer

    def take(self) -> list[tuple[Enqueue, Future[Results]]]:
        """Give the next batch, at least one where any waits: bounded in events and bytes."""
        batch: list[tuple[Enqueue, Future[Results]]] = []
        events = size = 0
        while self._queue:
            arrivals = self._queue[0][0].arrivals
            events += len(arrivals)
            size += sum(len(arrival.body) for arrival in arrivals)
            if batch and (events > BATCH_EVENTS_MAX or size > BATCH_BYTES_MAX):
                break
            batch.append(self._queue.popleft())
        return batch


def together(batch: Sequence[tuple[Enqueue, Future[Results]]]) -> Callable[[], Plan[Results]]:
    """Give the plan that records a whole batch, with a short wait: a key that is busy must not hold its mates."""
    arrivals = [arrival for request, _ in batch for arrival in request.arrivals]
    revive = frozenset(
        arrival.key.endpoint for request, _ in batch if request.revive for arrival in request.arrivals
    )
    to = batch[0][0].to
    if len(batch) > 1:
        to = replace(to, wait_seconds=min(to.wait_seconds, BATCH_WAIT_SECONDS))
    return lambda: enqueue(arrivals, to, revive=revive)


def alone(request: Enqueue) -> Callable[[], Plan[Results]]:
    """Give the plan that records one delivery by itself."""
    revive = frozenset(arrival.key.endpoint for arrival in request.arrivals if request.revive)
    return lambda: enqueue(request.arrivals, request.to, revive=revive)


def share(batch: Sequence[tuple[Enqueue, Future[Results]]], results: Results) -> None:
    """Hand each delivery its own part of *results*."""
    start = 0
    for request, answer in batch:
        end = start + len(request.arrivals)
        settle(answer, results[start:end])
        start = end


def settle(answer: Future[Results], outcome: Results | InboxError) -> None:
    """Answer one delivery, unless it is answered."""
    if answer.done():
        return
    if isinstance(outcome, InboxError):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


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
        self._waiting = Waiting(waiting_max)
        self._recorded = recorded
        self._writer: asyncio.Task[None] | None = None
        self._alone: set[asyncio.Task[None]] = set()

    async def record(self, request: Enqueue) -> Results:
        """
        Record *request*; return when its commit is confirmed (P-ACK).

        Raises:
            StoreError: Nothing of it is stored, or the commit's fate is unknown.
        """
        answer = self._waiting.add(request)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        return await asyncio.wrap_future(answer)

    async def _write(self) -> None:
        while batch := self._waiting.take():
            try:
                results = await self._driver.run(together(batch))
            except (KeyBusyError, StatementError) as error:
                if len(batch) == 1:
                    settle(batch[0][1], error)
                    continue
                for request, answer in batch:
                    task = asyncio.create_task(self._write_alone(request, answer))
                    self._alone.add(task)
                    task.add_done_callback(self._alone.discard)
            except InboxError as error:
                for _, answer in batch:
                    settle(answer, error)
            except BaseException as error:
                for _, answer in batch:
                    settle(answer, StoreUnavailableError(f"recording ended unexpectedly: {describe(error)}"))
                raise
            else:
                share(batch, results)
                self._recorded()

    async def _write_alone(self, request: Enqueue, answer: Future[Results]) -> None:
        try:
            settle(answer, await self._driver.run(alone(request)))
            self._recorded()
        except InboxError as error:
            settle(answer, error)


class SyncRecorder:
    """
    Record on threads: the caller that finds nobody writing writes for all until nobody waits.

    Args: As ``AsyncRecorder``.
    """

    def __init__(self, driver: Driver, *, waiting_max: int, recorded: Callable[[], None]) -> None:
        self._driver = driver
        self._waiting = Waiting(waiting_max)
        self._recorded = recorded
        self._lock = threading.Lock()
        self._writing = False

    def record(self, request: Enqueue) -> Results:
        """Record *request*; see ``AsyncRecorder.record``."""
        with self._lock:
            answer = self._waiting.add(request)
            leads, self._writing = not self._writing, True
        if leads:
            self._write()
        return answer.result()

    def _write(self) -> None:
        while True:
            with self._lock:
                batch = self._waiting.take()
                if not batch:
                    self._writing = False
                    return
            self._write_batch(batch)

    def _write_batch(self, batch: list[tuple[Enqueue, Future[Any]]]) -> None:
        try:
            results = self._driver.run(together(batch))
        except (KeyBusyError, StatementError) as error:
            if len(batch) == 1:
                settle(batch[0][1], error)
                return
            for request, answer in batch:
                self._write_alone(request, answer)
        except InboxError as error:
            for _, answer in batch:
                settle(answer, error)
        except BaseException as error:
            for _, answer in batch:
                settle(answer, StoreUnavailableError(f"recording ended unexpectedly: {describe(error)}"))
            raise
        else:
            share(batch, results)
            self._recorded()

    def _write_alone(self, request: Enqueue, answer: Future[Results]) -> None:
        try:
            settle(answer, self._driver.run(alone(request)))
        except InboxError as error:
            settle(answer, error)
