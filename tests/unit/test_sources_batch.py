"""Every item of a batched body is found as the exact slice that was signed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from webhook_inbox.sources import batch
from webhook_inbox.sources.batch import ITEMS_MAX, item_spans
from webhook_inbox.sources.place import BodyPlace
from webhook_inbox.sources.source import Unreadable

WHOLE = BodyPlace(())
EVENTS = BodyPlace(("events",))
DEEP = BodyPlace(("a", "b"))


def slices(body: bytes, place: BodyPlace) -> list[bytes]:
    """Give the slices that the spans stand for."""
    spans = item_spans(body, place)
    assert isinstance(spans, list)
    return [body[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("body", "place", "items"),
    [
        (b"[1]", WHOLE, [b"1"]),
        (b'[{"id":1},{"id":2}]', WHOLE, [b'{"id":1}', b'{"id":2}']),
        (b' \r\n[ {"id" : 1 }\t,\n{"id":2}\r ] \n', WHOLE, [b'{"id" : 1 }', b'{"id":2}']),
        (b'[[],{},"a,]","\\"",1.50,-0,1e5,true,null]', WHOLE,
         [b"[]", b"{}", b'"a,]"', b'"\\""', b"1.50", b"-0", b"1e5", b"true", b"null"]),
        (b'{"events":[{"id":1}]}', EVENTS, [b'{"id":1}']),
        (b'{ "n" : [0] , "events" : [ {"id":1} , 2 ] , "m" : {} }', EVENTS, [b'{"id":1}', b"2"]),
        (b'{"events":[1],"events":[2,3]}', EVENTS, [b"2", b"3"]),
        (rb'{"\u0065vents":[1]}', EVENTS, [b"1"]),
        (b'{"a":{"events":[9],"b":[1]},"b":[8]}', DEEP, [b"1"]),
        (b'{"a":{"b":[1]},"a":{"b":[2]}}', DEEP, [b"2"]),
        ('{"é":"😊","events":["é😊",{"ü":"\u2028"}]}'.encode(), EVENTS,
         ['"é😊"'.encode(), '{"ü":"\u2028"}'.encode()]),
        (b'{"x":12345678901234567890123,"events":[1e400,' + b"7" * 5_000 + b"]}", EVENTS, [b"1e400", b"7" * 5_000]),
    ],
)  # fmt: skip
def test_items_are_slices_of_the_body(body: bytes, place: BodyPlace, items: list[bytes]) -> None:
    """Blanks, escapes, multibyte characters and repeated names move no offset by a byte."""
    assert slices(body, place) == items


@pytest.mark.parametrize(
    ("body", "place", "reason"),
    [
        (b"{}", WHOLE, "no array at $"),
        (b"1", WHOLE, "no array at $"),
        (b"[]", WHOLE, "the array at $ is empty"),
        (b"[ ]", WHOLE, "the array at $ is empty"),
        (b"[1]", EVENTS, "no array at $.events"),
        (b"{}", EVENTS, "no array at $.events"),
        (b'{"event":[1]}', EVENTS, "no array at $.events"),
        (b'{"events":{}}', EVENTS, "no array at $.events"),
        (b'{"events":[1],"events":null}', EVENTS, "no array at $.events"),
        (b'{"events":[ \n]}', EVENTS, "the array at $.events is empty"),
        (b'{"a":[{"b":[1]}]}', DEEP, "no array at $.a.b"),
        (b"", WHOLE, "not JSON at character 0"),
        (b"[1", WHOLE, "not JSON at character 2"),
        (b"[1]]", WHOLE, "not JSON at character 3"),
        (b"[NaN]", WHOLE, "not JSON: NaN is no number in JSON"),
        (b'["\xff"]', WHOLE, "not UTF-8 at byte 2"),
        (b"[" * 201 + b"]" * 201, WHOLE, "nested deeper than 200"),
    ],
)
def test_a_body_without_items_says_why(body: bytes, place: BodyPlace, reason: str) -> None:
    """C05: quarantined as a whole, with the place that was looked at."""
    assert item_spans(body, place) == Unreadable(reason=reason)


def test_there_is_a_limit_to_the_items_of_one_body() -> None:
    """P-CALM: a megabyte of ones is not half a million events."""
    assert len(slices(b"[" + b"1," * (ITEMS_MAX - 1) + b"1]", WHOLE)) == 10_000
    assert item_spans(b"[" + b"1," * 500_000 + b"1]", WHOLE) == Unreadable(
        reason="the array at $ has more than 10000 items"
    )


def test_past_the_limit_nothing_more_is_looked_at() -> None:
    """P-CALM: the search ends where the answer is known."""

    def items(_text: str, _at: int) -> Iterator[tuple[int, int]]:
        yield from [(0, 1)] * 4
        raise AssertionError("looked at a fifth")

    with patch.object(batch, "ITEMS_MAX", 3):
        assert slices(b"[1,2,3]", WHOLE) == [b"1", b"2", b"3"]
        assert item_spans(b"[1,2,3,4]", WHOLE) == Unreadable(reason="the array at $ has more than 3 items")
        with patch.object(batch, "_items", items):
            assert isinstance(item_spans(b"[1,2,3,4,5]", WHOLE), Unreadable)


def test_slices_parse_to_what_the_whole_parses_to() -> None:
    """Nothing is lost between the items."""
    items = [{"id": number, "text": "ü, ]}" * (number % 3), "deep": [[{}], []]} for number in range(50)]
    body = json.dumps({"meta": {"events": [0]}, "events": items}, ensure_ascii=False, indent=1).encode()
    assert [json.loads(item) for item in slices(body, EVENTS)] == items
