"""Run a worker with its chores beside it, which end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from webhook_inbox.model.reconciled import Completeness, Reconciled
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.receiving import Receiving
from webhook_inbox.runtime.flows import AsyncFlows
from webhook_inbox.runtime.gauging import Gauging
from webhook_inbox.runtime.loops import Loop
from webhook_inbox.runtime.pruner import Pruner
from webhook_inbox.runtime.reconciler import Reconciler
from webhook_inbox.telemetry.registry import Metrics

L = TypeVar("L", bound=Loop)
Chore: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Beside(Generic[L]):
    """
    Run *loop*, and *chores* beside it.

    Args:
        loop: Runs until it is told to stop.
        chores: Each runs until it is cancelled, and deals with what goes wrong.
    """

    def __init__(self, loop: L, chores: Sequence[Chore]) -> None:
        self.loop = loop
        self._chores = chores

    def wake(self) -> None:
        """Wake the loop; from any thread."""
        self.loop.wake()

    async def run(self, stop: asyncio.Event, *, drain: bool = False) -> None:
        """Run the loop to its end; where it only drains, no chore is done."""
        chores = [] if drain else [asyncio.create_task(chore()) for chore in self._chores]
        try:
            await self.loop.run(stop, drain=drain)
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)


def worker_chores(
    flows: AsyncFlows,
    endpoints: Callable[[], Sequence[EndpointPlan]],
    inbox: Receiving,
    reconciled: Callable[[Reconciled | Completeness], None],
    metrics: Metrics,
) -> tuple[Chore, ...]:
    """
    Give what a worker does beside its work.

    Args:
        flows: The worker's own.
        endpoints: Gives the endpoints to work for.
        inbox: Takes in what never arrived.
        reconciled: Told what came of asking a provider.
        metrics: Told what is not settled.
    """
    pruner = Pruner(flows, endpoints=endpoints, sql=inbox.sql)
    reconciler = Reconciler(flows, endpoints=endpoints, inbox=inbox, told=reconciled)
    gauging = Gauging(flows, endpoints=endpoints, sql=inbox.sql, metrics=metrics)
    return pruner.run, reconciler.run, gauging.run
