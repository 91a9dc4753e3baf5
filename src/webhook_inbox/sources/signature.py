"""
Read signature headers strictly, and compare digests without telling anything but yes or no.

Every function here is total: any text in, a value or a refusal out (P-CALM). None quotes what it read (P-QUIET).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from webhook_inbox.model.headers import Headers
from webhook_inbox.sources.source import Rejected, Verdict

HEADER_CHARS_MAX = (
    4_096  # the longest real ones, with a signature for each of several secrets, stay far below
)
SIGNATURES_MAX = 16  # senders make one for each active secret; a stranger's ten thousand are not tried
# No sign, no underscore, no digits of other scripts, no leading zero: int() takes all of those, and whoever signs
# int(text) and whoever signs the text would then disagree about what was signed.
_WHOLE = re.compile(r"0|[1-9][0-9]{0,14}")
_LOWER_HEX = re.compile(r"[0-9a-f]*")
_UPPER_HEX = re.compile(r"[0-9A-F]*")

Part: TypeAlias = Literal["signature", "timestamp", "id"]
Encoding: TypeAlias = Literal["hex", "hex-upper", "base64"]
Decoder: TypeAlias = Callable[[str, int], bytes | None]


def only_header(headers: Headers, name: str, *, part: Part = "signature") -> str | Rejected:
    """
    Give the one value of the header *name*, in latin-1; refuse none, an empty one, several, and one of absurd length.

    Args:
        part: What the header carries, for the reason.
    """
    values = headers.all(name)
    if len(values) > 1:
        return Rejected(f"{part}_malformed", f"more than one {name} header")
    return _sound(values[0] if values else "", name, part)


def every_header(values: Iterable[str], *, name: str) -> list[str] | Rejected:
    """Give all *values* that came in the signature headers *name*; refuse none, and an empty or absurd one of them."""
    found = []
    for value in values:
        sound = _sound(value, name, "signature")
        if isinstance(sound, Rejected):
            return sound
        found.append(sound)
    return found or Rejected("signature_missing", f"no {name} header")


def _sound(value: str, name: str, part: Part) -> str | Rejected:
    if not value:
        return Rejected(f"{part}_missing", f"no {name} header")
    if len(value) > HEADER_CHARS_MAX:
        return Rejected(
            f"{part}_malformed", f"{name} header malformed: longer than {HEADER_CHARS_MAX} characters"
        )
    if not value.isascii() and max(value) > "\xff":
        return Rejected(f"{part}_malformed", f"{name} header malformed: no header holds such characters")
    return value


def unix_time(text: str) -> int | None:
    """Give the whole number that *text* spells in 1 to 15 ASCII digits, the one way there is, or None."""
    return int(text) if _WHOLE.fullmatch(text) else None


def outside_tolerance(signed_at: float, now: float, tolerance_seconds: float) -> Rejected | None:
    """
    Refuse a time that lies further than the tolerance from *now*, in the past or in the future (P-CLOCK).

    Args:
        signed_at: Unix seconds that the sender signed.
        now: Unix seconds on this host's clock.
    """
    age = now - signed_at
    if abs(age) <= tolerance_seconds:
        return None
    distance = f"{age:.0f} seconds ago" if age > 0 else f"{-age:.0f} seconds in the future"
    return Rejected(
        "timestamp_out_of_tolerance",
        f"signed {distance}, the tolerance is {tolerance_seconds:g} seconds; "
        "if it was sent just now, this host's clock is wrong",
    )


def lower_hex(text: str, size: int) -> bytes | None:
    """Give the *size* bytes that *text* spells in lower-case hex, or None."""
    return bytes.fromhex(text) if len(text) == 2 * size and _LOWER_HEX.fullmatch(text) else None


def upper_hex(text: str, size: int) -> bytes | None:
    """Give the *size* bytes that *text* spells in upper-case hex, or None."""
    return bytes.fromhex(text) if len(text) == 2 * size and _UPPER_HEX.fullmatch(text) else None


def strict_base64(text: str, size: int) -> bytes | None:
    """Give the *size* bytes of which *text* is the one spelling in standard base64, padding included, or None."""
    value = any_base64(text)
    return value if value is not None and len(value) == size else None


def any_base64(text: str) -> bytes | None:
    """Give the bytes of which *text* is the one spelling in standard base64, padding included, or None."""
    try:
        value = base64.b64decode(text)
    except (binascii.Error, ValueError):
        return None
    # A decoder passes over stray characters and over the unused bits of the last one; only the one spelling is taken.
    return value if base64.b64encode(value).decode() == text else None


def any_base64url(text: str) -> bytes | None:
    """Give the bytes of which *text* is the one spelling in base64 for URLs, without padding, or None."""
    try:
        value = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
    return value if base64.urlsafe_b64encode(value).rstrip(b"=").decode() == text else None


DECODERS: MappingProxyType[Encoding, tuple[Decoder, str]] = MappingProxyType(
    {
        "hex": (lower_hex, "lower-case hex"),
        "hex-upper": (upper_hex, "upper-case hex"),
        "base64": (strict_base64, "base64"),
    }
)


def digests(
    texts: list[str], *, encoding: Encoding, size: int, header: str, signatures_max: int = SIGNATURES_MAX
) -> list[bytes] | Rejected:
    """
    Give every digest of *size* bytes among *texts*; refuse where there is none.

    Args:
        texts: What stands in the header under the one version that counts, without its prefix.
    """
    if not texts:
        return Rejected("signature_version", f"no supported signature version in the {header} header")
    if len(texts) > signatures_max:
        return Rejected(
            "signature_malformed", f"{header} header malformed: more than {signatures_max} signatures"
        )
    decode, spelled = DECODERS[encoding]
    found = [digest for text in texts if (digest := decode(text, size)) is not None]
    if not found:
        return Rejected("signature_malformed", f"{header} header malformed: no {size} bytes in {spelled}")
    return found


def any_equal(expected: bytes, candidates: Iterable[bytes]) -> bool:
    """Say whether *expected* is among *candidates*, in a time that does not depend on where they differ."""
    return any(hmac.compare_digest(expected, candidate) for candidate in candidates)


def refused_with(status: int, verdict: Verdict) -> Verdict:
    """Give *verdict*, a refusal with the status that the provider's protocol asks for."""
    return replace(verdict, status=status) if isinstance(verdict, Rejected) else verdict


def mismatch(body: bytes) -> Rejected:
    """Refuse a well-formed signature that none of the secrets made over this body."""
    return Rejected(
        "signature_mismatch",
        f"the signature does not match these {len(body)} bytes; either a proxy or middleware changed the body, "
        "or it was signed with another secret",
    )
