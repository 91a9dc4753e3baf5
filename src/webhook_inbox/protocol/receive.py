"""
Receive one delivery: from bytes that nobody believes to an answer that is true.

    verify ──► identify ──► hold the keys ──► record_one / record_batch ──► receipt
      4xx       quarantine    503 when busy      5xx on any error: the redelivery is the retry (P-DUP)
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from webhook_inbox.errors import (
    ConflictError,
    HandlerError,
    HandlerNotYetError,
    InboxError,
    KeyBusyError,
    StatementError,
)
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event import EventKey
from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.secret import Secret
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Ask, Flow, Hold, Pause, Transact
from webhook_inbox.protocol.handlers import Kind
from webhook_inbox.protocol.items import dropped, item_of
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.record import record_batch, record_one, set_aside
from webhook_inbox.protocol.recording import Item, Recording, sort_key, unavailable_result
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.sources.source import Rejected
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry import events

_CONFLICT_RETRIES_MAX = 5
_CONFLICT_PAUSE_SECONDS = 0.05
T = TypeVar("T")


Report: TypeAlias = Callable[[str, BaseException], None]


@dataclass(slots=True, kw_only=True)
class Receiving:
    """
    Hold what all deliveries to one inbox share.

    Attributes:
        schema: The schema's name.
        sql: The statements, rendered for it.
        report: Called once with (endpoint name, exception) for each exception that made a delivery fail.
        schema_served: Whether this process has seen a schema that it can serve.
    """

    schema: str
    sql: Statements
    report: Report
    schema_served: bool = False


def receive(endpoint: EndpointPlan, delivery: Delivery, inbox: Receiving) -> Flow[Receipt]:
    """
    Take in one delivery.

    Returns:
        The receipt to send; this flow raises for nothing that a sender, a handler or the database causes (P-CALM).

    Promises: P-RAW, P-ACK, P-DUP, P-ONCE, P-STATE, P-CALM, P-QUIET.
    """
    try:
        return (yield from _receive(endpoint, delivery, inbox))
    except InboxError as error:
        return _failed(endpoint, (), error, inbox)


def _receive(endpoint: EndpointPlan, delivery: Delivery, inbox: Receiving) -> Flow[Receipt]:
    if refusal := _refusal(endpoint, delivery):
        return refusal
    secrets = yield from _secrets(endpoint, delivery)
    if not secrets:
        events.DELIVERY_REJECTED.log(endpoint.name, "secret_unknown")
        return answers.refused(400, "secret_unknown", "no signing secret is known for this delivery")
    verdict = endpoint.source.verify(delivery, secrets)
    if isinstance(verdict, Rejected):
        events.DELIVERY_REJECTED.log(endpoint.name, verdict.reason)
        return answers.rejected(verdict)
    if answer := endpoint.source.answer(delivery):
        return answers.handshake(answer)
    items = [
        item_of(endpoint, delivery, reading, verdict.label) for reading in endpoint.source.identify(delivery)
    ]
    if refusal := _refused_type(endpoint, items):
        return refusal
    results = dropped(endpoint, items)
    kept = [position for position in range(len(items)) if position not in results]
    if kept:
        recorded = yield from _record(endpoint, [items[position] for position in kept], inbox)
        if isinstance(recorded, Receipt):
            return recorded
        results |= dict(zip(kept, recorded, strict=True))
    return answers.accepted([results[position] for position in range(len(items))])


def _record(
    endpoint: EndpointPlan, items: list[Item], inbox: Receiving
) -> Flow[tuple[EventResult, ...] | Receipt]:
    """Give one result per item, or the receipt that asks the sender to come again."""
    settings = endpoint.settings
    keys = tuple(dict.fromkeys(item.arrival.key for item in sorted(items, key=_by_key)))
    held = yield Hold(keys, settings.duplicate_wait_seconds)
    free = [position for position, item in enumerate(items) if item.arrival.key in held]
    if len(free) < len(items):
        busy = tuple(key for key in keys if key not in held)
        events.EVENT_IN_FLIGHT.log(_where(endpoint, busy), settings.duplicate_wait_seconds)
    if not free:
        return answers.unavailable("key_busy", "the first copy is still in flight; send it again")
    if not inbox.schema_served:
        yield Transact(lambda: check_schema(inbox.schema), None)
        inbox.schema_served = True
    to = Recording(
        sql=inbox.sql,
        wait_seconds=settings.duplicate_wait_seconds,
        handler_seconds_max=settings.handler_seconds_max,
    )
    try:
        recorded = yield from _run(endpoint, [items[position] for position in free], to, inbox)
    except InboxError as error:
        return _failed(endpoint, keys, error, inbox)
    results = [unavailable_result(item.arrival, "the first copy is still in flight") for item in items]
    for position, result in zip(free, recorded, strict=True):
        results[position] = result
    return tuple(results)


def _run(
    endpoint: EndpointPlan, items: list[Item], to: Recording, inbox: Receiving
) -> Flow[Sequence[EventResult]]:
    if len(items) == 1:
        return [(yield from _transact(lambda: record_one(items[0], to), _kind(items)))]
    try:
        results: Sequence[EventResult] = yield from _transact(lambda: record_batch(items, to), _kind(items))
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
            results[position] = yield from _transact(partial(record_one, item, to), _kind([item]))
        except KeyBusyError as error:
            results[position] = unavailable_result(item.arrival, str(error))
        except (HandlerError, StatementError) as error:
            _report(endpoint, (item.arrival.key,), error, inbox)
            aside = set_aside(item, error)
            results[position] = yield from _transact(partial(record_one, aside, to), None)
    return [results[position] for position in range(len(items))]


def _by_key(item: Item) -> tuple[str, ...]:
    return sort_key(item.arrival)


def _kind(items: Sequence[Item]) -> Kind | None:
    return next((handler.kind for item in items for handler in item.handlers), None)


def _transact(plan: Callable[[], Plan[T]], kind: Kind | None) -> Flow[T]:
    """
    Run *plan* again at once, a bounded number of times, where the server chose it as a deadlock's or serialization's
    victim.
    """
    for attempt in range(1, _CONFLICT_RETRIES_MAX + 1):
        try:
            done: T = yield Transact(plan, kind)
        except ConflictError:
            if attempt == _CONFLICT_RETRIES_MAX:
                raise
            yield Pause(random.uniform(0, _CONFLICT_PAUSE_SECONDS * 2**attempt))  # noqa: S311 - jitter, not a secret
        else:
            return done
    raise AssertionError("unreachable")


def _refusal(endpoint: EndpointPlan, delivery: Delivery) -> Receipt | None:
    if delivery.method != "POST" and delivery.method not in endpoint.source.methods:
        return answers.wrong_method(endpoint.source.methods)
    if len(delivery.body) > endpoint.body_bytes_max:
        return answers.body_too_large(endpoint.body_bytes_max)
    return None


def _secrets(endpoint: EndpointPlan, delivery: Delivery) -> Flow[tuple[Secret, ...]]:
    given = endpoint.given_secrets()
    if not callable(given):
        return given
    answer = yield Ask(given, delivery)
    if answer is None or (isinstance(answer, Sized) and not isinstance(answer, str) and not len(answer)):
        return ()  # whoever names a tenant that does not exist is a stranger, and no reason for a 5xx (P-CALM)
    return endpoint.checked_secrets(answer)


def _refused_type(endpoint: EndpointPlan, items: list[Item]) -> Receipt | None:
    """An older release must not swallow a type that the newer one knows: nothing of the body is stored."""
    unhandled = [item.arrival.event_type for item in items if item.unhandled]
    if endpoint.unhandled != "refuse" or not unhandled:
        return None
    events.TYPE_REFUSED.log(endpoint.name, json.dumps(unhandled[0]))
    return answers.unavailable("no_handler", "no handler for this type in this release; send it again")


def _failed(
    endpoint: EndpointPlan, keys: tuple[EventKey, ...], error: InboxError, inbox: Receiving
) -> Receipt:
    _report(endpoint, keys, error, inbox)
    return answers.failed(error)


def _report(endpoint: EndpointPlan, keys: tuple[EventKey, ...], error: InboxError, inbox: Receiving) -> None:
    """Log what went wrong, once, without what the exception says, and tell the user's hook (P-QUIET)."""
    where = _where(endpoint, keys)
    match error:
        case HandlerNotYetError():
            events.NOT_YET.log(where, error.retry_in_seconds)
            return
        case KeyBusyError():
            events.EVENT_IN_FLIGHT.log(where, endpoint.settings.duplicate_wait_seconds)
            return
        case HandlerError() if error.__cause__ is not None:
            failure = describe(error)
            events.HANDLER_FAILED.log(where, error.code, failure, "\n  ".join(failure.frames))
        case _:
            events.DELIVERY_FAILED.log(where, error.code, error)
    inbox.report(endpoint.name, error.__cause__ or error)


def _where(endpoint: EndpointPlan, keys: Sequence[EventKey]) -> str:
    if not keys:
        return f"endpoint {endpoint.name}"
    shown = json.dumps(keys[0].event_id) if len(keys) == 1 else f"one of {len(keys)}"
    return f"endpoint {endpoint.name}, event {shown}"
