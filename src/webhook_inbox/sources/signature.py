"""
Read signature headers strictly, and compare digests without telling anything but yes or no.

Every function here is total: any text in, a value or None out (P-CALM). Nothing here quotes what it read (P-QUIET).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable

from webhook_inbox.model.headers import Headers
from webhook_inbox.sources.source import Rejected

HEADER_CHARS_MAX = 4_096  # the longest real ones, with a signature for each of many secrets, stay far below
_DIGITS = re.compile(
    r"[0-9]{1,15}"
)  # no sign, no underscore, no digits of other scripts: all of which int() takes
_LOWER_HEX = re.compile(r"[0-9a-f]*")


def only_header(headers: Headers, name: str) -> str | Rejected:
    """Give the one value of the signature header *name*; refuse none, several, and one longer than any sender's."""
    values = headers.all(name)
    if not values or not values[0]:
        return Rejected("signature_missing", f"no {name} header")
    if len(values) > 1:
        return Rejected("signature_malformed", f"more than one {name} header")
    if len(values[0]) > HEADER_CHARS_MAX:
        return Rejected(
            "signature_malformed", f"{name} header malformed: longer than {HEADER_CHARS_MAX} characters"
        )
    return values[0]


def unix_time(text: str) -> int | None:
    """Give the whole number in *text*: 1 to 15 ASCII digits and nothing else, or None."""
    return int(text) if _DIGITS.fullmatch(text) else None


def outside_tolerance(signed_at: float, now: float, tolerance_seconds: float) -> Rejected | None:
    """
    Refuse a time that lies further than the tolerance from *now*, in the past or in the future (P-CLOCK).

    Args:
        signed_at: Unix seconds that the sender signed.
        now: Unix seconds on this host's clock.
    """
    if abs(now - signed_at) <= tolerance_seconds:
        return None
    return Rejected(
        "timestamp_out_of_tolerance",
        f"signed {_distance(now - signed_at)}, tolerance is {tolerance_seconds:g} seconds; "
        "if it was sent just now, this host's clock is wrong",
    )


def _distance(seconds: float) -> str:
    return f"{seconds:.0f} seconds ago" if seconds > 0 else f"{-seconds:.0f} seconds in the future"


def lower_hex(text: str, size: int) -> bytes | None:
    """Give the *size* bytes that *text* spells in lower-case hex, or None."""
    return bytes.fromhex(text) if len(text) == 2 * size and _LOWER_HEX.fullmatch(text) else None


def strict_base64(text: str, size: int) -> bytes | None:
    """Give the *size* bytes that *text* spells in standard base64, padding included, or None."""
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return value if len(value) == size else None


def any_equal(expected: bytes, candidates: Iterable[bytes]) -> bool:
    """Say whether *expected* is among *candidates*, in a time that does not depend on where they differ."""
    return any(hmac.compare_digest(expected, candidate) for candidate in candidates)


def mismatch(body: bytes) -> Rejected:
    """Refuse a well-formed signature that none of the secrets made over this body."""
    return Rejected(
        "signature_mismatch",
        f"the signature does not match these {len(body)} bytes; either a proxy or middleware changed the body, "
        "or it was signed with another secret",
    )
