"""Make what is recorded out of what a source has read, and decide what becomes of a type without a handler."""

from __future__ import annotations

from webhook_inbox.model.arrival import Arrival
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event import EventKey
from webhook_inbox.model.headers import SECRET_HEADERS, Headers
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.recording import Item
from webhook_inbox.protocol.tx import json_text
from webhook_inbox.sources.source import Reading, Unreadable


def item_of(endpoint: EndpointPlan, delivery: Delivery, reading: Reading, label: str) -> Item:
    """
    Give one event of a verified *delivery* as it will be recorded, with its handlers; headers that carry credentials
    are left behind (P-QUIET).

    Args:
        label: Of the secret that verified the delivery.
    """
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
        kept=_kept(endpoint, headers, body),
        keep_body=endpoint.keep == "body",
        signed_id=endpoint.source.signed_id,
    )
    return Item(arrival, handlers, unhandled=not handlers and not reading.ignore)


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
        position: EventResult(
            outcome=Outcome.IGNORED, event_id=item.arrival.key.event_id, reason=item.arrival.reason
        )
        for position, item in enumerate(items)
        if item.unhandled
    }
