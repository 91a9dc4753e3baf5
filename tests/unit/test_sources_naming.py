"""Ids that are several values, or none: the same event always gets the same one, and two events never do."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256

import pytest
from hypothesis import example, given, strategies as st

from tests.deliveries import delivery
from webhook_inbox.sources import Identity, Unreadable
from webhook_inbox.sources.naming import naming_of

FORM = ("content-type", "application/x-www-form-urlencoded")


def named(body: bytes, *headers: tuple[str, str], **described: object) -> Identity | Unreadable:
    """Ask for the one reading of *body*."""
    (reading,) = naming_of(**described).identify(delivery(body, headers))  # type: ignore[arg-type]
    return reading


def event_id(*parts: str) -> str:
    """Give the id made of *parts*, in a header each."""
    headers = [(f"x-{position}", part) for position, part in enumerate(parts)]
    places = tuple(f"header:x-{position}" for position in range(len(parts)))
    reading = named(b'{"type":"t"}', *headers, event_id=places)
    assert isinstance(reading, Identity)
    return reading.event_id


def test_a_digest_is_that_of_the_event_s_own_bytes() -> None:
    """The same bytes are the same event; of a batch each item has its own."""
    body = b'{"type":"t"}'
    whole = named(body, event_id="digest")
    assert whole == Identity(event_id=f"sha256:{sha256(body).hexdigest()}", event_type="t")
    readings = naming_of(event_id="digest", items="$").identify(delivery(b'[{"type":"a"}, {"type":"b"}]'))
    assert [reading.event_id for reading in readings if isinstance(reading, Identity)] == [
        f"sha256:{sha256(item).hexdigest()}" for item in (b'{"type":"a"}', b'{"type":"b"}')
    ]


def test_several_values_are_joined_and_all_of_them_count() -> None:
    """As an operator reads them; numbers and truths too."""
    places = ("$.psp", "$.code", "$.ok", "digest")
    reading = named(b'{"psp":12,"code":"A|B","ok":true,"type":"t"}', event_id=places)
    assert isinstance(reading, Identity)
    assert reading.event_id.startswith("12|A%7CB|true|sha256:")
    assert event_id("50%", "a|b") == "50%25|a%7Cb"
    no = named(b'{"a":"x","ok":false,"type":"t"}', event_id=("$.a", "$.ok"))
    assert no == Identity(event_id="x|false", event_type="t")


@pytest.mark.parametrize(
    "body", [b'{"a":"x"}', b'{"a":"x","b":""}', b'{"a":"x","b":" "}', b'{"a":"x","b":{}}']
)
def test_a_missing_part_leaves_no_id(body: bytes) -> None:
    """Half an id would make one event of many."""
    reading = named(body, event_id=("$.a", "$.b"))
    assert reading == Unreadable(reason="no event id at $.a | $.b")


@given(
    one=st.lists(st.text("a|%7C2"), min_size=2, max_size=3),
    other=st.lists(st.text("a|%7C2"), min_size=2, max_size=3),
)
@example(one=["a|", "b"], other=["a", "|b"])
@example(one=["%7C", "a"], other=["|", "a"])
def test_two_lists_of_parts_never_give_one_id(one: list[str], other: list[str]) -> None:
    """The separator inside a part is escaped."""
    if all(one) and all(other):
        assert (event_id(*one) == event_id(*other)) == (one == other)


def test_an_action_says_more_than_the_type() -> None:
    """Where there is one; anything but a text says nothing."""
    described = {"event_type": "header:x-event", "action": "$.action"}
    for action, event_type in (
        ('"opened"', "issues.opened"),
        ("null", "issues"),
        ('""', "issues"),
        ("1", "issues"),
    ):
        reading = named(f'{{"id":1,"action":{action}}}'.encode(), ("x-event", "issues"), **described)
        assert isinstance(reading, Identity)
        assert reading.event_type == event_type
    assert named(b'{"id":1,"action":"a"}', **described) == Unreadable(
        reason="no event type at header:x-event"
    )


def test_a_form_is_named_like_its_json() -> None:
    """C11: whichever way the hook is set up, the event is the same."""
    body = b"payload=%7B%22id%22%3A7%2C%22type%22%3A%22t%22%2C%22at%22%3A0%7D"
    assert named(body, FORM, created="$.at") == Identity(
        event_id="7", event_type="t", created_at=datetime(1970, 1, 1, tzinfo=UTC)
    )
    assert named(b"id=7&type=t", FORM) == Identity(event_id="7", event_type="t")
    assert named(b"id=%FF", FORM) == Unreadable(
        reason="no form of at most 1000 members, escaped and in UTF-8"
    )
