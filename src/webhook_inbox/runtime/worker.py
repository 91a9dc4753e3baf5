"""
Work off what is due: claim, run, settle, until told to stop.

One round: hold a lease; take back what the dead left; claim as much as there are places for; start it;
rest until something happens. An idle round is one short transaction; while nothing is due, nothing is open.

*Fairness.* See ``runtime/places.py`` (P-FLOW).

*Limits.* What an operator sets at run time: see ``protocol/limits.py``.

*Alone.* An event under which a worker died is run when nothing else runs in this process and nothing else is held by
it, and nothing else is begun before it ends: if it kills again, it takes nobody with it, and nobody else is blamed.

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
from typing import Any, TypeVar

from webhook_inbox.drivers.failures import caused_by
from webhook_inbox.errors import HandlerFailedError, InboxError
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.failure import describe, shown
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import State
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import once
from webhook_inbox.protocol.lease import (
    ClaimsUnknownError,
    Wanted,
    look,
    make_partitions,
    reap,
)
from webhook_inbox.protocol.limits import claim
from webhook_inbox.protocol.process import RunOutcome, give_back
from webhook_inbox.protocol.run import Running, fail_claim, run_claims, told_dead
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.runtime.appetite import Appetite
from webhook_inbox.runtime.flows import AsyncFlows
from webhook_inbox.runtime.heartbeat import Heartbeat
from webhook_inbox.runtime.lease import Lease
from webhook_inbox.runtime.limits import Limits
from webhook_inbox.runtime.pace import Pace
from webhook_inbox.runtime.places import Part, Places
from webhook_inbox.telemetry import events
from webhook_inbox.telemetry.registry import Metrics

_BACKOFF_SECONDS_MAX = 5.0
_LOSSES_MAX = 3
_PARTITIONS_EVERY_SECONDS = 3600.0
T = TypeVar("T")


class Worker:
    """
    Work for every endpoint of one inbox.

    Args:
        flows: Drives the runs.
        endpoints: Gives the endpoints to work for, asked anew each round.
        running: What all runs share.
        heartbeat: Renews the lease.
        settings: The inbox's.
        metrics: Counts the runs.
    """

    def __init__(
        self,
        flows: AsyncFlows,
        *,
        endpoints: Callable[[], Sequence[EndpointPlan]],
        running: Running,
        heartbeat: Heartbeat,
        settings: Settings,
        metrics: Metrics,
    ) -> None:
        self._flows = flows
        self._metrics = metrics
        self._endpoints = endpoints
        self._running = running
        self._lease = Lease(heartbeat, self._transact, running.sql)
        self._settings = settings
        self._wakened = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ends_at: float | None = None
        self._pace = Pace()
        self._places = Places(settings.connections_max, self._pace)
        self._appetite = Appetite(self._places, self._pace)
        self._limits = Limits(settings.poll_seconds)
        self._runs_alone = False
        self._alone: deque[tuple[EndpointPlan, Claim]] = deque()
        self._to_give_back: list[Claim] = []
        self._losses: Counter[int] = Counter()
        self._reap_at = self._blames_at = self._partitions_at = 0.0
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
        stopping = asyncio.create_task(self._told(stop))
        try:
            while not stop.is_set():
                try:
                    # What ends while we look may let others of its key go first: then we look once more.
                    idle = not self._busy
                    claimed = await self._look(stopping)
                    backoff = 0.0
                    if drain and idle and not claimed and self._asked_all and not self._busy:
                        return
                except Exception as error:  # noqa: BLE001 - whatever it is, a worker goes on by itself
                    backoff = min(_BACKOFF_SECONDS_MAX, backoff * 2 or 0.1)
                    # Others may be cut off as we are, and come back later than we do.
                    self._blames_at = time.monotonic() + backoff + self._lease.seconds / 2
                    events.WORKER_WAITS.log(self._running.worker, shown(error), round(backoff, 1))
                    claimed = 0
                if not claimed:
                    await self._rest(stopping, backoff or self._pause_seconds)
        finally:
            stopping.cancel()
            await self._finish()

    @property
    def _busy(self) -> bool:
        return bool(self._tasks or self._alone or self._to_give_back or not self._places.empty)

    @property
    def _asked_all(self) -> bool:
        """Say whether nothing is due that a claim would not have brought."""
        return self._appetite.asked_all and not self._limits.held

    @property
    def _pause_seconds(self) -> float:
        """Give how long to wait for the next look: until the poll is due, or the next event of a bounded rate."""
        rates = (self._appetite.seconds_until_next, self._limits.seconds_until_next)
        return min([self._settings.poll_seconds, *filter(None, rates)])

    async def _told(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._ends_at = time.monotonic() + self._settings.stop_seconds_max

    async def _look(self, stopping: asyncio.Task[None]) -> int:
        """Do one round; told to stop, leave it to what is under way, as the database may not answer."""
        looking = asyncio.create_task(self._round())
        try:
            await asyncio.wait({looking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not looking.done():
                self._tasks.add(looking)
                looking.add_done_callback(self._looked)
        return looking.result() if looking.done() else 0

    def _looked(self, looking: asyncio.Task[int]) -> None:
        self._tasks.discard(looking)
        if not looking.cancelled() and (error := looking.exception()):
            events.LEASE_LEFT.log(self._running.worker, describe(error))

    async def _round(self) -> int:
        """Begin what can be begun; give the number of events claimed."""
        worker_id = await self._lease.hold()
        await self._give_back_left(worker_id)
        await self._reap_sometimes()
        await self._make_partitions_sometimes()
        self._fill()
        if self._alone or self._runs_alone:
            return 0
        wanted = self._appetite.wanted(self._endpoints(), self._limits.held)
        if not wanted:
            return 0
        claims = await self._claim(wanted, worker_id)
        if not claims and (everything := self._appetite.everything(wanted)):
            claims = await self._claim(everything, worker_id)
        await self._give_back_left(worker_id)
        self._fill()
        return len(claims)

    async def _claim(self, wanted: Sequence[Wanted], worker_id: WorkerId) -> Sequence[Claim]:
        """Claim and begin; an incarnation that may hold events that nobody here knows of is given up."""
        try:
            claims = await self._claimed(wanted, worker_id)
            self._begin(claims)
        except Exception as error:
            if isinstance(error, ClaimsUnknownError) or not isinstance(error, InboxError):
                self._lease.distrust(worker_id)
                self._places.clear()
                self._alone.clear()
            raise
        return claims

    async def _claimed(self, wanted: Sequence[Wanted], worker_id: WorkerId) -> Sequence[Claim]:
        limits, sql, looking = self._limits, self._running.sql, self._limits.look()
        claimed = await self._transact(lambda: claim(wanted, limits.names, worker_id, sql, looking=looking))
        limits.found([each.endpoint for each in wanted], claimed.waits)
        return claimed.claims

    async def _give_back_left(self, worker_id: WorkerId) -> None:
        """Give back, without cost, what was claimed when the database went away; what is locked, the next time."""
        given_up, self._to_give_back = self._to_give_back, []
        claims = [each for each in given_up if each.worker_id == worker_id]
        if not claims:
            return
        to = self._running.processing(self._endpoints()[0])
        losses = max(self._losses[each.id] for each in claims)
        delay = min(_BACKOFF_SECONDS_MAX, losses * random.random())  # noqa: S311 - jitter, not a secret
        left = frozenset(each.id for each in claims)
        try:
            left = await self._transact(lambda: give_back(claims, to, retry_in_seconds=delay))
        finally:
            self._to_give_back.extend(each for each in claims if each.id in left)

    async def _reap_sometimes(self) -> None:
        if time.monotonic() < self._reap_at:
            return
        self._reap_at = time.monotonic() + max(0.5, self._lease.seconds / 8)
        blaming = time.monotonic() >= self._blames_at
        returned = await self._transact(
            lambda: reap(self._settings.crashes_max, self._running.sql, blaming=blaming)
        )
        for each in returned:
            events.CLAIM_EXPIRED.log(each.endpoint, each.worker, json.dumps(each.event_id), each.state)
            if each.state is State.DEAD:
                told_dead(each.endpoint, each.event_id, "its workers died under it", self._running)

    async def _make_partitions_sometimes(self) -> None:
        if time.monotonic() < self._partitions_at:
            return
        self._partitions_at = time.monotonic() + _PARTITIONS_EVERY_SECONDS
        # Not allowed to, or somebody else is at it: nothing is lost by that, and `migrate` makes them, too.
        with contextlib.suppress(InboxError):
            await self._transact(lambda: make_partitions(self._running.sql))

    def _begin(self, claims: Sequence[Claim]) -> None:
        plans = {endpoint.name: endpoint for endpoint in self._endpoints()}
        self._appetite.took(tuple(plans.values()), claims)
        for name in {each.event.endpoint for each in claims}:
            endpoint = plans[name]
            due = [each for each in claims if each.event.endpoint == name]
            self._alone.extend((endpoint, each) for each in due if each.solitary)
            shared = [each for each in due if not each.solitary]
            self._places.add(endpoint, self._parted(endpoint, shared, len(plans)))
        if self._alone:  # whatever else is held when it kills the process would be a suspect
            self._to_give_back.extend(self._places.clear())
            while len(self._alone) > 1:
                self._to_give_back.append(self._alone.pop()[1])

    def _parted(self, endpoint: EndpointPlan, due: list[Claim], among: int) -> list[list[Claim]]:
        """Share out what was claimed, as much to a transaction as there may be. What lost its database runs apart."""
        apart = [[each] for each in due if self._losses[each.id]]
        rest = [each for each in due if not self._losses[each.id]]
        size = self._pace.events(endpoint)
        if not self._pace.fast(endpoint):
            size = max(1, min(size, -(-len(rest) // max(1, self._places.free(endpoint, among)))))
        return apart + [rest[start : start + size] for start in range(0, len(rest), size)]

    def _fill(self) -> None:
        """Begin what there is a place for; nothing beside an event that runs alone, nothing after the end."""
        if self._ends_at is not None:
            return
        if self._alone:
            if not self._tasks:
                endpoint, event = self._alone.popleft()
                self._places.occupy(endpoint)
                self._start(endpoint, Part([event]))
                self._runs_alone = True
            return
        while not self._runs_alone and (next_one := self._places.take(self._endpoints())):
            self._start(*next_one)

    def _start(self, endpoint: EndpointPlan, part: Part) -> None:
        task = asyncio.create_task(self._run(endpoint, part))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._runs_alone:
            self._runs_alone = False
            self._appetite.let_others()
        self._wakened.set()

    async def _run(self, endpoint: EndpointPlan, part: Part) -> None:
        started, claims, patient = time.monotonic(), part.claims, self._places.patient(endpoint, part)
        try:
            outcomes = await self._flows.run(run_claims(endpoint, claims, self._running, patient=patient))
            self._took(endpoint, part, outcomes, time.monotonic() - started)
        except asyncio.CancelledError:
            self._to_give_back.extend(claims)
            raise
        except InboxError as error:
            await self._lost(endpoint, claims, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the events are given back and the worker goes on
            events.RUN_UNEXPECTED.log(endpoint.name, describe(error))
            await self._lost(
                endpoint, claims, caused_by(error, HandlerFailedError("the run ended unexpectedly"))
            )
        finally:
            self._places.leave(endpoint)
            self._limits.ended(endpoint.name)

    def _took(
        self, endpoint: EndpointPlan, part: Part, outcomes: Sequence[RunOutcome], seconds: float
    ) -> None:
        """Take note of what *part* came to, and put back what it has left."""
        busy = []
        for each, outcome in zip(part.claims, outcomes, strict=True):
            if outcome is RunOutcome.BUSY:
                busy.append(each)
                continue
            self.outcomes[outcome] += 1
            self._metrics.ran(endpoint.name, outcome, each.event.received_at)
            self._losses.pop(each.id, None)
        self._pace.ran(endpoint, len(part.claims), seconds, busy=len(busy))
        if self._alone:  # as in _begin
            self._to_give_back.extend(busy)
        elif busy:
            self._places.put_back(endpoint, busy, part.left + 1)

    async def _lost(self, endpoint: EndpointPlan, claims: list[Claim], error: InboxError) -> None:
        """
        Give *claims* back without cost: the database was away, or somebody has locked the row. Unless it is one
        event that ends its run so again and again, while the database serves others: that one fails.
        """
        with contextlib.suppress(InboxError):
            await self._transact(lambda: look(self._running.sql))
            for each in claims:
                self._losses[each.id] += 1
        if len(claims) == 1 and self._losses[claims[0].id] >= _LOSSES_MAX:
            with contextlib.suppress(InboxError):
                flow = fail_claim(endpoint, claims[0], error, 0.0, self._running)
                self.outcomes.update([await self._flows.run(flow)])
                return
        events.CLAIMS_GIVEN_BACK.log(endpoint.name, error, len(claims))
        self._to_give_back.extend(claims)

    async def _rest(self, stopping: asyncio.Task[None], seconds: float) -> None:
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
        grace = self._settings.stop_seconds_max
        ends_at = self._ends_at = self._ends_at or time.monotonic() + grace
        await self._end_of(self._tasks, (ends_at - time.monotonic()) * 0.8)
        for task in self._tasks:
            task.cancel()
        await self._end_of(self._tasks, grace * 0.1)
        # A handler on a thread cannot be cancelled, a server that is silent does not let go: their connections are
        # cut, which rolls them back.
        self._flows.give_up()
        self._to_give_back.extend(event for _, event in self._alone)
        self._to_give_back.extend(self._places.clear())
        self._alone.clear()
        giving = asyncio.create_task(self._give_back_at_the_end())
        await self._end_of({giving}, max(0.5, ends_at - time.monotonic()))
        self._flows.give_up()
        await self._end_of({giving, *self._tasks}, 0.5)
        await self._lease.give_up()

    async def _end_of(self, tasks: set[asyncio.Task[Any]], seconds: float) -> None:
        if tasks:
            await asyncio.wait(set(tasks), timeout=max(0.0, seconds))

    async def _give_back_at_the_end(self) -> None:
        held = self._lease.held
        if held is None:
            return
        try:
            await self._give_back_left(held)
        except InboxError as error:
            events.LEASE_LEFT.log(self._running.worker, error)

    async def _transact(self, plan: Callable[[], Plan[T]]) -> T:
        return await self._flows.run(once(plan))
