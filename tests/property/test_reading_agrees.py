"""Receiver and handler read the same bytes the same way, however the bytes are written."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import example, given, settings, strategies as st

from tests.property.strategies import BODIES, almost_json, json_texts
from webhook_inbox.errors import PayloadError
from webhook_inbox.model.payload import parse_payload
from webhook_inbox.sources.batch import item_spans
from webhook_inbox.sources.identity import Reader
from webhook_inbox.sources.place import BodyPlace
from webhook_inbox.sources.source import Unreadable

PATHS = (("id",), ("type",), ("data", "x"), ("data", "id"), ("é",), ("created",))
READER = Reader(*PATHS)
EVENTS = BodyPlace(("data",))
WHOLE = BodyPlace(())


def plain(body: bytes) -> Any:
    """Give what a handler reads; the refusal where it cannot."""
    try:
        return parse_payload(body)
    except PayloadError as error:
        return error


def at(value: Any, path: tuple[str, ...]) -> Any:
    """Walk *path* as a handler would."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def shown(value: Any) -> str:
    """Write *value* with its types, except that a number of many digits may be a float or a Decimal."""
    match value:
        case dict():
            return "{" + ", ".join(f"{name!r}: {shown(member)}" for name, member in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(shown, value)) + "]"
        case Decimal() if value.is_finite():
            return repr(float(value))
        case _:
            return repr(value)


@given(body=st.one_of(json_texts(), almost_json(), BODIES))
@settings(max_examples=1500, deadline=None)
@example(b'{"id":"a","x":"\xed\xa0\x80"}')
@example(b'{"id":"a","x":"\\ud83d\\u0041"}')
@example(b'{"id":"a","x":1E+}')
@example(b'{"id":"a"}\0')
@example(b'{"id":{"x":1.0000000000000001},"type":12345678901234567890.0,"created":1e-400}')
@example(b'{"id":"a","x":' + b"[" * 198 + b"]" * 198 + b"}")
@example(b'{"id":"a","x":' + b"[" * 200 + b"]" * 200 + b"}")
@example('{"id":1}'.encode("utf-16-le"))
def test_the_fast_reading_is_the_plain_reading(body: bytes) -> None:
    """P-CALM: what a handler could not parse is unreadable at the door, with the same reason, and nothing else is."""
    read, parsed = READER.read(body), plain(body)
    if isinstance(parsed, PayloadError):
        assert read == Unreadable(reason=str(parsed))
    elif not isinstance(parsed, dict):
        assert read == Unreadable(reason="expected a JSON object")
    else:
        assert not isinstance(read, Unreadable)
        assert [shown(value) for value in read] == [shown(at(parsed, path)) for path in PATHS]


@given(body=json_texts())
@settings(max_examples=300, deadline=None)
def test_python_s_own_reading_is_never_changed(body: bytes) -> None:
    """Beyond exact numbers our parser is Python's."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        assert isinstance(plain(body), PayloadError)
    else:
        assert json.dumps(plain(body)) == json.dumps(json.loads(text))


@given(body=st.one_of(json_texts(), almost_json()), whole=st.booleans())
@settings(max_examples=600, deadline=None)
@example(body=b'{"data":[2e1000000000000000000]}', whole=False)
def test_items_are_exactly_what_the_array_holds(body: bytes, whole: bool) -> None:
    """Every slice parses to its item, in order; a body without such an array says so and nothing raises."""
    if whole:
        body = b" [" + body + b" ,\n" + body + b"] "
    place = WHOLE if whole else EVENTS
    spans, parsed = item_spans(body, place), plain(body)
    array = None if isinstance(parsed, PayloadError) else at(parsed, place.path)
    if isinstance(array, list) and array:
        assert isinstance(spans, list)
        assert [shown(plain(body[start:end])) for start, end in spans] == [shown(item) for item in array]
        assert all(body[:start].rstrip()[-1:] in {b"[", b","} for start, _ in spans)
        assert all(body[end:].lstrip()[:1] in {b"]", b","} for _, end in spans)
    else:
        assert isinstance(spans, Unreadable)
