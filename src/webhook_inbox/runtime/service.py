"""
Receive deliveries for one inbox: the flows, the drivers beneath them, and their start and end.

A delivery that has begun is finished: it runs in a task or thread of its own, and neither a client that hangs
up nor a cancelled request stops it between two statements. Its caller waits a bounded time; if the answer is
not known by then it hears 503 and the delivery goes on, to be found as a duplicate by the resend (P-ACK).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Flow, Transact
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.migrate import check_ready
from webhook_inbox.protocol.receive import Receiving, Report, receive
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.runtime.database import Drivers
from webhook_inbox.runtime.flows import AsyncFlows, SyncFlows
from webhook_inbox.runtime.gate import KeyGate
from webhook_inbox.sql.statements import Statements

_GRACE_SECONDS = 5.0
T = TypeVar("T")


class Service:
    """
    Run the receive flow for every endpoint of one inbox.

    Args:
        drivers: For the database given.
        schema: Where the tables are.
        settings: The inbox's.
        report: Told of each exception that made a delivery fail, once.
    """

    def __init__(self, drivers: Drivers, *, schema: str, settings: Settings, report: Report) -> None:
        self._drivers = drivers
        self._inbox = Receiving(schema=schema, sql=Statements.of(schema), report=report)
        self._settings = settings
        self._gate = KeyGate()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._async_flows: AsyncFlows | None = None
        self._sync_flows = SyncFlows(drivers.threads, self._gate)
        self._tasks: set[asyncio.Task[Receipt]] = set()

    def require(self, handler: Handler) -> None:
        """
        Refuse a handler that the database given cannot serve.

        Raises:
            ConfigurationError: An ``async def`` on a pool of threads, or a ``def`` on a pool of an event loop.
        """
        if handler.kind == "async" and self._drivers.loops is None:
            raise ConfigurationError(
                f"{handler.name} is async def, but the pool given serves threads only; write def, or give a DSN"
            )
        if handler.kind == "sync" and self._drivers.threads is None:
            raise ConfigurationError(
                f"{handler.name} is def, but the pool given serves event loops only; write async def, or give a DSN"
            )

    def receive_sync(self, endpoint: EndpointPlan, delivery: Delivery) -> Receipt:
        """Receive *delivery* on the calling thread."""
        return self._sync_flows.run(self._flow(endpoint, delivery))

    async def receive(self, endpoint: EndpointPlan, delivery: Delivery) -> Receipt:
        """Receive *delivery* in a task of its own, and wait for its answer a bounded time."""
        task = asyncio.create_task(self._flows().run(self._flow(endpoint, delivery)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        settings = endpoint.settings
        patience = (
            settings.duplicate_wait_seconds
            + settings.connection_wait_seconds
            + settings.handler_seconds_max
            + _GRACE_SECONDS
        )
        done, _ = await asyncio.wait(
            {task}, timeout=patience
        )  # wait() leaves the task alone when the caller is cancelled
        return task.result() if done else answers.unavailable("in_doubt", "not known yet; send it again")

    async def check(self) -> None:
        """
        Refuse a database that cannot be served right now.

        Raises:
            StoreError: Unreachable, read-only, or with a schema that this release cannot serve.
        """
        await self.perform(lambda: check_ready(self._inbox.schema))

    async def perform(self, plan: Callable[[], Plan[T]]) -> T:
        """
        Run one plan beside the deliveries.

        Raises:
            InboxError: Whatever the plan raises.
        """
        return await self._flows().run(_transact(plan))

    async def stop(self) -> None:
        """Wait a bounded time for what is under way, then close what this service opened."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=self._settings.handler_seconds_max + _GRACE_SECONDS)
        if self._async_flows is not None:
            self._async_flows.close()
            self._async_flows, self._loop = None, None
        if self._drivers.loops is not None:
            await self._drivers.loops.close()
        self.close()

    def close(self) -> None:
        """Close the connections that threads used."""
        if self._drivers.threads is not None:
            self._drivers.threads.close()

    def _flow(self, endpoint: EndpointPlan, delivery: Delivery) -> Flow[Receipt]:
        return receive(endpoint, delivery, self._inbox)

    def _flows(self) -> AsyncFlows:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._async_flows is None or self._loop is not loop:
                self._loop = loop
                self._async_flows = AsyncFlows(
                    self._drivers.loops,
                    self._drivers.threads,
                    self._gate,
                    threads_max=self._settings.connections_max,
                    thread_wait_seconds=self._settings.connection_wait_seconds,
                )
            return self._async_flows


def _transact(plan: Callable[[], Plan[T]]) -> Flow[T]:
    done: T = yield Transact(plan, None)
    return done
