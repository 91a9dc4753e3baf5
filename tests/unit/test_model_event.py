"""An event is a frozen fact with an identity, exact bytes and a payload that is parsed once."""

from __future__ import annotations

import dataclasses

import pytest

from webhook_inbox.errors import PayloadError
from webhook_inbox.model.event import Event, EventKey
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.states import Origin

EVENT = Event(
    provider="stripe",
    endpoint="billing",
    id="evt_1",
    type="invoice.paid",
    account="acct_1",
    environment="live",
    body=b'{"id":"evt_1","canary":"fake_customer"}',
    headers=Headers([("stripe-signature", "fake_header")]),
)


def test_the_key_is_the_five_columns_that_decide_what_is_a_duplicate() -> None:
    """P-DUP: provider, endpoint, account, environment and event id, in the order of the unique key."""
    assert EVENT.key == EventKey(
        provider="stripe", endpoint="billing", account="acct_1", environment="live", event_id="evt_1"
    )
    assert list(EVENT.key.columns.items()) == [
        ("provider", "stripe"),
        ("endpoint", "billing"),
        ("account", "acct_1"),
        ("environment", "live"),
        ("event_id", "evt_1"),
    ]


def test_the_payload_is_parsed_on_first_use_and_once() -> None:
    """A handler that never looks at it pays nothing; later looks give the same object."""
    assert EVENT.payload["id"] == "evt_1"
    assert EVENT.payload is EVENT.payload


def test_a_body_that_is_no_json_fails_where_it_is_used() -> None:
    """The event itself exists: its bytes are what was signed."""
    event = dataclasses.replace(EVENT, body=b"{")
    with pytest.raises(PayloadError):
        _ = event.payload
    assert event.body == b"{"


def test_nothing_in_it_can_be_changed() -> None:
    """A handler cannot hand another identity to the next one."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        EVENT.id = "evt_2"  # type: ignore[misc]  # what is tested
    with pytest.raises(dataclasses.FrozenInstanceError):
        EVENT.key.event_id = "evt_2"  # type: ignore[misc]  # what is tested


def test_printing_shows_neither_body_nor_headers() -> None:
    """P-QUIET: a log line with an event in it holds no payload and no signature."""
    assert EVENT.payload
    shown = repr(EVENT)
    assert "fake_customer" not in shown
    assert "fake_header" not in shown
    assert "evt_1" in shown


def test_an_idempotency_key_names_event_and_purpose() -> None:
    """The same on every run, so that another API sees one request."""
    assert EVENT.idempotency_key("update-customer") == "webhook:evt_1:update-customer"


def test_what_is_not_said_has_a_plain_default() -> None:
    """First attempt, by delivery, of no account and no environment."""
    event = Event(provider="p", endpoint="e", id="1", type="t", body=b"")
    assert (event.account, event.environment, event.attempt, event.origin) == ("", "", 1, Origin.DELIVERY)
    assert (event.created_at, event.received_at, event.headers.pairs) == (None, None, ())
