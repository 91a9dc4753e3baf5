"""
Find each item of a batched body as exact bytes: a slice of what was signed, never a re-encoding.

Python's own JSON scanner walks the body decoded as latin-1, in which one character is one byte: JSON's syntax is ASCII,
so the structure is the same and every position is a byte offset.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from webhook_inbox.errors import PayloadError
from webhook_inbox.model.payload import parse_payload
from webhook_inbox.sources.place import BodyPlace
from webhook_inbox.sources.source import Unreadable

ITEMS_MAX = 10_000
Span: TypeAlias = tuple[int, int]
_BLANKS = re.compile(r"[ \t\n\r]*")
_SCANNER = json.JSONDecoder(
    parse_int=str, parse_float=str
)  # numbers are passed over, so they are not converted


def item_spans(body: bytes, place: BodyPlace) -> list[Span] | Unreadable:
    """
    Give (start, end) of every item of the array at *place*, in the body's order; of a repeated name the last counts.

    Returns:
        ``Unreadable`` where *body* is nothing that ``parse_payload`` accepts, or where there are no items or too many.
    """
    try:
        parse_payload(body)
    except PayloadError as error:
        return Unreadable(reason=str(error))
    text = body.decode("latin-1")
    at = _array_at(text, place)
    if at is None:
        return Unreadable(reason=f"no array at {place}")
    spans = list(islice(_items(text, at), ITEMS_MAX + 1))
    if not spans:
        return Unreadable(reason=f"the array at {place} is empty")
    if len(spans) > ITEMS_MAX:
        return Unreadable(reason=f"the array at {place} has more than {ITEMS_MAX} items")
    return spans


def _array_at(text: str, place: BodyPlace) -> int | None:
    at = _skip(text, 0)
    for name in place.path:
        if text[at] != "{":
            return None
        found = [start for member, start in _members(text, at) if member == name]
        if not found:
            return None
        at = found[-1]
    return at if text[at] == "[" else None


def _members(text: str, at: int) -> Iterator[tuple[str, int]]:
    """Give the name and the start of the value of every member of the object that opens at *at*."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _SCANNER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)  # the colon
        yield name, at
        _, at = _SCANNER.raw_decode(text, at)
        at = _next(text, at)


def _items(text: str, at: int) -> Iterator[Span]:
    """Give start and end of every item of the array that opens at *at*."""
    at = _skip(text, at + 1)
    while text[at] != "]":
        start = at
        _, at = _SCANNER.raw_decode(text, at)
        yield start, at
        at = _next(text, at)


def _next(text: str, at: int) -> int:
    """Step over a comma and the blanks around it."""
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at
