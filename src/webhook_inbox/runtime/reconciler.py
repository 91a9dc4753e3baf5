"""Ask providers for what never arrived, now and then, beside a worker; see ``protocol/reconcile.py``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial

from webhook_inbox.model.failure import shown
from webhook_inbox.model.reconciled import Completeness, Reconciled
from webhook_inbox.protocol.asking import Asker
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import once
from webhook_inbox.protocol.receiving import Receiving
from webhook_inbox.protocol.reconcile import Question, reconcile
from webhook_inbox.protocol.walks import Span, list_walks
from webhook_inbox.runtime.asking import ask
from webhook_inbox.runtime.flows import AsyncFlows
from webhook_inbox.telemetry.reconcile_events import (
    RECONCILE_FAILED,
    RECONCILE_INCOMPLETE,
    RECONCILED,
)

# Several processes look at the same clock, so each looks at its own time.
LOOK_SECONDS_MAX = 60.0
_SECONDS_AN_HOUR = 3_600.0


class Reconciler:
    """
    Reconcile each endpoint every ``reconcile_hours``, in one process of all.

    Args:
        flows: Drives the flows; the worker's own.
        endpoints: Gives the endpoints; asked anew each time.
        inbox: Takes in what is found.
        told: Told what came of each run, and at each look until when everything is here.
        asker: Makes a request.
    """

    def __init__(
        self,
        flows: AsyncFlows,
        *,
        endpoints: Callable[[], Sequence[EndpointPlan]],
        inbox: Receiving,
        told: Callable[[Reconciled | Completeness], None],
        asker: Asker = ask,
    ) -> None:
        self._flows = flows
        self._endpoints = endpoints
        self._inbox = inbox
        self._told = told
        self._asker = asker
        self._unfinished: set[str] = set()

    async def run(self) -> None:
        """Look every minute whether it is time, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS_MAX * random.uniform(0.5, 1))  # noqa: S311 - jitter, not a secret
            for endpoint in self._endpoints():
                if endpoint.source.listing is not None and endpoint.settings.reconcile_hours:
                    await self._look(endpoint)

    async def _look(self, endpoint: EndpointPlan) -> None:
        try:
            walks = await self._flows.run(once(partial(list_walks, self._inbox.schema)))
            mine = [each for each in walks if each.endpoint == endpoint.name]
            period = endpoint.settings.reconcile_hours * _SECONDS_AN_HOUR
            self._told(Completeness.of(endpoint.name, mine, asked_seconds=2 * period))
            due = all(each.ended_seconds is None or each.ended_seconds >= period for each in mine)
            if not due and endpoint.name not in self._unfinished:
                return
            question = Question(endpoint=endpoint, span=Span(scheduled=True), asker=self._asker)
            done = await self._flows.run(reconcile(question, self._inbox))
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look tries again
            RECONCILE_FAILED.log(endpoint.name, shown(error))
            return
        self._unfinished.discard(endpoint.name)
        if done.goes_on:
            self._unfinished.add(endpoint.name)
        self._told(done)
        self._log(done)

    def _log(self, done: Reconciled) -> None:
        if all(walk.busy for walk in done.walks):
            return  # another process tells of it
        tally = done.tally
        if done.good:
            RECONCILED.log(done.endpoint, tally.seen, tally.recovered)
            return
        reasons = [walk.error for walk in done.walks if walk.error and not walk.busy]
        reasons += [unfit.reason for walk in done.walks for unfit in walk.unfit]
        reasons += [
            "what is older than the provider keeps" for walk in done.walks if walk.out_of_reach_seconds
        ]
        RECONCILE_INCOMPLETE.log(
            done.endpoint, tally.recovered, tally.failed, tally.out_of_reach, next(iter(reasons), "unknown")
        )
