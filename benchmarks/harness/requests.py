"""Prepare signed requests, ready to be written to a socket, before the clock runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.events import signature

PATH = "/stripe"
_HEAD = (
    b"POST /stripe HTTP/1.1\r\n"
    b"Host: 127.0.0.1\r\n"
    b"Accept: */*; q=0.5, application/xml\r\n"
    b"Cache-Control: no-cache\r\n"
    b"Content-Type: application/json; charset=utf-8\r\n"
    b"User-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)\r\n"
    b"Content-Length: %d\r\n"
    b"Stripe-Signature: %b\r\n"
    b"\r\n"
    b"%b"
)


@dataclass(frozen=True, slots=True)
class Requests:
    """
    Hold requests that lie behind one another in a file.

    Attributes:
        file: Removed by whoever made its folder.
        bytes_each: Every request is this long.
        count: How many there are; each has an event id of its own.
    """

    file: Path
    bytes_each: int
    count: int


def write_requests(file: Path, body: Callable[[int], bytes], *, first: int, count: int) -> Requests:
    """
    Write the requests that deliver *body* of *count* numbers, from *first* on, signed as of now.

    A signature is good for 300 s: send them at once.
    """
    timestamp = int(time.time())
    length = 0
    with file.open("wb", buffering=1 << 20) as target:
        for number in range(first, first + count):
            length = target.write(request(body(number), timestamp))
    return Requests(file, length, count)


def request(body: bytes, timestamp: int) -> bytes:
    """Give the whole HTTP request that delivers *body*, signed at *timestamp*."""
    return _HEAD % (len(body), signature(body, timestamp), body)
