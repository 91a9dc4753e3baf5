"""
Recognise Shopify: HMAC-SHA256 of the body in base64; the body is the object, so ids and topic stand in headers.

Shopify sends two ids. ``X-Shopify-Event-Id`` names what happened in the shop and is the same for every subscription
that fires for it; ``X-Shopify-Webhook-Id`` names one delivery to one subscription. An event here is what happened, as
one topic tells it: event id and topic together, so that two subscriptions of one topic take effect once, and one change
that fires two topics reaches the handlers of both.

Source: shopify.dev, "Verify webhook deliveries" and "Ignore duplicate webhooks".
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Literal

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.source import Reading, Verdict

_VERIFY = "shopify.dev, Verify webhook deliveries"
_DUPLICATES = "https://shopify.dev/docs/apps/build/webhooks/ignore-duplicates"
# Webhooks, and events of the developer preview: the same scheme under other names.
_FAMILIES = ("X-Shopify-", "Shopify-")
_SCHEMES = MappingProxyType(
    {family: scheme_of(header=f"{family}Hmac-Sha256", encoding="base64") for family in _FAMILIES}
)
_NAMINGS = MappingProxyType(
    {
        (family, event_id): naming_of(
            event_id=places,
            event_type=f"header:{family}Topic",
            created=f"header:{family}Triggered-At",
        )
        for family in _FAMILIES
        for event_id, places in (
            ("event", (f"header:{family}Event-Id", f"header:{family}Topic")),
            ("webhook", (f"header:{family}Webhook-Id",)),
        )
    }
)


class Shopify(Provider):
    """
    Believe what Shopify signed with one of *secrets*.

    Args:
        secrets: The app's client secret; after a rotation the old one too, since the new one can take an hour to be
            used; or a callable asked per request. Webhooks made in the store's admin have a secret of their own.
        event_id: ``event``: what happened, told by one topic, takes effect once, however many subscriptions fire.
            ``webhook``: every delivery of every subscription is an event of its own.

    Raises:
        ConfigurationError: No secret, or another event id.
    """

    provider = "shopify"
    signed_id = False
    scheme = _SCHEMES["X-Shopify-"]
    facts = Facts(
        title="Shopify",
        signature=Fact(
            "`X-Shopify-Hmac-SHA256: BASE64`, HMAC-SHA256 of the body; events of the developer preview: "
            "`Shopify-Hmac-Sha256`",
            _VERIFY,
        ),
        secret=Fact("the app's client secret; a new one can take an hour to be used, so keep both", _VERIFY),
        event_id=Fact(
            "headers `X-Shopify-Event-Id` (what happened) and `X-Shopify-Webhook-Id` (one delivery)",
            f"{_DUPLICATES}; {_VERIFY}",
        ),
        event_type=Fact("header `X-Shopify-Topic`", _VERIFY),
        window=Fact("no time is signed", _VERIFY),
        answer=Fact("2xx within 5 s, 1 s of them to connect; a redirect is a failure", DIRECTORY, 5),
        retries=Fact(
            "8 times over 4 h; then a subscription made by the Admin API is deleted", DIRECTORY, 4 * 3_600
        ),
        order=Fact("not guaranteed, neither within a topic nor across", DIRECTORY),
        past_events=Fact("no list of deliveries was found; compare with the resources' own APIs", DIRECTORY),
        weaknesses=(
            "Neither time nor ids nor topic are signed: whoever holds one signed body can send it under others.",
            "The shop's domain is in a header that is not signed, so it is not the event's account.",
            "Deliveries by Pub/Sub or EventBridge are not signed: this source does not read them.",
            "Webhooks made in the store's admin may be XML, and are signed with another secret than the app's.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, event_id: Literal["event", "webhook"] = "event") -> None:
        if event_id not in {"event", "webhook"}:
            raise ConfigurationError("Shopify(event_id=...) must be 'event' or 'webhook'")
        self.event_id = event_id
        super().__init__(secrets)

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Hold the signature against the HMAC of the body under each secret (P-RAW)."""
        return _SCHEMES[_family(delivery.headers)].verify(delivery, secrets)

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the event from the headers; the body is the object that it is about."""
        return _NAMINGS[_family(delivery.headers), self.event_id].identify(delivery)


def _family(headers: Headers) -> str:
    """Say whose header names the delivery uses; they are never mixed."""
    older, newer = (f"{family}hmac-sha256".lower() in headers for family in _FAMILIES)
    return _FAMILIES[1] if newer and not older else _FAMILIES[0]
