"""
Bring messages to one destination: claim, send, settle, until told to stop.

Each destination has a lane of its own, so one that is slow or down delays nobody else's messages (P-FLOW). A round
settles what has come back, claims as much as may be under way, and rests until something happens. Sends run beside the
rounds, and what comes back while one is under way is settled by the next, together.

    claim (a transaction) ──► send (none is open, P-OUT) ──► settle (a transaction, under the token: P-FENCE)
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence

from webhook_inbox.destinations.destination import Destination
from webhook_inbox.errors import InboxError
from webhook_inbox.model.claim import WorkerId
from webhook_inbox.model.failure import describe, shown
from webhook_inbox.model.message import NOT_TRIED, Failed, SendState, Sent, Verdict
from webhook_inbox.model.routing import Outlet
from webhook_inbox.protocol.lease import ClaimsUnknownError
from webhook_inbox.protocol.probe import Probe
from webhook_inbox.protocol.relay import Claimed, Relaying, Settled, claim_messages, settle_messages
from webhook_inbox.runtime.breaker import Breaker
from webhook_inbox.runtime.lease import Lease, Transact
from webhook_inbox.runtime.rest import Rest
from webhook_inbox.runtime.sending import parted, send
from webhook_inbox.telemetry import events, relay_events
from webhook_inbox.telemetry.registry import Metrics

_CLAIM_LIMIT = 1_000
_OPEN_SECONDS_MAX = 30.0
_BACKOFF_SECONDS_MAX = 5.0


class Lane:
    """
    Bring messages to one destination.

    Args:
        outlet: What it is called, and what it can take.
        destination: Sends.
        to: What the plans need.
        transact: Runs a plan.
        lease: Holds the relay's lease.
        rest: Says how long to wait for the next look.
        probe: Told the fault points before and after each send.
        metrics: Counts sends.
    """

    def __init__(
        self,
        outlet: Outlet,
        destination: Destination,
        *,
        to: Relaying,
        transact: Transact,
        lease: Lease,
        rest: Rest,
        probe: Probe,
        metrics: Metrics,
    ) -> None:
        self._outlet = outlet
        self._destination = destination
        self._to = to
        self._transact = transact
        self._lease = lease
        self._rest = rest
        self._probe = probe
        self._metrics = metrics
        self._breaker = Breaker(time.monotonic)
        self._opened = False
        self._stopping = False
        self._sending: set[asyncio.Task[None]] = set()
        self._came_back: list[tuple[Claimed, Verdict]] = []
        self.outcomes: Counter[SendState] = Counter()

    def wake(self) -> None:
        """Look for due messages now."""
        self._rest.wake()

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping = True
        self._rest.wake()

    async def run(self, *, drain: bool = False) -> None:
        """Work until told to stop; with *drain*, until nothing is due that can be sent, and nothing is under way."""
        backoff = 0.0
        while True:
            idle = not self._busy
            try:
                claimed = await self._round()
                backoff = 0.0
            except Exception as error:  # noqa: BLE001 - whatever it is, a lane goes on by itself
                relay_events.RELAY_WAITS.log(self._outlet.name, shown(error))
                if self._stopping:
                    return
                claimed, idle, backoff = 0, False, min(_BACKOFF_SECONDS_MAX, backoff * 2 or 0.1)
            # What ends while we look may let others of its key go first: then we look once more.
            if (
                not claimed
                and not self._busy
                and (drain or self._stopping)
                and (idle or self._breaker.seconds_left)
            ):
                return
            if not claimed:
                await self._rest.wait(max(backoff, self._breaker.seconds_left))

    async def finish(self, seconds: float) -> None:
        """Give up what is still being sent, settle what has come back, give the rest back; within *seconds*."""
        for task in tuple(self._sending):
            task.cancel()
        ends_at = asyncio.get_running_loop().time() + seconds
        if self._sending:  # not for one that will not be cancelled: it is the lease's to give that back
            await asyncio.wait(self._sending, timeout=seconds / 2)
        try:
            async with asyncio.timeout_at(ends_at):
                await self._settle()
        except (InboxError, TimeoutError) as error:
            said = error if isinstance(error, InboxError) else "the database did not answer in time"
            events.LEASE_LEFT.log(self._lease.name, said)
        await self._close()

    async def _round(self) -> int:
        """Settle, claim and begin to send; give the number of messages that were claimed."""
        worker_id = await self._lease.hold()
        await self._settle()
        room = self._room
        if not room or not await self._ready():
            return 0
        claims = await self._claim(room, worker_id)
        for batches in parted(claims, self._outlet.limits.batch_messages_max):
            self._start(batches)
        if claims:
            self._rest.found()
        return len(claims)

    @property
    def _busy(self) -> bool:
        return bool(self._sending or self._came_back)

    @property
    def _room(self) -> int:
        """Give how many messages may be claimed now."""
        if self._stopping or self._breaker.seconds_left:
            return 0
        if self._breaker.trying:
            return 0 if self._sending else 1
        limits = self._outlet.limits
        return min(_CLAIM_LIMIT, (limits.batches_max - len(self._sending)) * limits.batch_messages_max)

    async def _ready(self) -> bool:
        """Open the destination where it is not; say whether it is."""
        if self._opened:
            return True
        if self._sending:  # on what is to be closed
            return False
        await self._close()
        try:
            async with asyncio.timeout(_OPEN_SECONDS_MAX):
                await self._destination.open()
        except Exception as error:  # noqa: BLE001 - whatever a client raises, it is not there
            self._tell_opened(str(describe(error)), self._breaker.open())
            return False
        self._opened = True
        return True

    async def _claim(self, room: int, worker_id: WorkerId) -> Sequence[Claimed]:
        try:
            trial = self._breaker.trying
            return await self._transact(
                lambda: claim_messages(self._outlet, room, worker_id, self._to, trial=trial)
            )
        except ClaimsUnknownError:
            self._lease.distrust(worker_id)
            raise

    def _start(self, batches: Sequence[Sequence[Claimed]]) -> None:
        task = asyncio.create_task(self._send(batches))
        self._sending.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._rest.wake()

    async def _send(self, batches: Sequence[Sequence[Claimed]]) -> None:
        """Send *batches*, one after the other; what is not sent when this is cancelled, has not been tried."""
        left = deque(batches)
        try:
            while left:
                verdicts: Sequence[Verdict] = [NOT_TRIED] * len(left[0])
                try:
                    if self._may_send(left[0]):
                        self._probe("send.before")
                        verdicts, self._opened = await send(self._destination, left[0])
                        self._probe("send.after")
                finally:
                    self._came_back.extend(zip(left.popleft(), verdicts, strict=True))
        finally:
            self._came_back.extend((claimed, NOT_TRIED) for claims in left for claimed in claims)

    def _may_send(self, claims: Sequence[Claimed]) -> bool:
        """Say whether *claims* are still ours, and the destination as it was when they were claimed."""
        ours = self._lease.held == claims[0].worker_id
        return ours and self._opened and not self._stopping and not self._breaker.seconds_left

    async def _settle(self) -> None:
        """Settle what has come back; what cannot be settled now is kept for the next round."""
        ready, self._came_back = self._came_back, []
        by_worker: dict[WorkerId, list[tuple[Claimed, Verdict]]] = {}
        for claimed, verdict in ready:
            by_worker.setdefault(claimed.worker_id, []).append((claimed, verdict))
        takes_others = self._breaker.confirms
        try:
            while by_worker:
                worker_id, verdicts = next(iter(by_worker.items()))
                settled = await self._transact(
                    lambda: settle_messages(self._outlet, verdicts, self._to, takes_others=takes_others)  # noqa: B023 - run at once
                )
                del by_worker[worker_id]
                self._tell(settled)
        finally:
            self._came_back.extend(each for left in by_worker.values() for each in left)
        tried = [verdict for _, verdict in ready if verdict is not NOT_TRIED]
        seconds = self._breaker.take(tried)
        self._metrics.breaker(self._outlet.name, is_open=self._breaker.trying)
        if seconds:
            reasons = [verdict.reason for verdict in tried if isinstance(verdict, Failed)]
            self._tell_opened(reasons[-1], seconds)

    def _tell(self, settled: Sequence[Settled]) -> None:
        for each in settled:
            message = each.claimed.message
            if each.state is None:
                relay_events.SEND_LOST.log(self._outlet.name, message.id, attempt=message.attempt)
                continue
            self.outcomes[each.state] += 1
            self._metrics.sent(self._outlet.name, each.state)
            if isinstance(each.verdict, Sent):
                relay_events.MESSAGE_SENT.log(self._outlet.name, message.id, attempt=message.attempt)
            elif each.state is SendState.DEAD:
                relay_events.MESSAGE_DEAD.log(
                    self._outlet.name, message.id, each.verdict.reason, attempt=message.attempt
                )
            elif each.verdict.reason and not each.verdict.stop:
                relay_events.SEND_FAILED.log(
                    self._outlet.name, message.id, message.attempt, each.verdict.reason
                )

    def _tell_opened(self, reason: str, seconds: float) -> None:
        self._metrics.breaker(self._outlet.name, is_open=True)
        relay_events.DESTINATION_DOWN.log(
            self._outlet.name, self._destination.place, reason, round(seconds, 1)
        )

    async def _close(self) -> None:
        self._opened = False
        try:
            async with asyncio.timeout(1.0):
                await self._destination.close()
        except Exception as error:  # noqa: BLE001 - it shall not raise; nothing depends on it
            relay_events.DESTINATION_UNCLOSED.log(self._outlet.name, describe(error))
