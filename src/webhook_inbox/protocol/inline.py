"""
Run handlers in the request: one transaction holds the record, the effect and the mark, and a failure leaves nothing.

    hold the keys ──► prepare ──► record_one / record_batch
      503 when busy                5xx on any error: the redelivery is the retry (P-DUP)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from webhook_inbox.errors import (
    ConflictError,
    HandlerError,
    KeyBusyError,
    StatementError,
)
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.states import Outcome
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.enqueue import is_known
from webhook_inbox.protocol.flow import Flow, Hold, prepare, transact
from webhook_inbox.protocol.handlers import Kind
from webhook_inbox.protocol.receiving import Receiving, facts_of, report, where_of
from webhook_inbox.protocol.record import record_batch, record_one, set_aside, settled_by
from webhook_inbox.protocol.recording import Item, Recording, sort_key, unavailable_result
from webhook_inbox.protocol.work import not_yet
from webhook_inbox.telemetry import events


def record_inline(
    endpoint: EndpointPlan, items: list[Item], to: Recording, inbox: Receiving
) -> Flow[tuple[EventResult, ...] | Receipt]:
    """
    Record *items* with their effects.

    Returns:
        One result per item; or the receipt that asks the sender to come again, where a rival holds every key.

    Raises:
        InboxError: Nothing is stored, or the commit's fate is unknown.
    """
    settings = endpoint.settings
    keys = tuple(dict.fromkeys(item.arrival.key for item in sorted(items, key=_by_key)))
    held = yield Hold(keys, settings.duplicate_wait_seconds)
    free = [position for position, item in enumerate(items) if item.arrival.key in held]
    if len(free) < len(items):
        busy = tuple(key for key in keys if key not in held)
        seconds = settings.duplicate_wait_seconds
        events.EVENT_IN_FLIGHT.log(where_of(endpoint, busy), seconds, **facts_of(endpoint, busy))
    if not free:
        return answers.unavailable("key_busy", "the first copy is still in flight; send it again")
    recorded = yield from _run(endpoint, [items[position] for position in free], to, inbox)
    results = [unavailable_result(item.arrival, "the first copy is still in flight") for item in items]
    for position, result in zip(free, recorded, strict=True):
        results[position] = result
    return tuple(results)


def _run(
    endpoint: EndpointPlan, items: list[Item], to: Recording, inbox: Receiving
) -> Flow[Sequence[EventResult]]:
    if len(items) == 1:
        ready = yield from prepare_item(items[0], to)
        return [(yield from transact(lambda: record_one(ready, to), _kind(items)))]
    handlers = [handler for item in items for handler in item.handlers]
    if any(handler.prepare for handler in handlers) or len({handler.kind for handler in handlers}) > 1:
        # A prepare stage runs outside of every transaction, and def and async def run on different connections.
        return (yield from _run_one_by_one(endpoint, items, to, inbox))
    try:
        results: Sequence[EventResult] = yield from transact(lambda: record_batch(items, to), _kind(items))
    except (HandlerError, ConflictError, StatementError) as error:
        # One event took the whole transaction with it, and would again: it must not hold its mates (P-FLOW).
        events.BODY_SPLIT.log(endpoint.name, len(items), error.code, error)
        return (yield from _run_one_by_one(endpoint, items, to, inbox))
    for result in results:
        if result.outcome is Outcome.QUEUED:
            events.EVENT_SET_ASIDE.log(endpoint.name, json.dumps(result.event_id), result.reason)
    return results


def _run_one_by_one(
    endpoint: EndpointPlan, items: list[Item], to: Recording, inbox: Receiving
) -> Flow[Sequence[EventResult]]:
    results: dict[int, EventResult] = {}
    for position in sorted(range(len(items)), key=lambda position: _by_key(items[position])):
        item = items[position]
        try:
            results[position] = yield from _run_alone(endpoint, item, to, inbox)
        except KeyBusyError as error:
            results[position] = unavailable_result(item.arrival, str(error))
    return [results[position] for position in range(len(items))]


def _run_alone(endpoint: EndpointPlan, item: Item, to: Recording, inbox: Receiving) -> Flow[EventResult]:
    try:
        ready = yield from prepare_item(item, to)
        return (yield from transact(partial(record_one, ready, to), _kind([item])))
    except (HandlerError, StatementError) as error:
        report(endpoint, (item.arrival.key,), error, inbox)
        aside = set_aside(item, error)
        return (yield from transact(partial(record_one, aside, to), None))


def prepare_item(item: Item, to: Recording) -> Flow[Item]:
    """
    Run the prepare stages of *item*, unless it is a duplicate already; their verdict counts like the
    handler's own.
    """
    if not any(handler.prepare for handler in item.handlers):
        return item
    if (yield from transact(lambda: is_known(item.arrival, to), None)):
        return replace(item, prepared=(None,) * len(item.handlers))
    event = item.arrival.event(received_at=None, attempt=1)
    prepared = yield from prepare(item.handlers, event, to.handler_seconds_max)
    match prepared:
        case NotYet():
            raise not_yet(prepared)
        case Ignore() | GiveUp():
            return Item(settled_by(item.arrival, prepared))
        case _:
            return replace(item, prepared=prepared)


def _by_key(item: Item) -> tuple[str, ...]:
    return sort_key(item.arrival)


def _kind(items: Sequence[Item]) -> Kind | None:
    return next((handler.kind for item in items for handler in item.handlers), None)
