"""Places and templates read as they are written, or stop the start."""

from __future__ import annotations

import pytest

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources.place import (
    BodyPlace,
    Fields,
    HeaderPlace,
    PartPlace,
    header_of,
    member_of,
    member_or_header_of,
    place_of,
)
from webhook_inbox.sources.source import Unreadable
from webhook_inbox.sources.template import Template, template_of


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("$", BodyPlace(())),
        ("$.id", BodyPlace(("id",))),
        ("$.data.object.id", BodyPlace(("data", "object", "id"))),
        ("$.event-data.@type", BodyPlace(("event-data", "@type"))),
        ("$.a/b_c!#&()-~^\\", BodyPlace(("a/b_c!#&()-~^\\",))),
        ("header:x-github-delivery", HeaderPlace("x-github-delivery")),
        ("part:t", PartPlace("t")),
    ],
)
def test_a_place_is_what_it_reads(text: str, place: object) -> None:
    """And shows itself as it was written."""
    assert place_of(text, setting="here") == place
    assert str(place) == text


def test_a_header_s_letter_case_does_not_matter() -> None:
    """HTTP says so; the lookup is in lower case."""
    assert place_of("header:X-GitHub-Delivery", setting="here") == HeaderPlace("x-github-delivery")
    assert header_of("X-Hub-Signature-256", setting="here") == "x-hub-signature-256"


@pytest.mark.parametrize(
    "text",
    ["", "id", ".id", "$id", "$.", "$..id", "$.id.", "$.a b", "$.a[0]", "$['a']", '$."a"', "$.é", "$.id\n", "header:",
     "header:x y", "header:x:", "Header:x", "part:", "part:t=", "part:a b", "$.a\x7f"],
)  # fmt: skip
def test_what_reads_like_no_place_is_refused(text: str) -> None:
    """A slip is found before an event is."""
    with pytest.raises(ConfigurationError) as raised:
        place_of(text, setting="here")
    assert str(raised.value) == (
        f"here must read like '$.data.id', 'header:X-Event-Id' or 'part:t', not {text!r}"
    )


@pytest.mark.parametrize("text", ["$", "header:x", "part:t"])
def test_only_a_member_of_the_body_is_a_member(text: str) -> None:
    """What must be under the signature cannot stand in a header."""
    with pytest.raises(
        ConfigurationError, match=r"^here must name a member of the signed JSON body, such as '\$\.data\.id'$"
    ):
        member_of(text, setting="here")


def test_what_reads_like_no_place_is_named_by_its_setting() -> None:
    """Whoever asked for it."""
    for read in (place_of, member_of, member_or_header_of):
        with pytest.raises(ConfigurationError, match=r"^here must read like '\$\.data\.id', "):
            read("nonsense", setting="here")


def test_a_member_or_a_header_is_either() -> None:
    """But no part of the signature header, and not the whole body."""
    assert member_or_header_of("$.a", setting="here") == BodyPlace(("a",))
    assert member_or_header_of("header:A", setting="here") == HeaderPlace("a")
    for text in ("$", "part:t"):
        with pytest.raises(ConfigurationError, match=r"^here must name a member"):
            member_or_header_of(text, setting="here")


@pytest.mark.parametrize("name", ["", "x y", "x:", "x\n", "é"])
def test_a_name_that_no_header_can_have_is_refused(name: str) -> None:
    """RFC 9110, section 5.6.2."""
    with pytest.raises(
        ConfigurationError, match=r"^here must be the name of a header, such as 'X-Hub-Signature-256'$"
    ):
        header_of(name, setting="here")


def test_values_come_from_headers_and_body_in_the_order_asked() -> None:
    """A value that this source does not have is None, like one that is not sent."""
    fields = Fields((HeaderPlace("x-a"), BodyPlace(("b",)), None, HeaderPlace("x-c"), BodyPlace(("d", "e"))))
    headers = Headers([("X-A", "1"), ("x-c", "")])
    assert fields.read(headers, b'{"b":2,"d":{"e":3}}') == ("1", 2, None, "", 3)
    assert fields.read(Headers(), b"{}") == (None, None, None, None, None)


def test_a_header_sent_twice_says_nothing() -> None:
    """Which of the two would be the event's id?"""
    fields = Fields((HeaderPlace("x-a"),))
    assert fields.read(Headers([("x-a", "1"), ("X-A", "2")]), b"{}") == (None,)


def test_a_body_that_is_no_object_is_unreadable_even_for_headers() -> None:
    """No source hands a handler a body that it could not read."""
    assert Fields((HeaderPlace("x-a"),)).read(Headers([("x-a", "1")]), b"[]") == Unreadable(
        reason="expected a JSON object"
    )


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("{body}", ("body",)),
        ("v0:{timestamp}:{body}", (b"v0:", "timestamp", b":", "body")),
        ("{id}.{timestamp}.{body}", ("id", b".", "timestamp", b".", "body")),
        ("{timestamp}{body}", ("timestamp", "body")),
        ("{method}{url}{body}{timestamp}", ("method", "url", "body", "timestamp")),
        ("https://example.com/é{body}!", ("https://example.com/é".encode(), "body", b"!")),
    ],
)
def test_a_template_is_read_piece_by_piece(text: str, pieces: tuple[object, ...]) -> None:
    """Literals are UTF-8 bytes; slots are names."""
    assert template_of(text, setting="here") == Template(pieces)  # type: ignore[arg-type]  # from a table


@pytest.mark.parametrize(
    "text",
    ["{body}{body}", "{Body}", "{payload}{body}", "{}{body}", "{body}}", "{{body}", "{", "}", "{body }"],
)
def test_an_unknown_or_repeated_slot_or_a_stray_brace_is_refused(text: str) -> None:
    """A slip would otherwise be signed as a literal, and nothing would ever match."""
    with pytest.raises(ConfigurationError) as raised:
        template_of(text, setting="here")
    assert str(raised.value) == (
        "here may hold each of {body}, {timestamp}, {id}, {method}, {url} once, and no other braces"
    )


@pytest.mark.parametrize("text", ["", "v0:{timestamp}", "literal"])
def test_a_template_without_the_body_is_refused(text: str) -> None:
    """Such a signature would fit any body."""
    with pytest.raises(ConfigurationError) as raised:
        template_of(text, setting="here")
    assert str(raised.value) == "here must hold {body}: a signature that leaves the body out proves nothing"


def test_a_template_is_filled_with_bytes() -> None:
    """Exactly those, in order, and nothing between them."""
    template = template_of("v0:{timestamp}:{body}", setting="here")
    assert template.fill({"timestamp": b"17", "body": b"\xff{}", "url": b"no"}) == b"v0:17:\xff{}"
    assert template.has("timestamp")
    assert template.has("body")
    assert not template.has("id")


def test_what_follows_a_slot_is_known() -> None:
    """The literal, if one follows; that decides whether an id can be cut in two places."""
    template = template_of("{id}.{timestamp}{body}!", setting="here")
    assert template.after("id") == b"."
    assert template.after("timestamp") is None
    assert template.after("body") == b"!"
    assert template.after("url") is None
    assert template_of("{body}", setting="here").after("body") is None
