"""
Record now and run later: queued endpoints leave the run to a worker, hybrid ones begin it at once in the request.

    queued:  enqueue ──► 200; a worker claims and runs
    hybrid:  record_leased ──► the ordinary run, as long as the answer may wait ──► 200; a worker takes over
        where it fails
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace

from webhook_inbox.errors import ConfigurationError, InboxError
from webhook_inbox.model.arrival import Arrival
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.enqueue import record_leased
from webhook_inbox.protocol.flow import Acknowledge, Enqueue, Flow, Transact, transact
from webhook_inbox.protocol.lease import ClaimsUnknownError, register
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.protocol.receiving import Receiving
from webhook_inbox.protocol.recording import Item, Recording, outcome_of
from webhook_inbox.protocol.run import run_claim
from webhook_inbox.telemetry import events


def record_queued(endpoint: EndpointPlan, items: list[Item], to: Recording) -> Flow[tuple[EventResult, ...]]:
    """
    Record *items* for the worker; one result per item, all committed (P-ACK).

    Raises:
        InboxError: Nothing is stored, or the commit's fate is unknown.
    """
    revive = endpoint.redelivered_dead == "revive"
    results: tuple[EventResult, ...] = yield Enqueue(queued(endpoint, items), to, revive)
    return results


def record_hybrid(
    endpoint: EndpointPlan, arrival: Arrival, inbox: Receiving, to: Recording
) -> Flow[tuple[EventResult, ...]]:
    """
    Record one event born claimed, and run it at once; the caller is answered by then or when its patience ends.

    Raises:
        InboxError: Nothing is stored, or the commit's fate is unknown.
    """
    worker_id = inbox.lease.held
    if worker_id is None:
        seconds, former = inbox.lease.seconds, inbox.lease.former
        began_at = time.monotonic()
        worker_id = yield Transact(
            lambda: register(inbox.lease.name, seconds, inbox.sql, instead_of=former), None
        )
        worker_id = inbox.lease.began(worker_id, began_at)
    held = worker_id
    revive = endpoint.redelivered_dead == "revive"
    try:
        recorded = yield from transact(lambda: record_leased(arrival, held, to, revive=revive), None)
    except (ClaimsUnknownError, GeneratorExit):
        # It may be committed: claimed by this process, which does not know of it, for as long as it keeps its lease.
        inbox.lease.distrust(held)
        raise
    if isinstance(recorded, EventResult):
        return (recorded,)
    yield Acknowledge(_leased(arrival))
    try:
        outcome = yield from run_claim(endpoint, recorded, inbox.running)
    except InboxError as error:
        # Recorded and committed: ours to retry, whatever this run met.
        events.CLAIMS_GIVEN_BACK.log(endpoint.name, error, 1)
        inbox.lease.give_back_later(recorded, inbox.running.processing(endpoint))
        return (_leased(arrival),)
    except GeneratorExit:  # this process stops, or met a defect
        inbox.lease.give_back_later(recorded, inbox.running.processing(endpoint))
        raise
    return (_ran(arrival, outcome),)


def _leased(arrival: Arrival) -> EventResult:
    return EventResult(outcome=Outcome.QUEUED, event_id=arrival.key.event_id, state=State.LEASED)


def _ran(arrival: Arrival, outcome: RunOutcome) -> EventResult:
    """Answer by where the event stands: recorded in any case, so a failure is ours to retry."""
    state = State.RETRYING if outcome in {RunOutcome.LEASE_LOST, RunOutcome.NOT_RUN} else State(outcome)
    return EventResult(outcome=outcome_of(state), event_id=arrival.key.event_id, state=state)


def queued(endpoint: EndpointPlan, items: Sequence[Item]) -> tuple[Arrival, ...]:
    """Give the arrivals as the worker will find them: with their bytes, and the key of the order that they keep."""
    return tuple(_deferred(endpoint, item) for item in items)


def _deferred(endpoint: EndpointPlan, item: Item) -> Arrival:
    ordered = bool(item.handlers) and endpoint.order_by is not None
    if item.arrival.keep_body and not ordered:
        return item.arrival
    order_key = _order_key(endpoint, item.arrival) if ordered else None
    return replace(item.arrival, keep_body=True, order_key=order_key)


def _order_key(endpoint: EndpointPlan, arrival: Arrival) -> str | None:
    """An event that the user's function cannot place is recorded without a place: nothing authentic is refused."""
    try:
        return endpoint.order_key(arrival.event(received_at=None, attempt=0))
    except ConfigurationError as error:
        events.ORDER_KEY_FAILED.log(endpoint.name, json.dumps(arrival.key.event_id), error)
        return None
