"""
Receive one delivery: from bytes that nobody believes to an answer that is true.

A *flow* is to plans what a plan is to steps: written once, it asks for what must be waited for and never waits itself.
The runtime drives it on threads or on an event loop.

    verify ──► identify ──► hold the keys ──► record_one / record_batch ──► receipt
      4xx       quarantine    503 when busy      5xx on any error: the redelivery is the retry (P-DUP)
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from webhook_inbox.errors import ConflictError, HandlerError, HandlerNotYetError, InboxError
from webhook_inbox.model.arrival import Arrival
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event import EventKey
from webhook_inbox.model.failure import describe
from webhook_inbox.model.headers import SECRET_HEADERS
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.secret import Secret
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.handlers import Kind
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.record import Item, Recording, record_batch, record_one
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.protocol.tx import json_text
from webhook_inbox.sources.source import Reading, Rejected, Unreadable
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry import events

_CONFLICT_RETRIES_MAX = 5
_CONFLICT_PAUSE_SECONDS = 0.05
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """Call the user's *function* with *argument*, awaiting its answer where it is awaitable."""

    function: Callable[..., object]
    argument: object


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold *keys* within this process until the flow ends; gives False where a rival kept one for *seconds*."""

    keys: tuple[EventKey, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Transact:
    """Run a fresh plan on a connection; *kind* says which sort of handlers it runs, None: none."""

    plan: Callable[[], Plan[Any]]
    kind: Kind | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


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


FlowStep: TypeAlias = Ask | Hold | Transact | Pause
Flow: TypeAlias = Generator[FlowStep, Any, T]


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
    verdict = endpoint.source.verify(delivery, secrets)
    if isinstance(verdict, Rejected):
        events.DELIVERY_REJECTED.log(endpoint.name, verdict.reason)
        return answers.rejected(verdict)
    if answer := endpoint.source.answer(delivery):
        return answers.handshake(answer)
    items = [
        _item(endpoint, delivery, reading, verdict.label) for reading in endpoint.source.identify(delivery)
    ]
    if refusal := _refused_type(endpoint, items):
        return refusal
    results = _dropped(endpoint, items)
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
    keys = tuple(sorted({item.arrival.key for item in items}, key=lambda key: tuple(key.columns.values())))
    if not (yield Hold(keys, settings.duplicate_wait_seconds)):
        events.EVENT_IN_FLIGHT.log(endpoint.name, _shown(keys), settings.duplicate_wait_seconds)
        return answers.unavailable("key_busy", "the first copy is still in flight; send it again")
    if not inbox.schema_served:
        yield Transact(lambda: check_schema(inbox.schema), None)
        inbox.schema_served = True
    to = Recording(
        sql=inbox.sql,
        wait_seconds=settings.duplicate_wait_seconds,
        handler_seconds_max=settings.handler_seconds_max,
    )
    kind = next((handler.kind for item in items for handler in item.handlers), None)
    try:
        if len(items) == 1:
            return ((yield from _transact(lambda: record_one(items[0], to), kind)),)
        return (yield from _transact(lambda: record_batch(items, to), kind))
    except InboxError as error:
        return _failed(endpoint, keys, error, inbox)


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
    return endpoint.checked_secrets(answer)


def _item(endpoint: EndpointPlan, delivery: Delivery, reading: Reading, label: str) -> Item:
    body = delivery.body if reading.span is None else delivery.body[slice(*reading.span)]
    headers = delivery.headers.without(SECRET_HEADERS | endpoint.source.secret_headers)
    provider = endpoint.source.provider
    if isinstance(reading, Unreadable):
        arrival = Arrival(
            key=EventKey(provider=provider, endpoint=endpoint.name, account="", environment="", event_id=""),
            event_type="",
            body=body,
            headers=headers,
            secret_label=label,
            settled=State.QUARANTINED,
            reason=reading.reason,
        )
        return Item(arrival.under_digest())
    handlers = () if reading.ignore else endpoint.handlers.matching(reading.event_type)
    arrival = Arrival(
        key=EventKey(
            provider=provider,
            endpoint=endpoint.name,
            account=reading.account,
            environment=reading.environment,
            event_id=reading.event_id,
        ),
        event_type=reading.event_type,
        body=body,
        headers=headers,
        created_at=reading.created_at,
        secret_label=label,
        settled=None if handlers else State.IGNORED,
        reason="" if handlers else reading.ignore or f"no handler for {reading.event_type}",
        kept=_kept(endpoint, body),
        keep_body=endpoint.keep == "body",
        signed_id=endpoint.source.signed_id,
    )
    return Item(arrival, handlers, unhandled=not handlers and not reading.ignore)


def _kept(endpoint: EndpointPlan, body: bytes) -> str | None:
    if not endpoint.keep_fields:
        return None
    try:
        return json_text(endpoint.kept_fields(body), what="kept fields")
    except ValueError:
        return None  # a field that jsonb cannot hold is not worth an event


def _refused_type(endpoint: EndpointPlan, items: list[Item]) -> Receipt | None:
    """An older release must not swallow a type that the newer one knows: nothing of the body is stored."""
    unhandled = [item.arrival.event_type for item in items if item.unhandled]
    if endpoint.unhandled != "refuse" or not unhandled:
        return None
    events.TYPE_REFUSED.log(endpoint.name, json.dumps(unhandled[0]))
    return answers.unavailable("no_handler", "no handler for this type in this release; send it again")


def _dropped(endpoint: EndpointPlan, items: list[Item]) -> dict[int, EventResult]:
    """Give the results of the items that are acknowledged without a record, by position."""
    if endpoint.unhandled != "drop":
        return {}
    return {
        position: EventResult(
            outcome=Outcome.IGNORED, event_id=item.arrival.key.event_id, reason=item.arrival.reason
        )
        for position, item in enumerate(items)
        if item.unhandled
    }


def _failed(
    endpoint: EndpointPlan, keys: tuple[EventKey, ...], error: InboxError, inbox: Receiving
) -> Receipt:
    """Log what made a delivery fail, once, without what the exception says, and answer it (P-QUIET)."""
    where = f"endpoint {endpoint.name}" + (f", event {_shown(keys)}" if keys else "")
    match error:
        case HandlerNotYetError():
            events.NOT_YET.log(where, error.retry_in_seconds)
            return answers.failed(error)
        case HandlerError() if error.__cause__ is not None:
            failure = describe(error)
            events.HANDLER_FAILED.log(where, error.code, failure, "\n  ".join(failure.frames))
        case _:
            events.DELIVERY_FAILED.log(where, error.code, error)
    inbox.report(endpoint.name, error.__cause__ or error)
    return answers.failed(error)


def _shown(keys: tuple[EventKey, ...]) -> str:
    return json.dumps(keys[0].event_id) if len(keys) == 1 else f"one of {len(keys)}"
