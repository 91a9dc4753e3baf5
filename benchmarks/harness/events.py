"""
Write the events that all suites send: ``charge.succeeded`` as Stripe sends it, 3 KB, pretty-printed.

Each has ids of its own; all bodies have the same length, so that a file of them is read by position.

Source: docs.stripe.com/api/events/object and /api/charges/object, API version 2025-09-30.clover.
"""

from __future__ import annotations

import hmac
import random
from functools import cache
from pathlib import Path

SECRET = "whsec_benchmark0not0a0secret0000"  # noqa: S105 - signs nothing but these events
EVENT_TYPE = "charge.succeeded"
CUSTOMERS = 1_000
AMOUNTS = 900_000  # all of six digits
_DIGITS = 24

_PLACES = {b"evt": b"event", b"ch": b"charge", b"cus": b"customer"}
_TEMPLATE = Path(__file__).with_name("charge.json").read_bytes().rstrip(b"\n")


def _format() -> bytes:
    """Give the template as a format: replacing text in a body could meet the digits of another number in it."""
    made = _TEMPLATE.replace(b": 100000,", b": %(amount)b,")
    for prefix, name in _PLACES.items():
        made = made.replace(prefix + b"_" + b"0" * _DIGITS, prefix + b"_%(" + name + b")b")
    return made


_FORMAT = _format()


def event_id(number: int) -> str:
    """Give the id of event *number*, from 0."""
    return f"evt_{number:0{_DIGITS}d}"


def event_body(number: int) -> bytes:
    """Write event *number*: its own id and charge, one of ``CUSTOMERS`` customers, an amount of six digits in cents."""
    digits = b"%0*d" % (_DIGITS, number)
    return _FORMAT % {
        b"event": digits,
        b"charge": digits,
        b"customer": b"%0*d" % (_DIGITS, number % CUSTOMERS),
        b"amount": b"%d" % (100_000 + number % AMOUNTS),
    }


def sized_body(number: int, size: int) -> bytes:
    """Write event *number* with *size* bytes, at least 500: a short charge with a long description."""
    head = (
        b'{"id": "evt_%0*d", "object": "event", "api_version": "2025-09-30.clover", "created": 1790000000, "data": '
        % (
            _DIGITS,
            number,
        )
    )
    head += b'{"object": {"id": "ch_%0*d", "object": "charge", "amount": 100000, "description": "' % (
        _DIGITS,
        number,
    )
    tail = b'"}}, "livemode": false, "pending_webhooks": 1, "type": "charge.succeeded"}'
    return head + _filling(size - len(head) - len(tail)) + tail


@cache
def _filling(size: int) -> bytes:
    return random.Random(size).randbytes(size // 2 + 1).hex().encode()[:size]  # noqa: S311 - no key


def signature(body: bytes, timestamp: int) -> bytes:
    """Sign *body* as Stripe does, at *timestamp*, Unix seconds: the value of ``Stripe-Signature``."""
    stamp = b"%d" % timestamp
    digest = hmac.digest(SECRET.encode(), stamp + b"." + body, "sha256").hex().encode()
    return b"t=" + stamp + b",v1=" + digest
