"""Begin deliveries and do not end them: what a slow or hostile client does to a receiver without deadlines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from webhook_inbox.testing.audit.wire import Line, Wire

SECONDS_MAX = 15.0
_SMALL_BYTES = 1_024
_BEGINNING = b'{"id": "'
_HEADERS = (("content-type", "application/json"),)


@contextmanager
def stalled(wire: Wire, lines: int = 1, *, declared_bytes: int = _SMALL_BYTES) -> Iterator[list[Line]]:
    """
    Hold *lines* deliveries for the block whose bodies never come to the end that they declare.

    None is left to what comes after it; a receiver that serves few connections could not answer there.

    Raises as ``Wire.lines``.
    """
    with wire.lines(lines) as begun:
        for line in begun:
            line.send(wire.head("POST", _HEADERS, declared_bytes) + _BEGINNING)
        yield begun
