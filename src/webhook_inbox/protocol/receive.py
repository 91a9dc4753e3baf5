"""
Receive one delivery: from bytes that nobody believes to an answer that is true.

    greet ──► verify ──► answer ──► identify ──► record, by the endpoint's mode ──► receipt
                4xx                quarantine    protocol/inline.py, protocol/deferred.py; 5xx on any error:
    handshake          handshake                 the redelivery is the retry
"""

from __future__ import annotations

import json
from collections.abc import Sequence, Sized
from typing import assert_never

from webhook_inbox.errors import InboxError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event import EventKey
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.secret import Secret
from webhook_inbox.model.states import Origin
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.deferred import record_hybrid, record_queued
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Ask, Flow, Transact
from webhook_inbox.protocol.inline import record_inline
from webhook_inbox.protocol.items import dropped, items_of
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.receiving import Receiving, report
from webhook_inbox.protocol.recording import Item, Recording
from webhook_inbox.sources.source import Answer, Rejected
from webhook_inbox.telemetry import events


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
    if greeting := endpoint.source.greet(delivery):
        return _handshake(endpoint, greeting)
    secrets = yield from _secrets(endpoint, delivery)
    if not secrets:
        events.DELIVERY_REJECTED.log(endpoint.name, "secret_unknown")
        return answers.refused(400, "secret_unknown", "no signing secret is known for this delivery")
    verdict = endpoint.source.verify(delivery, secrets)
    if isinstance(verdict, Rejected):
        events.DELIVERY_REJECTED.log(endpoint.name, verdict.reason)
        return answers.rejected(verdict)
    matching = [secret for secret in secrets if secret.label == verdict.label]
    if answer := endpoint.source.answer(delivery, matching):
        return _handshake(endpoint, answer)
    items = items_of(endpoint, delivery, verdict.label)
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


def receive_copies(
    endpoint: EndpointPlan, copies: Sequence[Delivery], inbox: Receiving
) -> Flow[tuple[EventResult, ...] | Receipt]:
    """
    Take in what the provider's own list holds: it was asked for, so there is no signature to check (P-FIND).

    Behind that it is the same door: whichever of a copy and a delivery comes second is the duplicate.

    Returns:
        One result per event; or the receipt that a sender would have got, where nothing is stored.

    Promises: P-FIND, P-DUP, P-ONCE, P-QUIET.
    """
    items = [item for copy in copies for item in items_of(endpoint, copy, "", origin=Origin.RECONCILE)]
    return (yield from _record(endpoint, items, inbox))


def _handshake(endpoint: EndpointPlan, answer: Answer) -> Receipt:
    receipt = answers.handshake(answer)
    if receipt.reason:
        events.DELIVERY_REJECTED.log(endpoint.name, receipt.reason)
    return receipt


def _record(
    endpoint: EndpointPlan, items: list[Item], inbox: Receiving
) -> Flow[tuple[EventResult, ...] | Receipt]:
    """Give one result per item, or the receipt that asks the sender to come again."""
    if not inbox.schema_served:
        yield Transact(lambda: check_schema(inbox.schema), None)
        inbox.schema_served = True
    to = Recording(
        sql=inbox.sql,
        wait_seconds=endpoint.settings.duplicate_wait_seconds,
        handler_seconds_max=endpoint.settings.handler_seconds_max,
    )
    try:
        match endpoint.mode:
            case "inline":
                return (yield from record_inline(endpoint, items, to, inbox))
            case "hybrid" if len(items) == 1 and items[0].handlers:
                return (yield from record_hybrid(endpoint, items[0].arrival, inbox, to))
            case "queued" | "hybrid":
                return (yield from record_queued(endpoint, items, to))
            case _:
                assert_never(endpoint.mode)
    except InboxError as error:
        return _failed(endpoint, tuple(dict.fromkeys(item.arrival.key for item in items)), error, inbox)


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
    answer = yield Ask(given, delivery, endpoint.settings.handler_seconds_max)
    if answer is None or (isinstance(answer, Sized) and not isinstance(answer, str) and not len(answer)):
        return ()  # whoever names a tenant that does not exist is a stranger, and no reason for a 5xx (P-CALM)
    return endpoint.checked_secrets(answer)


def _refused_type(endpoint: EndpointPlan, items: list[Item]) -> Receipt | None:
    """An older release must not swallow a type that the newer one knows: nothing of the body is stored."""
    unhandled = [item.arrival.event_type for item in items if item.arrival.unhandled]
    if endpoint.unhandled != "refuse" or not unhandled:
        return None
    events.TYPE_REFUSED.log(endpoint.name, json.dumps(unhandled[0]))
    return answers.unavailable("no_handler", "no handler for this type in this release; send it again")


def _failed(
    endpoint: EndpointPlan, keys: tuple[EventKey, ...], error: InboxError, inbox: Receiving
) -> Receipt:
    report(endpoint, keys, error, inbox)
    return answers.failed(error)
