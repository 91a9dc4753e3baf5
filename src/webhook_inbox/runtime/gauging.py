"""Measure, beside a worker and on its connections, what is not settled; for whoever looks at the metrics."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial

from webhook_inbox.model.states import State
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import once
from webhook_inbox.protocol.status import UNPROCESSED, read_endpoints
from webhook_inbox.runtime.flows import AsyncFlows
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry.registry import Metrics

# A process that is started has better things to do.
FIRST_SECONDS = 5.0
EVERY_SECONDS = 30.0
# Of the time at most: to count a large backlog takes long, and takes a connection.
_SHARE = 0.1
_STATES = (*UNPROCESSED, State.DEAD, State.QUARANTINED)


class Gauging:
    """
    Measure the backlog every ``EVERY_SECONDS``.

    Args:
        flows: Drives the plan; the worker's own.
        endpoints: Gives the endpoints; asked anew each time. One without unsettled events is told of, too.
        sql: The statements, rendered for the inbox's schema.
        metrics: Told what is found.
    """

    def __init__(
        self,
        flows: AsyncFlows,
        *,
        endpoints: Callable[[], Sequence[EndpointPlan]],
        sql: Statements,
        metrics: Metrics,
    ) -> None:
        self._flows = flows
        self._endpoints = endpoints
        self._sql = sql
        self._metrics = metrics
        self._known: dict[str, None] = {}

    async def run(self) -> None:
        """Measure until cancelled; a database that is away is told of by the worker, which needs it more."""
        await asyncio.sleep(FIRST_SECONDS)
        while True:
            began_at = time.monotonic()
            with contextlib.suppress(Exception):
                await self._measure()
            await asyncio.sleep(max(EVERY_SECONDS, (time.monotonic() - began_at) / _SHARE))

    async def _measure(self) -> None:
        found = {
            each.endpoint: each for each in await self._flows.run(once(partial(read_endpoints, self._sql)))
        }
        self._known |= dict.fromkeys((*(plan.name for plan in self._endpoints()), *found))
        for name in self._known:
            backlog = found.get(name)
            counts = {state: backlog.count(state) if backlog else 0 for state in _STATES}
            self._metrics.unsettled(name, counts, backlog.oldest_seconds if backlog else None)
