"""
Work off what is due: claim, run, settle, until told to stop.

One round: hold a lease; take back what the dead left; claim as much as there are free slots for; start it;
rest until something happens. An idle round is one short transaction; while nothing is due, nothing is open.

*Fairness.* Slots are connections. An endpoint may fill all but one for each other endpoint, so a backlog,
however long, and a handler, however slow, leave the others a place (P-FLOW).

*Alone.* An event under which a worker died is run when nothing else runs in this process, and nothing else is
begun before it ends: if it kills again, it takes nobody with it.

*The end.* Told to stop, a worker claims nothing more, waits for what is under way as long as it may, gives
the rest back without cost, and says so in the database, so that even what could not be given back counts as
nobody's crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from webhook_inbox.errors import InboxError, StoreUnavailableError
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.failure import describe
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Flow, Transact
from webhook_inbox.protocol.lease import Wanted, claim, next_due, reap, register
from webhook_inbox.protocol.process import RunOutcome, give_back
from webhook_inbox.protocol.run import Running, fail_claim, run_claims
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.runtime.flows import AsyncFlows
from webhook_inbox.runtime.heartbeat import Heartbeat
from webhook_inbox.runtime.rate import Rate
from webhook_inbox.telemetry import events

_BACKOFF_SECONDS_MAX = 5.0
_RESERVED_CONNECTIONS = 2
_LOSSES_MAX = 3
T = TypeVar("T")


class Worker:
    """
    Work for every endpoint of one inbox.

    Args:
        flows: Drives the runs.
        endpoints: Gives the endpoints to work for, asked anew each round.
        running: What all runs share.
        heartbeat: Holds the lease.
        settings: The inbox's.
    """

    def __init__(
        self,
        flows: AsyncFlows,
        *,
        endpoints: Callable[[], Sequence[EndpointPlan]],
        running: Running,
        heartbeat: Heartbeat,
        settings: Settings,
    ) -> None:
        self._flows = flows
        self._endpoints = endpoints
        self._running = running
        self._heartbeat = heartbeat
        self._settings = settings
        self._wakened = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._active: Counter[str] = Counter()
        self._alone: deque[tuple[EndpointPlan, Claim]] = deque()
        self._to_give_back: list[Claim] = []
        self._losses: Counter[int] = Counter()
        self._rates: dict[str, Rate] = {}
        self._reap_at = 0.0
        self.outcomes: Counter[RunOutcome] = Counter()

    def wake(self) -> None:
        """Look for due events now; from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._wakened.set)

    async def run(self, stop: asyncio.Event, *, drain: bool = False) -> None:
        """Work until *stop* is set; with *drain*, also end when nothing is due and nothing runs."""
        backoff = 0.0
        self._loop = asyncio.get_running_loop()
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                try:
                    claimed = await self._round()
                    backoff = 0.0
                    if drain and not claimed and not self._busy and not await self._anything_due():
                        return
                except Exception as error:  # noqa: BLE001 - whatever it is, a worker goes on by itself
                    backoff = min(_BACKOFF_SECONDS_MAX, backoff * 2 or 0.1)
                    shown = error if isinstance(error, InboxError) else describe(error)
                    events.WORKER_WAITS.log(self._running.worker, shown, round(backoff, 1))
                    claimed = 0
                if not claimed:
                    await self._rest(stopping, backoff or self._settings.poll_seconds)
        finally:
            stopping.cancel()
            await self._finish()

    @property
    def _busy(self) -> bool:
        return bool(self._tasks or self._alone or self._to_give_back)

    async def _round(self) -> int:
        worker_id = await self._lease()
        await self._give_back_left(worker_id)
        await self._reap_sometimes()
        if self._alone:
            if not self._tasks:
                endpoint, event = self._alone.popleft()
                self._start(endpoint, [event])
            return 0
        wanted = self._wanted()
        if not wanted:
            return 0
        claims = await self._transact(lambda: claim(wanted, worker_id, self._running.sql))
        self._begin(claims)
        return len(claims)

    async def _lease(self) -> WorkerId:
        """Hold a lease, a new one where there is none to trust: events of the old one are no longer ours."""
        held = self._heartbeat.held
        if held is not None:
            return held
        began_at = time.monotonic()
        worker_id = await self._transact(
            lambda: register(self._running.worker, self._heartbeat.seconds, self._running.sql)
        )
        self._heartbeat.began(worker_id, began_at)
        self._to_give_back.clear()
        return worker_id

    async def _give_back_left(self, worker_id: WorkerId) -> None:
        """Give back, without cost, what was claimed when the database went away."""
        claims = [each for each in self._to_give_back if each.worker_id == worker_id]
        if claims:
            to = self._running.processing(self._endpoints()[0])
            losses = max(self._losses[each.id] for each in claims)
            delay = min(_BACKOFF_SECONDS_MAX, losses * random.random())  # noqa: S311 - jitter, not a secret
            await self._transact(lambda: give_back(claims, to, retry_in_seconds=delay))
        self._to_give_back.clear()

    async def _reap_sometimes(self) -> None:
        if time.monotonic() < self._reap_at:
            return
        self._reap_at = time.monotonic() + max(0.5, self._heartbeat.seconds / 8)
        returned = await self._transact(lambda: reap(self._settings.crashes_max, self._running.sql))
        for each in returned:
            events.CLAIM_EXPIRED.log(each.endpoint, each.worker, json.dumps(each.event_id), each.state)

    def _wanted(self) -> list[Wanted]:
        endpoints = self._endpoints()
        slots = max(1, self._settings.connections_max - _RESERVED_CONNECTIONS)
        free = slots - len(self._tasks)
        wanted = []
        for endpoint in endpoints:
            share = max(1, min(endpoint.settings.concurrency_max, slots - (len(endpoints) - 1)))
            room = min(share - self._active[endpoint.name], free)
            limit = self._rate(endpoint).allowed(room * endpoint.settings.batch_events_max)
            if room > 0 and limit > 0:
                wanted.append(Wanted(endpoint=endpoint.name, limit=limit, hold_seconds=endpoint.hold_seconds))
        return wanted

    def _rate(self, endpoint: EndpointPlan) -> Rate:
        return self._rates.setdefault(endpoint.name, Rate(endpoint.settings.rate_per_second_max))

    def _begin(self, claims: Sequence[Claim]) -> None:
        plans = {endpoint.name: endpoint for endpoint in self._endpoints()}
        by_endpoint: dict[str, list[Claim]] = {}
        for each in claims:
            if each.solitary:
                self._alone.append((plans[each.event.endpoint], each))
            else:
                by_endpoint.setdefault(each.event.endpoint, []).append(each)
        for name, due in by_endpoint.items():
            self._rate(plans[name]).spend(len(due))
            for together in self._parted(plans[name], due):
                self._start(plans[name], together)

    def _parted(self, endpoint: EndpointPlan, due: list[Claim]) -> list[list[Claim]]:
        """
        One event a transaction while that is enough; more share one as the backlog grows. What lost its
        database runs apart.
        """
        slots = max(1, self._settings.connections_max - _RESERVED_CONNECTIONS)
        room = max(1, min(endpoint.settings.concurrency_max, slots) - self._active[endpoint.name])
        apart = [[each] for each in due if self._losses[each.id]]
        rest = [each for each in due if not self._losses[each.id]]
        size = max(1, min(endpoint.settings.batch_events_max, -(-len(rest) // room)))
        return apart + [rest[start : start + size] for start in range(0, len(rest), size)]

    def _start(self, endpoint: EndpointPlan, claims: list[Claim]) -> None:
        self._active[endpoint.name] += 1
        task = asyncio.create_task(self._run(endpoint, claims))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wakened.set()

    async def _run(self, endpoint: EndpointPlan, claims: list[Claim]) -> None:
        try:
            outcomes = await self._flows.run(run_claims(endpoint, claims, self._running))
            self.outcomes.update(outcomes)
            for each in claims:
                self._losses.pop(each.id, None)
        except StoreUnavailableError as error:
            await self._lost(endpoint, claims, error)
        except asyncio.CancelledError:
            self._to_give_back.extend(claims)
            raise
        except Exception as error:  # noqa: BLE001 - the lease sees to the events; the worker goes on
            events.RUN_UNEXPECTED.log(endpoint.name, describe(error))
        finally:
            self._active[endpoint.name] -= 1

    async def _lost(self, endpoint: EndpointPlan, claims: list[Claim], error: StoreUnavailableError) -> None:
        """
        Give *claims* back without cost: the database was away. Unless it is one event that loses it again and
        again: that one fails.
        """
        for each in claims:
            self._losses[each.id] += 1
        if len(claims) == 1 and self._losses[claims[0].id] >= _LOSSES_MAX:
            with contextlib.suppress(StoreUnavailableError):
                flow = fail_claim(endpoint, claims[0], error, 0.0, self._running)
                self.outcomes.update([await self._flows.run(flow)])
                return
        events.CLAIMS_GIVEN_BACK.log(endpoint.name, error, len(claims))
        self._to_give_back.extend(claims)

    async def _anything_due(self) -> bool:
        names = [endpoint.name for endpoint in self._endpoints()]
        seconds = await self._transact(lambda: next_due(names, self._running.sql))
        return seconds is not None and seconds <= 0

    async def _rest(self, stopping: asyncio.Task[bool], seconds: float) -> None:
        """Wait until there is something to do, at most *seconds*."""
        woken = asyncio.create_task(self._wakened.wait())
        try:
            await asyncio.wait({woken, stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        self._wakened.clear()

    async def _finish(self) -> None:
        """
        Finish what is under way, or give it back; all within ``stop_seconds_max``, even if the database never
        answers.
        """
        self._to_give_back.extend(event for _, event in self._alone)
        self._alone.clear()
        grace = self._settings.stop_seconds_max
        ends_at = time.monotonic() + grace
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=grace * 0.8)
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(
                asyncio.get_running_loop().time() + max(0.5, ends_at - time.monotonic())
            ):
                if self._tasks:
                    await asyncio.wait(set(self._tasks), timeout=grace * 0.1)
                await self._give_back_at_the_end()
        await asyncio.to_thread(self._heartbeat.stop, forget=True)

    async def _give_back_at_the_end(self) -> None:
        held = self._heartbeat.held
        if held is None:
            return
        try:
            await self._give_back_left(held)
        except InboxError as error:
            events.LEASE_LEFT.log(self._running.worker, error)

    async def _transact(self, plan: Callable[[], Plan[T]]) -> T:
        return await self._flows.run(_transacted(plan))


def _transacted(plan: Callable[[], Plan[T]]) -> Flow[T]:
    done: T = yield Transact(plan, None)
    return done
