"""
Say where in a delivery a value stands, in the notation that users write.

    $.data.id                     a member of the JSON body; names hold no full stop, bracket, quote or white space
    header:X-GitHub-Delivery      the value of a header, whatever its letter case
    part:t                        what follows ``t=`` in the signature header, where that is a list of such parts
    digest                        the SHA-256 of the event's own bytes: an id for a provider that sends none
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias, assert_never

from webhook_inbox.errors import ConfigurationError, PayloadError
from webhook_inbox.model.form import json_of
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources.identity import Path, Reader
from webhook_inbox.sources.source import Unreadable

_NAME = r"""[!#-&(-\-/-Z\\^-~]+"""  # printable ASCII without space " ' . [ ]
_BODY = re.compile(rf"\$((?:\.{_NAME})*)")
_HEADER_NAME = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"  # RFC 9110, section 5.6.2
_HEADER = re.compile(f"header:({_HEADER_NAME})")
_PART = re.compile(r"part:([A-Za-z0-9_-]+)")


@dataclass(frozen=True, slots=True)
class BodyPlace:
    """Point into the JSON body; an empty path is the body itself."""

    path: Path

    def __str__(self) -> str:
        return ".".join(("$", *self.path))


@dataclass(frozen=True, slots=True)
class HeaderPlace:
    """Point at a header, by its name in lower case."""

    name: str

    def __str__(self) -> str:
        return f"header:{self.name}"


@dataclass(frozen=True, slots=True)
class PartPlace:
    """Point at a named part of the signature header."""

    name: str

    def __str__(self) -> str:
        return f"part:{self.name}"


@dataclass(frozen=True, slots=True)
class DigestPlace:
    """Stand for the SHA-256 of the event's own bytes: the same bytes are the same event."""

    def __str__(self) -> str:
        return "digest"


Place: TypeAlias = BodyPlace | HeaderPlace | PartPlace
IdPlace: TypeAlias = BodyPlace | HeaderPlace | DigestPlace


def place_of(text: str, *, setting: str) -> Place:
    """
    Give the place that *text* names.

    Args:
        setting: What to call it in an error, for instance ``Hmac(event_id=...)``.

    Raises:
        ConfigurationError: *text* is in none of the three notations.
    """
    if body := _BODY.fullmatch(text):
        return BodyPlace(tuple(body[1].split(".")[1:]))
    if header := _HEADER.fullmatch(text):
        return HeaderPlace(header[1].lower())
    if part := _PART.fullmatch(text):
        return PartPlace(part[1])
    raise ConfigurationError(
        f"{setting} must read like '$.data.id', 'header:X-Event-Id' or 'part:t', not {text!r}"
    )


def header_of(name: str, *, setting: str) -> str:
    """
    Give the header's *name* in lower case.

    Raises:
        ConfigurationError: *name* is no name of a header.
    """
    if re.fullmatch(_HEADER_NAME, name):
        return name.lower()
    raise ConfigurationError(f"{setting} must be the name of a header, such as 'X-Hub-Signature-256'")


def member_of(text: str, *, setting: str) -> BodyPlace:
    """
    Give the member of the JSON body that *text* names.

    Raises:
        ConfigurationError: *text* names no member: a header, say, which the signature does not cover.
    """
    place = place_of(text, setting=setting)
    if isinstance(place, BodyPlace) and place.path:
        return place
    raise ConfigurationError(f"{setting} must name a member of the signed JSON body, such as '$.data.id'")


def member_or_header_of(text: str, *, setting: str) -> BodyPlace | HeaderPlace:
    """
    Give the member of the JSON body or the header that *text* names.

    Raises:
        ConfigurationError: *text* names neither.
    """
    place = place_of(text, setting=setting)
    return place if isinstance(place, HeaderPlace) else member_of(text, setting=setting)


def id_place_of(text: str, *, setting: str) -> IdPlace:
    """
    Give the place of an event id, or of a part of one.

    Raises:
        ConfigurationError: *text* is neither ``digest`` nor names a member of the body or a header.
    """
    return DigestPlace() if text == "digest" else member_or_header_of(text, setting=setting)


class Fields:
    """
    Read a fixed list of values from headers and body.

    Args:
        places: Where each stands; None for a value that this source does not have.
    """

    __slots__ = ("_places", "_reader")

    def __init__(self, places: Sequence[IdPlace | None]) -> None:
        self._places = tuple(places)
        self._reader = Reader(*(place.path for place in places if isinstance(place, BodyPlace)))

    def read(self, headers: Headers, body: bytes) -> tuple[object, ...] | Unreadable:
        """
        Give one value for each place, in order; None where it is null or absent, and for a header sent twice.

        Returns:
            ``Unreadable`` where *body* is neither a JSON object nor a form, even if every value stands in a header.
        """
        try:
            members = self._reader.read(json_of(headers, body))
        except PayloadError as error:
            return Unreadable(reason=str(error))
        if isinstance(members, Unreadable):
            return members
        rest = iter(members)
        return tuple(
            [
                next(rest) if isinstance(place, BodyPlace) else _beside(place, headers, body)
                for place in self._places
            ]
        )


def _beside(place: HeaderPlace | DigestPlace | None, headers: Headers, body: bytes) -> str | None:
    match place:
        case HeaderPlace(name):
            values = headers.all(name)
            return values[0] if len(values) == 1 else None
        case DigestPlace():
            return f"sha256:{sha256(body).hexdigest()}"
        case None:
            return None
        case _:
            assert_never(place)
