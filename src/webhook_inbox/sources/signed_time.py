"""Read the time that a provider signs, wherever it stands, and hold it against this host's clock."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias, assert_never

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources.identity import Reader, time_of
from webhook_inbox.sources.keys import check_tolerance
from webhook_inbox.sources.place import BodyPlace, HeaderPlace, PartPlace, Place, member_of, place_of
from webhook_inbox.sources.signature import only_header, outside_tolerance, unix_time
from webhook_inbox.sources.source import Rejected, Unreadable

TimeUnit: TypeAlias = Literal["s", "ms", "iso"]
_ISO_TIME = re.compile(r"[0-9TZ:.+-]{16,40}")  # fromisoformat takes more than any sender means

# Until the year 2286; a text in ISO 8601 has an end that nothing can be cut from or added to.
_WHOLE_LENGTH: Mapping[TimeUnit, re.Pattern[str]] = MappingProxyType(
    {"s": re.compile("[0-9]{10}"), "ms": re.compile("[0-9]{13}"), "iso": re.compile("[^Z]*Z")}
)


@dataclass(frozen=True, slots=True)
class SignedTime:
    """
    Say where the signed time stands and how old it may be.

    Attributes:
        place: A header, a part of the signature header, or a member of the signed body.
        unit: Unix seconds, Unix milliseconds, or a text in ISO 8601.
        tolerance_seconds: How far it may lie from this host's clock, in the past and in the future.
        reader: Reads the member, where *place* is one.
        bare: Whether it is signed with nothing between it and its neighbour. Then it must have the one length that its
            unit has today: else a digit could pass from the time to the body, and one signature stand for both.
    """

    place: Place
    unit: TimeUnit
    tolerance_seconds: float
    reader: Reader | None
    bare: bool = False

    def sent(self, headers: Headers, parts: Sequence[str]) -> str | Rejected:
        """
        Give the time exactly as it was sent, if it is one; empty where it stands in the body.

        Args:
            parts: Of the signature header.
        """
        match self.place:
            case HeaderPlace(name):
                text = only_header(headers, name, part="timestamp")
            case PartPlace(name):
                text = _only_part(parts, f"{name}=")
            case BodyPlace():
                return ""
            case _:
                assert_never(self.place)
        return text if isinstance(text, Rejected) or self._seconds(text) is not None else self._unreadable()

    def refuse_late(self, sent: str, body: bytes, now: float) -> Rejected | None:
        """
        Refuse a time outside the tolerance; asked only after the signature was found good.

        Args:
            sent: What ``sent`` gave.
            now: Unix seconds on this host's clock.
        """
        seconds = self._seconds(_member(self.reader, body) if self.reader else sent)
        if seconds is None:
            return self._unreadable()
        return outside_tolerance(seconds, now, self.tolerance_seconds)

    def _seconds(self, text: str) -> float | None:
        if self.bare and not _WHOLE_LENGTH[self.unit].fullmatch(text):
            return None
        if self.unit == "iso":
            moment = time_of(text) if _ISO_TIME.fullmatch(text) else None
            return moment.timestamp() if moment else None
        number = unix_time(text)
        if number is None:
            return None
        return number if self.unit == "s" else number / 1000

    def _unreadable(self) -> Rejected:
        return Rejected("timestamp_malformed", f"no signed time can be read at {self.place}")


def _member(reader: Reader, body: bytes) -> str:
    """Give the one value as text; where it is no time, the text is none either."""
    values = reader.read(body)
    return "" if isinstance(values, Unreadable) else str(values[0])


def signed_time_of(
    timestamp: str,
    *,
    unit: TimeUnit,
    tolerance_seconds: float | None,
    in_template: bool,
    separator: str,
    bare: bool,
) -> SignedTime | None:
    """
    Read a description; the arguments are those of ``Hmac``.

    Args:
        in_template: Whether the signed content has a slot for the time.
        bare: As in ``SignedTime``.

    Raises:
        ConfigurationError: A time that is not signed, or has no tolerance, or the other way round.
    """
    if not timestamp:
        if in_template or tolerance_seconds is not None:
            raise ConfigurationError("Hmac(timestamp=...) must say where the signed time stands")
        return None
    if tolerance_seconds is None:
        raise ConfigurationError("Hmac(tolerance_seconds=...) is required: how old may the signed time be?")
    place = place_of(timestamp, setting="Hmac(timestamp=...)")
    if isinstance(place, BodyPlace) == in_template:
        raise ConfigurationError(
            "Hmac(signed=...) must hold {timestamp} if, and only if, timestamp stands outside the body: "
            "a time that is not signed proves nothing"
        )
    if isinstance(place, PartPlace) and not separator:
        raise ConfigurationError(
            "Hmac(separator=...) must say what separates the parts of the signature header"
        )
    tolerance_seconds = check_tolerance(tolerance_seconds, setting="Hmac(tolerance_seconds=...)")
    if not isinstance(place, BodyPlace):
        return SignedTime(place, unit, tolerance_seconds, None, bare)
    member = member_of(timestamp, setting="Hmac(timestamp=...)")
    return SignedTime(member, unit, tolerance_seconds, Reader(member.path))


def _only_part(parts: Sequence[str], prefix: str) -> str | Rejected:
    found = [part.removeprefix(prefix) for part in parts if part.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    reason = "timestamp_malformed" if found else "timestamp_missing"
    return Rejected(
        reason, f"signature header malformed: {len(found)} parts start with {prefix}, expected one"
    )
