"""
Relay the outbox of one inbox: route what is new, have each destination's lane bring it there, keep house.

    router       new messages ──► a row in sends for each destination that they are for
    lanes        one for each destination: claim, send, settle                                (runtime/lane.py)
    housekeeper  takes back what dead relays held; deletes what was published long ago

Each is a task of its own and goes on by itself, whatever befalls it. Told to stop, nothing more is claimed; what is
being sent has a grace to end, and what has not ended by then is given back: it goes out again, under the same id.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from webhook_inbox.destinations.destination import Destination
from webhook_inbox.model.failure import shown
from webhook_inbox.model.message import SendState
from webhook_inbox.model.routing import Outlet, Routing
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.flow import once
from webhook_inbox.protocol.probe import Probe
from webhook_inbox.protocol.relay import (
    PRUNE_LIMIT,
    Relaying,
    count_stuck,
    measure_lag,
    prune_outbox,
    reroute_messages,
    return_messages,
    route_messages,
)
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.runtime.flows import AsyncFlows
from webhook_inbox.runtime.heartbeat import Heartbeat
from webhook_inbox.runtime.lane import Lane
from webhook_inbox.runtime.lease import Lease
from webhook_inbox.runtime.rest import Rest
from webhook_inbox.telemetry import relay_events
from webhook_inbox.telemetry.registry import Metrics

_PRUNE_SECONDS = 3600.0
_MEASURE_SECONDS = 10.0
_SECONDS_A_DAY = 86_400.0
_BACKOFF_SECONDS_MAX = 5.0
T = TypeVar("T")


class Relay:
    """
    Relay for every destination of one inbox.

    Args:
        flows: Drives the plans.
        destinations: By name.
        routing: Where messages go.
        to: What the plans need.
        heartbeat: Holds the lease.
        settings: The inbox's.
        probe: Told the fault points before and after each send.
        metrics: Counts sends, and shows how far behind each destination is.
    """

    def __init__(
        self,
        flows: AsyncFlows,
        *,
        destinations: Mapping[str, tuple[Outlet, Destination]],
        routing: Routing,
        to: Relaying,
        heartbeat: Heartbeat,
        settings: Settings,
        probe: Probe,
        metrics: Metrics,
    ) -> None:
        self._flows = flows
        self._metrics = metrics
        self._routing = routing
        self._to = to
        self._settings = settings
        self._lease = Lease(heartbeat, self._transact, to.sql)
        self._rest = Rest(settings.poll_seconds)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looked_back = False
        self._return_at = self._prune_at = self._measure_at = self._blames_at = 0.0
        self._lanes = {
            name: Lane(
                outlet,
                destination,
                to=to,
                transact=self._transact,
                lease=self._lease,
                rest=Rest(settings.poll_seconds),
                probe=probe,
                metrics=metrics,
            )
            for name, (outlet, destination) in destinations.items()
        }

    @property
    def outcomes(self) -> Counter[SendState]:
        """Give how many sends came to what."""
        return sum((lane.outcomes for lane in self._lanes.values()), Counter())

    def wake(self) -> None:
        """Look for messages now; from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._rest.wake)

    async def run(self, stop: asyncio.Event, *, drain: bool = False) -> None:
        """Work until *stop* is set; with *drain*, also end when nothing is due that can be sent."""
        self._loop = asyncio.get_running_loop()
        working = asyncio.create_task(self._drain() if drain else self._work())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for lane in self._lanes.values():
                lane.stop()
            if not working.done():
                await asyncio.wait({working}, timeout=self._settings.stop_seconds_max * 0.7)
        finally:
            stopping.cancel()
            await self._finish(working)
        if working.done() and not working.cancelled():
            working.result()

    async def _work(self) -> None:
        """Route and keep house beside the lanes, until these have ended."""
        beside = [
            asyncio.create_task(each)
            for each in (self._forever(self._route), self._forever(self._keep_house))
        ]
        try:
            await asyncio.gather(*(lane.run() for lane in self._lanes.values()))
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _drain(self) -> None:
        """Route and send until there is nothing new and nothing due."""
        await self._keep_house()
        while True:
            while await self._route():
                pass
            await asyncio.gather(*(lane.run(drain=True) for lane in self._lanes.values()))
            if not await self._route():
                return

    async def _finish(self, working: asyncio.Task[None]) -> None:
        grace = self._settings.stop_seconds_max
        working.cancel()
        await asyncio.wait({working}, timeout=grace * 0.1)
        await asyncio.gather(*(lane.finish(grace * 0.1) for lane in self._lanes.values()))
        self._flows.give_up()
        await self._lease.give_up()

    async def _forever(self, job: Callable[[], Awaitable[object]]) -> None:
        """Do *job* again and again, soon where it was worth it."""
        rest = self._rest if job == self._route else Rest(self._settings.poll_seconds)
        backoff = 0.0
        while True:
            try:
                if await job():
                    rest.found()
                    continue
                backoff = 0.0
            except Exception as error:  # noqa: BLE001 - whatever it is, a relay goes on by itself
                backoff = min(_BACKOFF_SECONDS_MAX, backoff * 2 or 0.1)
                # Others may be cut off as we are, and come back later than we do.
                self._blames_at = time.monotonic() + backoff + self._lease.seconds / 2
                relay_events.RELAY_WAITS.log(self._lease.name, shown(error))
            await rest.wait(backoff)

    async def _route(self) -> int:
        """Route what is new; give the number of messages that were looked at."""
        routed = await self._transact(lambda: route_messages(self._routing, self._to))
        if unrouted := routed.pop("", 0):
            relay_events.MESSAGES_UNROUTED.log(unrouted)
        for name in routed:
            self._lanes[name].wake()
        return sum(routed.values()) + unrouted

    async def _keep_house(self) -> int:
        """Take back what the dead have left; now and then delete what is old. Give 1 where there is more to do."""
        if not self._looked_back:
            stranded = await self._transact(lambda: reroute_messages(self._routing, self._to))
            for name, count in stranded.items():
                relay_events.DESTINATION_MISSING.log(name, count)
            self._looked_back = True
        await self._return_sometimes()
        await self._measure_sometimes()
        return await self._prune_sometimes()

    async def _return_sometimes(self) -> None:
        if time.monotonic() < self._return_at:
            return
        self._return_at = time.monotonic() + max(0.5, self._lease.seconds / 8)
        blaming = time.monotonic() >= self._blames_at
        for name, message_id, state, relay in await self._transact(
            lambda: return_messages(self._to, blaming=blaming)
        ):
            relay_events.SEND_EXPIRED.log(name, relay, message_id, state)
            if name in self._lanes:
                self._lanes[name].wake()

    async def _measure_sometimes(self) -> None:
        if time.monotonic() < self._measure_at:
            return
        self._measure_at = time.monotonic() + _MEASURE_SECONDS
        lags = await self._transact(lambda: measure_lag(self._routing, self._to))
        for name, seconds in lags.items():
            self._metrics.lag(name, seconds)
        for state, number in (await self._transact(lambda: count_stuck(self._to))).items():
            self._metrics.stuck(state, number)

    async def _prune_sometimes(self) -> int:
        if time.monotonic() < self._prune_at:
            return 0
        seconds = self._settings.outbox_days * _SECONDS_A_DAY
        deleted = await self._transact(lambda: prune_outbox(seconds, self._to))
        if deleted < PRUNE_LIMIT:
            self._prune_at = time.monotonic() + _PRUNE_SECONDS
        return deleted // PRUNE_LIMIT

    async def _transact(self, plan: Callable[[], Plan[T]]) -> T:
        done: T = await self._flows.run(once(plan))
        return done
