"""Shopify's two ids mean two things, and neither is the object's."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.deliveries import delivery, verdict
from tests.source_examples import SHOPIFY
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.event import Event
from webhook_inbox.sources import Identity, Rejected, Shopify, Unreadable, Verified
from webhook_inbox.testing.signing import sign_hmac

SECRET = "fake-shopify-client-secret"
SOURCE = Shopify(SECRET)


def headers(
    event_id: str | None,
    webhook_id: str | None,
    topic: str | None = "orders/create",
    *,
    family: str = "X-Shopify-",
) -> list[tuple[str, str]]:
    """Give what Shopify sends beside the signature."""
    given = {"Event-Id": event_id, "Webhook-Id": webhook_id, "Topic": topic}
    return [(f"{family}{name}", value) for name, value in given.items() if value is not None]


def identify(sent: list[tuple[str, str]], source: Shopify = SOURCE) -> str:
    """Give the event id."""
    (reading,) = source.identify(delivery(SHOPIFY, sent))
    assert isinstance(reading, Identity)
    return reading.event_id


def test_what_happened_takes_effect_once_however_many_subscriptions_fire() -> None:
    """C29: the same event id is a duplicate, whatever the webhook id; another event of the same object is not."""
    first = identify(headers("E1", "W1"))
    assert identify(headers("E1", "W1")) == first
    assert identify(headers("E1", "W2")) == first
    assert identify(headers("E2", "W3", "orders/updated")) != first


def test_one_change_that_fires_two_topics_reaches_the_handlers_of_both() -> None:
    """The event id is the same across the subscriptions that fire: by itself it would drop the second topic."""
    assert identify(headers("E1", "W1", "orders/create")) != identify(headers("E1", "W2", "orders/paid"))


def test_the_webhook_id_can_be_the_identity_instead() -> None:
    """Then every subscription's delivery is an event of its own."""
    source = Shopify(SECRET, event_id="webhook")
    assert identify(headers("E1", "W1"), source) == "W1"
    assert identify(headers("E1", "W2"), source) == "W2"
    with pytest.raises(
        ConfigurationError, match=r"^Shopify\(event_id=\.\.\.\) must be 'event' or 'webhook'$"
    ):
        Shopify(SECRET, event_id="object")  # type: ignore[arg-type]  # what is tested


@pytest.mark.parametrize("event_id", [None, "", " "])
def test_without_an_id_it_is_quarantined_never_named_by_its_object(event_id: str | None) -> None:
    """C29: the object's id would drop every later change."""
    (reading,) = SOURCE.identify(delivery(SHOPIFY, headers(event_id, "W1")))
    assert reading == Unreadable(reason="no event id at header:x-shopify-event-id | header:x-shopify-topic")


def test_the_object_s_number_is_not_rounded() -> None:
    """C29: a handler reads it exactly."""
    event = Event(provider="shopify", endpoint="e", id="1", type="t", body=SHOPIFY)
    assert event.payload["id"] == 820982911946154508


def test_the_shop_is_not_signed_and_so_is_no_account() -> None:
    """The time of the event is beside the signature too, and is no part of the key."""
    sent = [
        *headers("E1", "W1"),
        ("X-Shopify-Shop-Domain", "somebody.example"),
        ("X-Shopify-Triggered-At", "2026-01-01T00:00:00.000Z"),
    ]
    assert SOURCE.identify(delivery(SHOPIFY, sent)) == (
        Identity(
            event_id="E1|orders/create",
            event_type="orders/create",
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        ),
    )
    assert not SOURCE.signed_id


def test_events_of_the_preview_are_the_same_by_other_names() -> None:
    """The two families of headers are never mixed."""
    signed = [
        *sign_hmac(SHOPIFY, SECRET, "Shopify-Hmac-Sha256", encoding="base64"),
        *headers("E1", "W1", family="Shopify-"),
    ]
    assert isinstance(verdict(SOURCE, delivery(SHOPIFY, signed)), Verified)
    assert identify(signed) == "E1|orders/create"
    crossed = [*signed[:1], *headers("E1", "W1")]
    (reading,) = SOURCE.identify(delivery(SHOPIFY, crossed))
    assert isinstance(reading, Unreadable)
    both = [*signed, ("X-Shopify-Hmac-Sha256", "bm8=")]
    assert isinstance(verdict(SOURCE, delivery(SHOPIFY, both)), Rejected)
