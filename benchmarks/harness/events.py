"""
Write the events that all suites send: ``charge.succeeded`` as Stripe sends it, 3 KB, pretty-printed.

Each has ids of its own; all bodies have the same length, so that a file of them is read by position.

Source: docs.stripe.com/api/events/object and /api/charges/object, API version 2025-09-30.clover.
"""

from __future__ import annotations

import hmac
from pathlib import Path

SECRET = "whsec_benchmark0not0a0secret0000"  # noqa: S105 - signs nothing but these events
EVENT_TYPE = "charge.succeeded"
CUSTOMERS = 1_000
AMOUNTS = 900_000  # all of six digits
_DIGITS = 24

_EVENT, _CHARGE, _CUSTOMER = (prefix + b"0" * _DIGITS for prefix in (b"evt_", b"ch_", b"cus_"))
_AMOUNT = b"100000"
_TEMPLATE = Path(__file__).with_name("charge.json").read_bytes().rstrip(b"\n")


def event_id(number: int) -> str:
    """Give the id of event *number*, from 0."""
    return f"evt_{number:0{_DIGITS}d}"


def event_body(number: int) -> bytes:
    """Write event *number*: its own id and charge, one of ``CUSTOMERS`` customers, an amount of six digits in cents."""
    digits = b"%0*d" % (_DIGITS, number)
    customer = b"%0*d" % (_DIGITS, number % CUSTOMERS)
    amount = b"%d" % (100_000 + number % AMOUNTS)
    return (
        _TEMPLATE.replace(_EVENT, b"evt_" + digits)
        .replace(_CHARGE, b"ch_" + digits)
        .replace(_CUSTOMER, b"cus_" + customer)
        .replace(_AMOUNT, amount)
    )


def signature(body: bytes, timestamp: int) -> bytes:
    """Sign *body* as Stripe does, at *timestamp*, Unix seconds: the value of ``Stripe-Signature``."""
    stamp = b"%d" % timestamp
    digest = hmac.digest(SECRET.encode(), stamp + b"." + body, "sha256").hex().encode()
    return b"t=" + stamp + b",v1=" + digest
