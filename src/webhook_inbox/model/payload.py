"""
Read an event's bytes as JSON, strictly and the same on every Python.

The answer to "is this JSON?" must not depend on the interpreter's recursion limit, on its limit for the digits of an
integer, or on whether a receiver, a worker or the command line asks. So: UTF-8 without a byte order mark; nested at
most ``DEPTH_MAX``; no ``NaN`` or ``Infinity``; and a number that Python's int or float cannot hold exactly comes back
as ``Decimal``, never changed.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from math import isinf
from typing import Any, Never

from webhook_inbox.errors import PayloadError

DEPTH_MAX = 200
_INT_DIGITS_MAX = 4_300  # CPython refuses longer ones by default (sys.int_info.default_max_str_digits)
_BOM = b"\xef\xbb\xbf"
# Strings are skipped whole, so that brackets inside them do not count; no nested quantifier, so no backtracking.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


def parse_payload(body: bytes) -> Any:
    """
    Give the JSON value of *body*.

    Raises:
        PayloadError: Says what is wrong and at which byte; never quotes the body (P-QUIET).
    """
    check_text(body)
    try:
        return json.loads(
            body, parse_constant=_refuse_constant, parse_int=_exact_int, parse_float=_exact_float
        )
    except json.JSONDecodeError as error:
        raise PayloadError(f"not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise PayloadError(f"nested deeper than {DEPTH_MAX}") from None


def check_text(body: bytes) -> None:
    """
    Refuse bytes that no reader of ours accepts, before any of them builds a value.

    Raises:
        PayloadError: Not UTF-8, a byte order mark, or nested deeper than ``DEPTH_MAX``.
    """
    if body.startswith(_BOM):
        raise PayloadError("starts with a byte order mark; JSON is sent without one (RFC 8259, section 8.1)")
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise PayloadError(f"not UTF-8 at byte {error.start}") from None
    if nested_deeper_than(body, DEPTH_MAX):
        raise PayloadError(f"nested deeper than {DEPTH_MAX}")


def nested_deeper_than(body: bytes, limit: int) -> bool:
    """Say whether arrays and objects in *body* nest deeper than *limit*, without building any of them."""
    if body.count(b"[") + body.count(b"{") <= limit:
        return False  # the usual case, at memchr speed: too few brackets to nest that deep
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


def _refuse_constant(name: str) -> Never:
    raise PayloadError(f"not JSON: {name} is no number in JSON")


def _exact_int(text: str) -> int | Decimal:
    return int(text) if len(text) <= _INT_DIGITS_MAX else Decimal(text)


def _exact_float(text: str) -> float | Decimal:
    number = float(text)
    return Decimal(text) if isinf(number) else number
