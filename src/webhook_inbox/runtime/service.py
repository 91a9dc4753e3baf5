"""
Receive deliveries for one inbox: the flows, the drivers beneath them, and their start and end.

A delivery that has begun is finished: it runs in a task or thread of its own, and neither a client that hangs
up nor a cancelled request stops it between two statements. Its caller waits a bounded time; if the answer is
not known by then it hears 503 and the delivery goes on, to be found as a duplicate by the resend (P-ACK).
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from webhook_inbox.drivers.per_loop import PerLoop
from webhook_inbox.drivers.psycopg_settings import place
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.reconciled import Completeness, Reconciled
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Flow, once
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.migrate import check_ready
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.protocol.receive import receive
from webhook_inbox.protocol.receiving import Receiving
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.runtime.beside import Beside, worker_chores
from webhook_inbox.runtime.database import Drivers
from webhook_inbox.runtime.flows import AsyncFlows, FlowState, SyncFlows
from webhook_inbox.runtime.gate import KeyGate
from webhook_inbox.runtime.heartbeat import Heartbeat
from webhook_inbox.runtime.hooks import Hooks
from webhook_inbox.runtime.loops import Loop, run_loop
from webhook_inbox.runtime.process_own import Common, ProcessOwn
from webhook_inbox.runtime.recorder import AsyncRecorder, SyncRecorder
from webhook_inbox.runtime.wake import Listener, channel_of
from webhook_inbox.runtime.worker import Worker
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry import events
from webhook_inbox.telemetry.log_event import LogEvent
from webhook_inbox.telemetry.registry import Metrics
from webhook_inbox.telemetry.results import log_defect

_GRACE_SECONDS = 5.0
_ACKNOWLEDGED_SECONDS = 0.05
T = TypeVar("T")
L = TypeVar("L", bound=Loop)


class Service:
    """
    Run the receive flow for every endpoint of one inbox.

    Args:
        drivers: For the database given.
        schema: Where the tables are.
        settings: The inbox's.
        hooks: Told of each exception that made a delivery or a run fail, and of each event that died in a run.
        metrics: Counts, and is told what is not settled.
    """

    def __init__(
        self,
        drivers: Drivers,
        *,
        schema: str,
        settings: Settings,
        hooks: Hooks,
        metrics: Metrics,
    ) -> None:
        self._drivers = drivers
        self._settings = settings
        self._sql = Statements.of(schema)
        self._schema = schema
        self._gate = KeyGate()
        self._awake: list[Loop] = []
        self._workers = 0
        self._lock = threading.Lock()
        self._common = Common(
            drivers=drivers,
            schema=schema,
            settings=settings,
            hooks=hooks,
            metrics=metrics,
            works=lambda: self._workers > 0,
        )
        self._owned = ProcessOwn.new(self._common)
        self._flows = PerLoop(lambda: self._flows_on(drivers, threads_max=settings.connections_max))
        self._sync_recorder = (
            None
            if drivers.threads is None
            else SyncRecorder(drivers.threads, waiting_max=settings.waiting_max, recorded=self._recorded)
        )
        self._sync_flows = SyncFlows(drivers.threads, self._gate, self._sync_recorder)
        self._tasks: set[asyncio.Task[Receipt]] = set()

    @property
    def _own(self) -> ProcessOwn:
        with self._lock:
            if self._owned.pid != os.getpid():
                self._owned = ProcessOwn.new(self._common)
            return self._owned

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

    def require_threads(self, what: str) -> None:
        """
        Refuse *what* where the database given cannot serve it.

        Raises:
            ConfigurationError: It serves event loops only.
        """
        if self._drivers.threads is None:
            raise ConfigurationError(
                f"{what} runs on threads, but the database given serves event loops only; "
                "give a DSN, or a pool for threads"
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
        task = asyncio.create_task(self._flows.here().run(self._flow(endpoint, delivery), state))
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
        reconciled: Callable[[Reconciled | Completeness], None] = lambda _: None,
    ) -> Counter[RunOutcome]:
        """
        Work off what is due until *stop* is set; with *drain*, also end when nothing is due.

        Args:
            endpoints: Gives the endpoints to work for.
            drivers: The worker's own, so that receiving keeps its connections; closed at the end.
            reconciled: Told what came of asking a provider.

        Returns:
            How many runs came to what.
        """

        def make(flows: AsyncFlows, heartbeat: Heartbeat, settings: Settings) -> Beside[Worker]:
            own = self._own
            metrics = self._common.metrics
            worker = Worker(
                flows,
                endpoints=endpoints,
                running=own.running,
                heartbeat=heartbeat,
                settings=settings,
                metrics=metrics,
            )
            return Beside(worker, worker_chores(flows, endpoints, own.inbox, reconciled, metrics))

        self._workers += 1
        try:
            beside = await self.run(make, drivers, stop, drain=drain, ended=events.WORKER_ENDED)
        finally:
            self._workers -= 1
        return beside.loop.outcomes

    async def run(
        self,
        make: Callable[[AsyncFlows, Heartbeat, Settings], L],
        drivers: Drivers,
        stop: asyncio.Event,
        *,
        drain: bool,
        ended: LogEvent,
    ) -> L:
        """
        Run a loop beside the deliveries until *stop* is set; it hears of what is recorded.

        Args:
            make: Makes it, of what drives its plans, what holds its lease, and its settings.
            drivers: Its own, so that receiving keeps its connections; closed at the end.
            ended: Logged where it ends by an error.
        """
        connections_max = min(
            self._settings.connections_max, drivers.connections_max or self._settings.connections_max
        )
        settings = self._settings.with_overrides({"connections_max": connections_max})
        flows = self._flows_on(drivers, threads_max=connections_max)
        loop = make(flows, self._common.new_heartbeat(self.worker_name, drivers), settings)
        listener = Listener(drivers.find_dsn(), channel_of(self._schema), self._sql, loop.wake)
        self._awake.append(loop)
        try:
            await run_loop(
                loop,
                stop,
                drain=drain,
                listener=listener,
                flows=flows,
                drivers=drivers,
                name=self.worker_name,
                ended=ended,
            )
        finally:
            self._awake.remove(loop)
        return loop

    async def check(self) -> None:
        """
        Refuse a database that cannot be served right now.

        Raises:
            StoreError: Unreachable, read-only, or with a schema that this release cannot serve.
        """
        await self.perform(lambda: check_ready(self._schema))

    async def look_around(self) -> None:
        """Tell of a schema that cannot be served yet; on a connection of its own, which is closed again."""
        self._drivers.meet(asyncio.get_running_loop())
        await asyncio.to_thread(self._own.lookout.see_schema)

    async def perform(self, plan: Callable[[], Plan[T]]) -> T:
        """Run one plan beside the deliveries; raises what it raises."""
        return await self.follow(lambda _: once(plan))

    async def follow(self, flow: Callable[[Receiving], Flow[T]]) -> T:
        """Drive one flow beside the deliveries; raises what it raises."""
        return await self._flows.here().run(flow(self._own.inbox))

    async def stop(self) -> None:
        """Wait a bounded time for what is under way, then close what this service opened."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=self._settings.handler_seconds_max + _GRACE_SECONDS)
        await asyncio.to_thread(self._own.heartbeat.stop, forget=True)
        await asyncio.to_thread(self._own.counting.stop)
        if (flows := self._flows.take()) is not None:
            flows.close()
        if self._drivers.loops is not None:
            await self._drivers.loops.close()
        self.close()

    def close(self) -> None:
        """Close the connections that threads used."""
        self._own.stop()
        if self._drivers.threads is not None:
            self._drivers.threads.close()

    def _ended(self, task: asyncio.Task[Receipt]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # taken note of here: asyncio would log its text where nobody waits any more (P-QUIET)

    def _flow(self, endpoint: EndpointPlan, delivery: Delivery) -> Flow[Receipt]:
        return receive(endpoint, delivery, self._own.inbox)

    def _flows_on(self, drivers: Drivers, *, threads_max: int) -> AsyncFlows:
        drivers.meet(asyncio.get_running_loop())
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

    def _recorded(self) -> None:
        """Wake whoever works: this process at once, others by a notification."""
        for loop in self._awake:
            loop.wake()
        own = self._own
        own.notifier.send_soon()
        own.lookout.see_worker_soon()


def _tell_defect(endpoint: str, task: asyncio.Task[Receipt]) -> None:
    """Log what ended a delivery that nobody waits for any more."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log_defect(endpoint, error)
