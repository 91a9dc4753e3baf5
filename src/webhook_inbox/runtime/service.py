"""
Receive deliveries for one inbox: the flows, the drivers beneath them, and their start and end.

A delivery that has begun is finished: it runs in a task or thread of its own, and neither a client that hangs
up nor a cancelled request stops it between two statements. Its caller waits a bounded time; if the answer is
not known by then it hears 503 and the delivery goes on, to be found as a duplicate by the resend (P-ACK).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from webhook_inbox.drivers.driver import Driver
from webhook_inbox.drivers.psycopg_settings import place
from webhook_inbox.errors import ConfigurationError, InboxError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Flow, once
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.migrate import check_ready
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.protocol.receive import receive
from webhook_inbox.protocol.receiving import Receiving
from webhook_inbox.protocol.run import Running
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.runtime.database import Drivers
from webhook_inbox.runtime.flows import AsyncFlows, FlowState, SyncFlows
from webhook_inbox.runtime.gate import KeyGate
from webhook_inbox.runtime.heartbeat import Heartbeat
from webhook_inbox.runtime.notifier import Notifier
from webhook_inbox.runtime.recorder import AsyncRecorder, SyncRecorder
from webhook_inbox.runtime.wake import Listener, channel_of
from webhook_inbox.runtime.worker import Worker
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry import events

_GRACE_SECONDS = 5.0
_ACKNOWLEDGED_SECONDS = 0.05
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """Hold what is one process's own: a server may make the inbox, and fork then (gunicorn's ``--preload``)."""

    pid: int
    running: Running
    heartbeat: Heartbeat
    inbox: Receiving
    notifier: Notifier


class Service:
    """
    Run the receive flow for every endpoint of one inbox.

    Args:
        drivers: For the database given.
        schema: Where the tables are.
        settings: The inbox's.
        report: Told of each exception that made a delivery or a run fail, once.
        dead: Told of each event that died in a run, once.
    """

    def __init__(
        self,
        drivers: Drivers,
        *,
        schema: str,
        settings: Settings,
        report: Callable[[str, BaseException], None],
        dead: Callable[[str, EventResult], None],
    ) -> None:
        self._drivers = drivers
        self._settings = settings
        self._sql = Statements.of(schema)
        self._schema = schema
        self._report = report
        self._dead = dead
        self._gate = KeyGate()
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._owned = self._new_own()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._async_flows: AsyncFlows | None = None
        self._sync_recorder = (
            None
            if drivers.threads is None
            else SyncRecorder(drivers.threads, waiting_max=settings.waiting_max, recorded=self._recorded)
        )
        self._sync_flows = SyncFlows(drivers.threads, self._gate, self._sync_recorder)
        self._tasks: set[asyncio.Task[Receipt]] = set()

    @property
    def _own(self) -> _Own:
        with self._lock:
            if self._owned.pid != os.getpid():
                self._owned = self._new_own()
            return self._owned

    def _new_own(self) -> _Own:
        name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        running = Running(sql=self._sql, worker=name, report=self._report, dead=self._dead)
        heartbeat = self._new_heartbeat(name)
        return _Own(
            pid=os.getpid(),
            running=running,
            heartbeat=heartbeat,
            inbox=Receiving(schema=self._schema, sql=self._sql, running=running, lease=heartbeat),
            notifier=Notifier(self._private_driver, channel=channel_of(self._schema), sql=self._sql),
        )

    @property
    def worker_name(self) -> str:
        """Give the name by which this process's runs are known."""
        return self._own.running.worker

    @property
    def place(self) -> str:
        """Say which database it is, without user and password: ``the database shop at db.example:5432``."""
        dsn = self._drivers.find_dsn()
        return "the database of the pool given" if dsn is None else place(dsn)

    def require(self, handler: Handler) -> None:
        """
        Refuse a handler that the database given cannot serve.

        Raises:
            ConfigurationError: An ``async def`` on a pool of threads, or a ``def`` on a pool of an event loop.
        """
        if handler.kind == "async" and self._drivers.loops is None:
            raise ConfigurationError(
                f"{handler.name} is async def, but the database given serves threads only; write def, or give a DSN"
            )
        if handler.kind == "sync" and self._drivers.threads is None:
            raise ConfigurationError(
                f"{handler.name} is def, but the database given serves event loops only; write async def, or give a DSN"
            )

    def receive_sync(self, endpoint: EndpointPlan, delivery: Delivery) -> Receipt:
        """Receive *delivery* on the calling thread."""
        return self._sync_flows.run(self._flow(endpoint, delivery))

    async def receive(self, endpoint: EndpointPlan, delivery: Delivery) -> Receipt:
        """
        Receive *delivery* in a task of its own, and wait for its answer a bounded time.

        A hybrid endpoint answers when the handler is done, or at ``answer_seconds_max`` that the event is
        recorded and being run.
        """
        state = FlowState()
        task = asyncio.create_task(self._flows().run(self._flow(endpoint, delivery), state))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            return await self._answer(endpoint, task, state)
        finally:
            if not task.done():
                task.add_done_callback(partial(_tell_defect, endpoint.name))

    async def _answer(self, endpoint: EndpointPlan, task: asyncio.Task[Receipt], state: FlowState) -> Receipt:
        settings = endpoint.settings
        patience = (
            settings.duplicate_wait_seconds
            + settings.connection_wait_seconds
            + settings.handler_seconds_max
            + _GRACE_SECONDS
        )
        ends_at = time.monotonic() + patience
        step = settings.answer_seconds_max if endpoint.mode == "hybrid" else patience
        while not task.done() and (left := ends_at - time.monotonic()) > 0:
            # wait() leaves the task alone when the caller is cancelled
            await asyncio.wait({task}, timeout=min(step, left))
            if not task.done() and state.acknowledged is not None:
                return answers.accepted([state.acknowledged])
            step = _ACKNOWLEDGED_SECONDS  # recording took longer than the handler may: answer as soon as it is done
        return (
            task.result() if task.done() else answers.unavailable("in_doubt", "not known yet; send it again")
        )

    async def work(
        self,
        endpoints: Callable[[], Sequence[EndpointPlan]],
        drivers: Drivers,
        stop: asyncio.Event,
        *,
        drain: bool = False,
    ) -> Counter[RunOutcome]:
        """
        Work off what is due until *stop* is set; with *drain*, also end when nothing is due.

        Args:
            endpoints: Gives the endpoints to work for.
            drivers: The worker's own, so that receiving keeps its connections; closed at the end.

        Returns:
            How many runs came to what.
        """
        connections_max = min(
            self._settings.connections_max, drivers.connections_max or self._settings.connections_max
        )
        settings = self._settings.with_overrides({"connections_max": connections_max})
        flows = self._flows_on(drivers, threads_max=connections_max)
        running = self._own.running
        heartbeat = self._new_heartbeat(running.worker)
        worker = Worker(flows, endpoints=endpoints, running=running, heartbeat=heartbeat, settings=settings)
        self._worker = worker
        listener = Listener(drivers.find_dsn(), channel_of(self._schema), self._sql, worker.wake)
        listening = asyncio.create_task(listener.run())
        try:
            await worker.run(stop, drain=drain)
        except Exception as error:
            shown = error if isinstance(error, InboxError) else describe(error)
            events.WORKER_ENDED.log(self.worker_name, shown)
            raise
        finally:
            self._worker = None
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
            flows.close()
            if drivers.loops is not None:
                await drivers.loops.close()
            if drivers.threads is not None:
                drivers.threads.close()
        return worker.outcomes

    async def check(self) -> None:
        """
        Refuse a database that cannot be served right now.

        Raises:
            StoreError: Unreachable, read-only, or with a schema that this release cannot serve.
        """
        await self.perform(lambda: check_ready(self._schema))

    async def perform(self, plan: Callable[[], Plan[T]]) -> T:
        """
        Run one plan beside the deliveries.

        Raises:
            InboxError: Whatever the plan raises.
        """
        return await self._flows().run(once(plan))

    async def stop(self) -> None:
        """Wait a bounded time for what is under way, then close what this service opened."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=self._settings.handler_seconds_max + _GRACE_SECONDS)
        await asyncio.to_thread(self._own.heartbeat.stop, forget=True)
        if self._async_flows is not None:
            self._async_flows.close()
            self._async_flows, self._loop = None, None
        if self._drivers.loops is not None:
            await self._drivers.loops.close()
        self.close()

    def close(self) -> None:
        """Close the connections that threads used."""
        self._own.notifier.stop()
        if self._drivers.threads is not None:
            self._drivers.threads.close()

    def _ended(self, task: asyncio.Task[Receipt]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # taken note of here: asyncio would log its text where nobody waits any more (P-QUIET)

    def _flow(self, endpoint: EndpointPlan, delivery: Delivery) -> Flow[Receipt]:
        return receive(endpoint, delivery, self._own.inbox)

    def _flows(self) -> AsyncFlows:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._async_flows is None or self._loop is not loop:
                self._loop = loop
                self._async_flows = self._flows_on(self._drivers, threads_max=self._settings.connections_max)
            return self._async_flows

    def _flows_on(self, drivers: Drivers, *, threads_max: int) -> AsyncFlows:
        recorder: AsyncRecorder | SyncRecorder | None = self._sync_recorder
        if drivers.loops is not None:
            waiting_max = self._settings.waiting_max
            recorder = AsyncRecorder(drivers.loops, waiting_max=waiting_max, recorded=self._recorded)
        if recorder is None:
            raise ConfigurationError("the database given serves neither threads nor event loops")
        return AsyncFlows(
            drivers.loops,
            drivers.threads,
            self._gate,
            recorder,
            threads_max=threads_max,
            thread_wait_seconds=self._settings.connection_wait_seconds,
        )

    def _new_heartbeat(self, name: str) -> Heartbeat:
        return Heartbeat(self._private_driver, name=name, seconds=self._settings.lease_seconds, sql=self._sql)

    def _private_driver(self) -> Driver:
        """Make a driver with one connection that nobody else uses, whatever pool the user gave."""
        return self._drivers.own(self._settings, self._sql)

    def _recorded(self) -> None:
        """Wake whoever works: this process at once, others by a notification."""
        worker = self._worker
        if worker is not None:
            worker.wake()
        self._own.notifier.send_soon()


def _tell_defect(endpoint: str, task: asyncio.Task[Receipt]) -> None:
    """Log what ended a delivery that nobody waits for any more."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        failure = describe(error)
        events.REQUEST_FAILED.log(endpoint, failure, "\n  ".join(failure.frames))
