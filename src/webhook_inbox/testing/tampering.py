"""
Change good deliveries in the ways that a stranger could, for ``source_conformance``.

Whoever does it knows at most one good delivery, but for ``other_digests``: those are what the provider would send if it
signed with another algorithm than it does.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers

# What may stand in a signature header; the first ones are read by careless programs as "no signature to compare".
HOSTILE_TEXTS = (
    "",
    " ",
    "\0",
    "\r\n x",
    "=",
    ",",
    ";",
    "v1",
    "v1,",
    "sha256=",
    "é" * 64,
    "\u0661" * 10,
    "\ud800",
    "0" * 64,
    "A" * 43 + "=",
    "a" * 1_000_000,
    "v1=," * 10_000,
    "v1, " * 10_000,
    "h1=;" * 10_000,
)
HOSTILE_BODIES = (
    b"",
    b" ",
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"null",
    b"1",
    b'"text"',
    b"{",
    b"{}",
    b"[]",
    b"[1,2]",
    b"payload=",
    b"payload=%7B%7D",
    b"a=%FF",
    b'{"id":"\\ud800","type":1}',
    b"[" * 100_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b'{"n":' + b"9" * 5_000 + b"}",
)
_LABELS = ("v0", "v1", "v1a", "v2", "h1", "h2", "t", "ts", "sha1", "sha256", "sha512")
_LABEL = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z][A-Za-z0-9]{0,9}(?=[=,])")
_DIGEST = re.compile(r"[A-Za-z0-9+/]{20,}=*")
_ALGORITHMS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")


def with_header(delivery: Delivery, name: str, *values: str) -> Delivery:
    """Give *delivery* with the header *name* once for each of *values*."""
    pairs = [pair for pair in delivery.headers.pairs if pair[0] != name]
    return replace(delivery, headers=Headers([*pairs, *((name, value) for value in values)]))


def flips(value: bytes) -> Iterator[tuple[int, bytes]]:
    """Give *value* with each of its bits changed in turn, and the byte in which it is."""
    for position, byte in enumerate(value):
        for bit in range(8):
            yield position, value[:position] + bytes([byte ^ 1 << bit]) + value[position + 1 :]


def other_labels(value: str) -> Iterator[str]:
    """Give a signature header with each of its labels (``v1=``, ``sha256=``) replaced by every other that is in use."""
    for found in _LABEL.finditer(value):
        for label in _LABELS:
            if label != found[0]:
                yield value[: found.start()] + label + value[found.end() :]


def other_digests(value: str, secret: str, body: bytes) -> Iterator[str]:
    """
    Give a signature header with digests of *body* in place of its own, as hex and as base64.

    By every algorithm, with the secret and without.
    """
    for algorithm in _ALGORITHMS:
        keyed = hmac.digest(secret.encode(), body, algorithm)
        for digest in (keyed, hashlib.new(algorithm, body).digest()):
            for text in (digest.hex(), b64encode(digest).decode("ascii")):
                yield _DIGEST.sub(text, value)
