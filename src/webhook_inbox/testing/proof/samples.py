"""Make of a sample payload the event that its endpoint would record, with the handlers that would run for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.inbox import Inbox
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.items import items_of
from webhook_inbox.protocol.recording import Item
from webhook_inbox.testing.deliveries import URL, Payload, signed
from webhook_inbox.testing.key_pairs import pair_of
from webhook_inbox.testing.proof.outside import watched


@dataclass(frozen=True, slots=True)
class Sample:
    """
    Name one delivery that a proof is made with.

    Attributes:
        endpoint: Its name.
        payload: What the provider sends; see ``testing.signed``, and there ``type`` and ``id``.
    """

    endpoint: str
    payload: Payload
    type: str = ""
    id: str = ""


def sampled_items(inbox: Inbox, samples: Sequence[Sample], told: Callable[[str, str], object]) -> list[Item]:
    """
    Give the events of *samples* in their order.

    Args:
        told: Hears what a handler does outside of its database: the handler's name, and what it does.

    Raises:
        ConfigurationError: There is no such endpoint, the payload has no event, or nobody handles it.
    """
    return [item for sample in samples for item in _items(inbox, sample, told)]


def second_id(item: Item) -> Item:
    """Give the same event under another id, as a provider sends that makes two events of one change."""
    key = replace(item.arrival.key, event_id=f"{item.arrival.key.event_id}_again")
    body = item.arrival.body
    try:
        payload = json.loads(body)
    except ValueError:
        payload = None
    if isinstance(payload, dict) and payload.get("id") == item.arrival.key.event_id:
        body = json.dumps({**payload, "id": key.event_id}).encode()
    return replace(item, arrival=replace(item.arrival, key=key, body=body))


def _items(inbox: Inbox, sample: Sample, told: Callable[[str, str], object]) -> list[Item]:
    endpoint = inbox.endpoint_plans.get(sample.endpoint)
    if endpoint is None:
        raise ConfigurationError(f"the inbox has no endpoint {sample.endpoint!r}")
    url = f"{URL}{sample.endpoint}"
    # Nobody verifies it: where the provider alone has the key, any other will do.
    pair = pair_of(endpoint.source)
    secret = "" if pair is None else pair.private
    made = signed(endpoint.source, sample.payload, type=sample.type, id=sample.id, secret=secret, url=url)
    delivery = Delivery.now("POST", url, made.headers, made.body)
    found = items_of(endpoint, delivery, "")
    return [_listened(endpoint, item, told) for item in found]


def _listened(endpoint: EndpointPlan, item: Item, told: Callable[[str, str], object]) -> Item:
    if not item.handlers:
        raise ConfigurationError(
            f"endpoint {endpoint.name} runs no handler for a sample: {item.arrival.reason}"
        )
    handlers = tuple(replace(each, function=watched(each, told)) for each in item.handlers)
    event = item.arrival.event(received_at=None, attempt=1)
    return replace(
        item, arrival=replace(item.arrival, order_key=endpoint.order_key(event)), handlers=handlers
    )
