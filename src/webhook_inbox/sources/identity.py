"""
Say once, for every source, what counts as an event's id, type, account and time, and read them from a body.

    fast     msgspec builds the few members that are wanted and skips the rest, checking its syntax as it goes
    careful  what msgspec does not take (an integer beyond 64 bits, half a surrogate pair) is read as a handler reads it

Both end in the same rules, and neither accepts a body that ``Event.payload`` would refuse. Of a repeated name the last
one counts, as for msgspec, for Python's json and for PostgreSQL's jsonb.
Promises: P-CALM.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec

from webhook_inbox.errors import PayloadError
from webhook_inbox.model.payload import check_text, parse_payload
from webhook_inbox.sources.source import Unreadable

TEXT_CHARS_MAX = 255
_CREATED_CHARS_MAX = 64
_CREATED_FROM = datetime(1970, 1, 1, tzinfo=UTC)
_CREATED_BEFORE = datetime(3000, 1, 1, tzinfo=UTC)
_CREATED_SECONDS_BEFORE = int(_CREATED_BEFORE.timestamp())

Path: TypeAlias = tuple[str, ...]


class Reader:
    """
    Read the values at a few places of a JSON object, without building the rest of it.

    Args:
        paths: Names of members from the outermost in: ``("data", "id")`` is ``$.data.id``.
    """

    __slots__ = ("_decoder", "_places", "_tops")

    def __init__(self, *paths: Path) -> None:
        self._tops = tuple(dict.fromkeys(path[0] for path in paths))
        self._places = tuple((self._tops.index(path[0]), path[1:]) for path in paths)
        fields = [f"f{position}" for position in range(len(self._tops))]
        members = msgspec.defstruct(
            "Members",
            [(field, Any, None) for field in fields],
            rename=dict(zip(fields, self._tops, strict=True)),
        )
        self._decoder = msgspec.json.Decoder(members)

    def read(self, body: bytes) -> tuple[Any, ...] | Unreadable:
        """
        Give one value for each path, in the order of the paths; None where it is null or absent.

        Returns:
            ``Unreadable`` where *body* is no JSON object, or none that ``parse_payload`` accepts.
        """
        try:
            check_text(body)
            tops = msgspec.structs.astuple(self._decoder.decode(body))
        except (msgspec.DecodeError, RecursionError):
            return self._read_carefully(body)
        except PayloadError as error:
            return Unreadable(reason=str(error))
        return tuple([_at(tops[top], names) for top, names in self._places])

    def _read_carefully(self, body: bytes) -> tuple[Any, ...] | Unreadable:
        try:
            value = parse_payload(body)
        except PayloadError as error:
            return Unreadable(reason=str(error))
        if not isinstance(value, dict):
            return Unreadable(reason="expected a JSON object")
        return tuple([_at(value.get(self._tops[top]), names) for top, names in self._places])


def _at(value: Any, names: Path) -> Any:
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def text_of(value: object, *, what: str, where: str) -> str | Unreadable:
    """
    Give *value* as a text of 1 to ``TEXT_CHARS_MAX`` characters that can be stored and compared, unchanged.

    An integer becomes its decimal digits. White space and letter case are kept: they are significant.

    Args:
        value: As read from the JSON, or a header's value.
        what: For the reason, for instance ``event id``.
        where: For the reason, for instance ``$.id``.
    """
    match value:
        case str() if value and not value.isspace():
            text = value
        case int() if not isinstance(value, bool):
            text = str(value)
        case _:
            return Unreadable(reason=f"no {what} at {where}")
    if len(text) > TEXT_CHARS_MAX:
        return Unreadable(reason=f"{what} at {where} is {len(text)} characters, limit {TEXT_CHARS_MAX}")
    if "\0" in text:
        return Unreadable(reason=f"{what} at {where} holds a NUL character, which PostgreSQL cannot store")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return Unreadable(reason=f"{what} at {where} holds half a surrogate pair, which is no character")
    return text


def optional_text_of(value: object, *, what: str, where: str) -> str | Unreadable:
    """Give *value* as ``text_of`` does, but an empty text where it is null, absent or empty."""
    if value is None or value == "":
        return ""
    return text_of(value, what=what, where=where)


def time_of(value: object) -> datetime | None:
    """
    Give the instant that *value* names, aware and in UTC; None where it is absent, unreadable or absurd.

    Args:
        value: Unix seconds, or a text in ISO 8601 (without an offset: UTC). Years 1970 to 2999.
    """
    match value:
        case bool():
            return None
        case int() | float() if 0 <= value < _CREATED_SECONDS_BEFORE:  # also false for NaN
            return datetime.fromtimestamp(value, UTC)
        case str() if len(value) <= _CREATED_CHARS_MAX:
            return _time_of_text(value)
        case _:
            return None


def _time_of_text(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if _CREATED_FROM <= moment < _CREATED_BEFORE else None
