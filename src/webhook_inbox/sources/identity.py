"""
Say once, for every source, what counts as an event's id, type, account and time, and read them from a body.

    fast     msgspec builds the few members that are wanted and skips the rest, checking its syntax as it goes
    careful  what msgspec does not take (an integer beyond 64 bits, half a surrogate pair) is read as a handler reads it

They differ in one thing that no rule below looks at: a fraction of many digits is a float to one and a Decimal to the
other. Both end in the same rules, and both accept exactly the bodies that ``Event.payload`` accepts. Of a repeated
name the last one counts, as for msgspec, for Python's json and for PostgreSQL's jsonb.
Promises: P-CALM.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import msgspec

from webhook_inbox.errors import PayloadError
from webhook_inbox.model.payload import check_text, parse_payload
from webhook_inbox.sources.source import Identity, Reading, Unreadable

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

    def read(self, body: bytes) -> tuple[object, ...] | Unreadable:
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
        return tuple([_at(tops[top], names) if names else tops[top] for top, names in self._places])

    def _read_carefully(self, body: bytes) -> tuple[object, ...] | Unreadable:
        try:
            value = parse_payload(body)
        except PayloadError as error:
            return Unreadable(reason=str(error))
        if not isinstance(value, dict):
            return Unreadable(reason="expected a JSON object")
        return tuple([_at(value.get(self._tops[top]), names) for top, names in self._places])


def _at(value: object, names: Path) -> object:
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Name where a source's ids, types and accounts stand, for the reasons that an operator reads."""

    event_id: str = "$.id"
    event_type: str = "$.type"
    account: str = "$.account"


def name_event(
    places: Places,
    *,
    event_id: object,
    event_type: object,
    account: object = None,
    environment: str = "",
    created: object = None,
    ignore: str = "",
) -> Reading:
    """Give the identity that the values name, or say which of them cannot be used."""
    event_id = text_of(event_id, what="event id", where=places.event_id)
    if isinstance(event_id, Unreadable):
        return event_id
    event_type = text_of(event_type, what="event type", where=places.event_type)
    if isinstance(event_type, Unreadable):
        return event_type
    if account is None or account == "":
        account = ""
    else:
        account = text_of(account, what="account", where=places.account)
        if isinstance(account, Unreadable):
            return account
    return Identity(
        event_id=event_id,
        event_type=event_type,
        account=account,
        environment=environment,
        created_at=time_of(created),
        ignore=ignore,
    )


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


def time_of(value: object) -> datetime | None:
    """
    Give the instant that *value* names, aware and in UTC; None where it is absent, unreadable or absurd.

    Args:
        value: Seconds since 1970; milliseconds where the number would be no year below 3000 in seconds; or a text in
            ISO 8601 (without an offset: UTC). Years 1970 to 2999.
    """
    match value:
        case bool():
            return None
        case int() | float() if 0 <= value < _CREATED_SECONDS_BEFORE:
            return _CREATED_FROM + timedelta(seconds=value)
        case int() | float() if _CREATED_SECONDS_BEFORE <= value < 1000 * _CREATED_SECONDS_BEFORE:
            return _CREATED_FROM + timedelta(milliseconds=value)
        case Decimal() if value.is_finite():
            return time_of(float(value))
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
