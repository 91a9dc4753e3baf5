"""Forget what has come of age, once an hour, beside a worker and on its connections; see ``protocol/prune.py``."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from functools import partial

from webhook_inbox.model.failure import shown
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import once
from webhook_inbox.protocol.prune import Position, Pruned, Retention, prune_step
from webhook_inbox.runtime.flows import AsyncFlows
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry import events

EVERY_SECONDS = 3600.0
# Not at once: a process that is started has better things to do, and several are often started together.
FIRST_SECONDS_MAX = 600.0


class Pruner:
    """
    Forget what is old, once an hour.

    Args:
        flows: Drives the plans; the worker's own.
        endpoints: Gives the endpoints, whose settings say how long what is kept; asked anew each time.
    """

    def __init__(
        self, flows: AsyncFlows, *, endpoints: Callable[[], Sequence[EndpointPlan]], sql: Statements
    ) -> None:
        self._flows = flows
        self._endpoints = endpoints
        self._sql = sql

    async def run(self) -> None:
        """Forget every hour, until cancelled."""
        seconds = FIRST_SECONDS_MAX * random.random()  # noqa: S311 - jitter, not a secret
        while True:
            await asyncio.sleep(seconds)
            seconds = EVERY_SECONDS
            try:
                await self._prune()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next hour tries again
                events.PRUNE_FAILED.log(shown(error))

    async def _prune(self) -> None:
        """Walk once; rest after each step for as long as it took, so that it takes no more than half of a session."""
        retentions = [Retention.of(plan) for plan in self._endpoints()]
        position, done = Position(), Pruned()
        while position.stage != "done":
            began_at, at = time.monotonic(), position
            step, position = await self._flows.run(once(partial(prune_step, retentions, at, self._sql)))
            done += step
            await asyncio.sleep(time.monotonic() - began_at)
        if done != Pruned():
            events.PRUNED.log(len(done.days), done.bodies, done.events)
