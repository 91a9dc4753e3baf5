"""Make what is recorded out of what a source has read, and decide what becomes of a type without a handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from webhook_inbox.model.arrival import Arrival
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event import EventKey
from webhook_inbox.model.failure import describe
from webhook_inbox.model.headers import SECRET_HEADERS, Headers
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Origin, State
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.outbox import json_text
from webhook_inbox.protocol.recording import Item, settled_result
from webhook_inbox.sources.source import Identity, Reading, Unreadable
from webhook_inbox.telemetry.results import log_defect
from webhook_inbox.telemetry.tracing import TRACE_HEADERS, carried


def items_of(
    endpoint: EndpointPlan, delivery: Delivery, label: str, *, origin: Origin = Origin.DELIVERY
) -> list[Item]:
    """
    Give the events of a verified *delivery* as they will be recorded, with their handlers; headers that carry
    credentials are left behind (P-QUIET).

    It is authentic: what the source cannot read, or fails at, is kept for a person to look at (P-CALM).

    Args:
        label: Of the secret that verified the delivery; empty where the provider itself was asked.
        origin: By which way it came.
    """
    readings: Sequence[Reading]
    try:
        readings = endpoint.source.identify(delivery) or (
            Unreadable(reason="the source found no event in it"),
        )
    except Exception as error:  # noqa: BLE001 - whatever a source raises, it will not go away by another delivery
        log_defect(endpoint.name, error)
        readings = (Unreadable(reason=f"the source failed at it: {describe(error)}"),)
    headers = delivery.headers.without(SECRET_HEADERS | endpoint.source.secret_headers)
    # Whoever runs the events goes on from here; the sender's own context is linked to already.
    if trace := carried():
        headers = Headers([*headers.without(TRACE_HEADERS).pairs, *trace.items()])
    items = []
    for reading in readings:
        body = delivery.body if reading.span is None else delivery.body[slice(*reading.span)]
        came = _Came(body=body, headers=headers, secret_label=label, origin=origin)
        if isinstance(reading, Unreadable):
            items.append(_unread(endpoint, reading, came))
        else:
            items.append(_read(endpoint, reading, came))
    return items


class _Came(TypedDict):
    """What is known of an event before it is read; see ``Arrival``."""

    body: bytes
    headers: Headers
    secret_label: str
    origin: Origin


def _unread(endpoint: EndpointPlan, reading: Unreadable, came: _Came) -> Item:
    key = EventKey(
        provider=endpoint.source.provider, endpoint=endpoint.name, account="", environment="", event_id=""
    )
    arrival = Arrival(key=key, event_type="", settled=State.QUARANTINED, reason=reading.reason, **came)
    return Item(arrival.under_digest())


def _read(endpoint: EndpointPlan, reading: Identity, came: _Came) -> Item:
    handlers = () if reading.ignore else endpoint.handlers.matching(reading.event_type)
    key = EventKey(
        provider=endpoint.source.provider,
        endpoint=endpoint.name,
        account=reading.account,
        environment=reading.environment,
        event_id=reading.event_id,
    )
    arrival = Arrival(
        key=key,
        event_type=reading.event_type,
        created_at=reading.created_at,
        settled=None if handlers else State.IGNORED,
        reason="" if handlers else reading.ignore or f"no handler for {reading.event_type}",
        unhandled=not handlers and not reading.ignore,
        kept=_kept(endpoint, came["headers"], came["body"]),
        keep_body=endpoint.keep == "body",
        signed_id=endpoint.source.signed_id,
        **came,
    )
    return Item(arrival, handlers)


def _kept(endpoint: EndpointPlan, headers: Headers, body: bytes) -> str | None:
    if not endpoint.keep_fields:
        return None
    try:
        return json_text(endpoint.kept_fields(headers, body), what="kept fields")
    except ValueError:
        return None  # a field that jsonb cannot hold is not worth an event


def dropped(endpoint: EndpointPlan, items: list[Item]) -> dict[int, EventResult]:
    """Give the results of the items that are acknowledged without a record, by position."""
    if endpoint.unhandled != "drop":
        return {}
    return {
        position: settled_result(item.arrival, None)
        for position, item in enumerate(items)
        if item.arrival.unhandled
    }
