"""A body of Meta's is a tree; each leaf is an event with its own id and its own bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.deliveries import delivery
from tests.source_examples import META, digest, written
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources import Answer, Identity, Meta, Unreadable

SOURCE = Meta("fake-app-secret")


def identify(payload: object) -> tuple[bytes, tuple[Identity | Unreadable, ...]]:
    """Give the body and its readings."""
    body = payload if isinstance(payload, bytes) else written(payload)
    return body, SOURCE.identify(delivery(body))


def changed(*changes: Any, **entry: Any) -> dict[str, Any]:
    """Write one entry."""
    return {"object": "page", "entry": [{"id": "102", "changes": list(changes)} | entry]}


def test_messages_and_statuses_are_events_of_the_phone_number() -> None:
    """In the body's order; a status repeats the message's id, so the two together are its own."""
    body, readings = identify(META)
    assert [
        (reading.event_id, reading.event_type, reading.account)
        for reading in readings
        if isinstance(reading, Identity)
    ] == [("wamid.1", "messages", "9"), ("wamid.2", "messages", "9"), ("wamid.3|read", "statuses", "102")]
    assert readings[0].span is not None
    assert b"wamid.1" in body[slice(*readings[0].span)]
    assert b"wamid.2" not in body[slice(*readings[0].span)]
    assert isinstance(readings[0], Identity)
    assert readings[0].created_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_two_statuses_of_one_message_are_two_events() -> None:
    """Delivered, then read."""
    statuses = [{"id": "wamid.1", "status": status} for status in ("delivered", "read")]
    _, readings = identify(changed({"field": "messages", "value": {"statuses": statuses}}))
    assert [reading.event_id for reading in readings if isinstance(reading, Identity)] == [
        "wamid.1|delivered",
        "wamid.1|read",
    ]


def test_leaves_of_one_change_come_in_the_order_of_their_bytes() -> None:
    """Whichever list stands first."""
    value = {"statuses": [{"id": "s", "status": "read"}], "messages": [{"id": "m"}]}
    _, readings = identify(changed({"field": "messages", "value": value}))
    assert [reading.event_type for reading in readings if isinstance(reading, Identity)] == [
        "statuses",
        "messages",
    ]


@pytest.mark.parametrize(
    "value", [{"item": "post"}, {"messages": []}, {"messages": {}}, {"errors": [{"code": 1}]}, [1], None]
)
def test_any_other_change_is_one_event_named_by_its_bytes(value: object) -> None:
    """With its field for a type."""
    change = {"field": "feed", "value": value}
    body, (reading,) = identify(changed(change))
    assert reading == Identity(
        event_id=digest(written(change)), event_type="feed", account="102", span=reading.span
    )
    assert reading.span is not None
    assert body[slice(*reading.span)] == written(change)


def test_messenger_and_instagram_have_events_of_their_own() -> None:
    """Their ids are not confirmed, so the bytes are the id."""
    items = [{"sender": {"id": "1"}, "message": {"mid": "m1"}}, {"sender": {"id": "2"}, "read": {}}]
    _, readings = identify({"object": "page", "entry": [{"id": "7", "messaging": items}]})
    assert [
        (reading.event_id, reading.event_type, reading.account)
        for reading in readings
        if isinstance(reading, Identity)
    ] == [(digest(written(each)), "messaging", "7") for each in items]


def test_one_leaf_that_cannot_be_named_does_not_hold_its_mates() -> None:
    """It is quarantined by itself."""
    messages = [{"no": "id"}, {"id": "m2"}, "text"]
    _, readings = identify(changed({"field": "messages", "value": {"messages": messages}}))
    assert [type(reading) for reading in readings] == [Unreadable, Identity, Unreadable]
    assert [reading.reason for reading in readings if isinstance(reading, Unreadable)] == [
        "no event id at $.id",
        "expected a JSON object",
    ]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "no array at $.entry"),
        ({"entry": []}, "the array at $.entry is empty"),
        ({"entry": [{"id": "1"}]}, "an entry without changes and without messaging"),
        ({"entry": [1]}, "an entry without changes and without messaging"),
        (b"no json", "not JSON at character 0"),
        (changed({"value": {}}), "no event type at $.field"),
        (changed(1), "expected a JSON object"),
    ],
)
def test_what_has_no_leaves_is_kept_whole(payload: object, reason: str) -> None:
    """P-CALM: at least one reading for any body."""
    _, readings = identify(payload)
    assert [reading.reason for reading in readings if isinstance(reading, Unreadable)] == [reason]
    assert len(readings) == 1


def test_an_empty_verify_token_stops_the_start() -> None:
    """It would open the handshake to everybody."""
    with pytest.raises(ConfigurationError, match=r"Meta\(verify_token=...\)"):
        Meta("fake-app-secret", verify_token="")


def test_a_handshake_with_what_no_url_holds_is_refused() -> None:
    """P-CALM: an app that embeds the inbox may hand on half a character."""
    source = Meta("fake-app-secret", verify_token="fake-verify-token")
    url = "https://receiver.example.test/?hub.mode=subscribe&hub.verify_token=\ud800&hub.challenge=1"
    assert source.greet(delivery(b"", method="GET", url=url)) == Answer(status=403)
    url = "https://receiver.example.test/?hub.mode=subscribe&hub.verify_token=fake-verify-token&hub.challenge=\ud800"
    assert source.greet(delivery(b"", method="GET", url=url)) == Answer(status=403)
