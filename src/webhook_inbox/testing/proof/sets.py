"""Hand events to a set-based handler at once, as a worker does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webhook_inbox.model.claim import Claim, Retry
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.batch import process_set
from webhook_inbox.protocol.enqueue import enqueue
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.lease import Wanted, claim, register
from webhook_inbox.protocol.process import Processing, RunOutcome
from webhook_inbox.protocol.recording import Item, Recording
from webhook_inbox.protocol.steps import Plan

_LEASE_SECONDS = 600.0
_WORKER = "proof"


@dataclass(frozen=True, slots=True)
class ItemSet:
    """Name events that share a set-based handler."""

    handler: Handler
    items: Sequence[Item]


def sets_of(items: Sequence[Item]) -> list[ItemSet]:
    """Give the largest sets that a worker could make of *items*: of one endpoint and one set-based handler."""
    found: list[ItemSet] = []
    for item in items:
        if not item.handlers[0].batch or any(item in known.items for known in found):
            continue
        alike = [other for other in items if _shared(item) == _shared(other)]
        found.append(ItemSet(item.handlers[0], alike))
    return found


def claimed(items: Sequence[Item], to: Recording) -> Plan[tuple[Claim, ...]]:
    """Record *items* for a worker, and claim them."""
    yield from enqueue([item.arrival for item in items], to)
    worker = yield from register(_WORKER, _LEASE_SECONDS, to.sql)
    endpoint = items[0].arrival.key.endpoint
    wanted = Wanted(endpoint=endpoint, limit=len(items), hold_seconds=_LEASE_SECONDS)
    return (yield from claim([wanted], worker, to.sql))


def running(handler: Handler, claims: Sequence[Claim], to: Recording) -> Plan[tuple[RunOutcome, ...]]:
    """Run *claims* as one set; what is done already is left alone."""
    processing = Processing(
        sql=to.sql,
        wait_seconds=to.wait_seconds,
        handler_seconds_max=to.handler_seconds_max,
        retry=Retry.of(Settings()),
        worker=_WORKER,
    )
    return (yield from process_set(handler, claims, processing))


def _shared(item: Item) -> tuple[str, str]:
    return item.arrival.key.endpoint, item.handlers[0].name
