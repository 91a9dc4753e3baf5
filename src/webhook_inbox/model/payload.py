"""
Read an event's bytes as JSON, strictly and the same on every Python.

The answer to "is this JSON?" must not depend on the interpreter's recursion limit, on its limit for the digits of an
integer, or on whether a receiver, a worker or the command line asks. So: UTF-8 without a byte order mark; nested at
most ``DEPTH_MAX``; no ``NaN`` or ``Infinity``; and a number that an int or a float would change, or that an interpreter
may refuse, comes back as ``Decimal``. (Beyond what even that can hold, it is the Decimal ``sNaN``, which raises where
it is used: an event is not lost for a number that its handler never looks at.)
"""

from __future__ import annotations

import json
import re
import sys
from decimal import Decimal, DecimalException
from math import inf
from typing import Any, Never

from webhook_inbox.errors import PayloadError

DEPTH_MAX = 200
_INT_CHARS_MAX = (
    640  # the lowest limit that an interpreter can be set to (sys.int_info.str_digits_check_threshold)
)
_FLOAT_CHARS_MAX = (
    sys.float_info.dig + 1
)  # that many digits and a point come back from a float as they went in
_BOM = b"\xef\xbb\xbf"
# Strings are skipped whole, so that brackets inside them do not count. One pass, whatever is sent: possessive, so that
# nothing is tried twice; and a string that never ends is skipped too, so that the search does not begin anew inside it.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def parse_payload(body: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """
    Give the JSON value of *body*; of a repeated name the last one counts.

    Raises:
        PayloadError: Says what is wrong and at which character; never quotes the body (P-QUIET).
    """
    text = check_text(body)
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, parse_int=_exact_int, parse_float=_exact_float
        )
    except json.JSONDecodeError as error:
        raise PayloadError(f"not JSON at character {error.pos}") from None
    except RecursionError:
        raise PayloadError(f"nested deeper than {DEPTH_MAX}") from None


def check_text(body: bytes) -> str:
    """
    Give *body* as text, unless no reader of ours accepts it; no value is built.

    Raises:
        PayloadError: Not UTF-8, a byte order mark, or nested deeper than ``DEPTH_MAX``.
    """
    if body.startswith(_BOM):
        raise PayloadError("starts with a byte order mark; JSON is sent without one (RFC 8259, section 8.1)")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise PayloadError(f"not UTF-8 at byte {error.start}") from None
    if nested_deeper_than(body, DEPTH_MAX):
        raise PayloadError(f"nested deeper than {DEPTH_MAX}")
    return text


def nested_deeper_than(body: bytes, limit: int) -> bool:
    """Say whether arrays and objects in *body* nest deeper than *limit*, without building any of them."""
    if _count(body, b"[", limit) + _count(body, b"{", limit) <= limit:
        return False  # the usual case: too few brackets to nest that deep
    depth = 0
    for token in _TOKENS.finditer(body):
        match token[0]:
            case b"[" | b"{":
                depth += 1
                if depth > limit:
                    return True
            case b"]" | b"}":
                depth -= 1
            case _:
                pass  # a string
    return False


def _count(body: bytes, bracket: bytes, limit: int) -> int:
    """Count *bracket* in *body*, up to one above *limit*; bytes.replace finds it five times as fast as bytes.count."""
    return len(body) - len(body.replace(bracket, b"", limit + 1))


def _refuse_constant(name: str) -> Never:
    raise PayloadError(f"not JSON: {name} is no number in JSON")


def _exact_int(text: str) -> int | Decimal:
    return int(text) if len(text) <= _INT_CHARS_MAX else Decimal(text)


def _exact_float(text: str) -> float | Decimal:
    number = float(text)
    if len(text) <= _FLOAT_CHARS_MAX and sys.float_info.min <= abs(number) < inf:
        return number  # the usual case
    try:
        exact = Decimal(text)
    except DecimalException:  # an exponent of more than 18 digits
        return Decimal("sNaN")
    return number if exact == Decimal(repr(number)) else exact
