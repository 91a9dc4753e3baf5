"""
Hold the whole of an HTTP answer to a deadline.

A socket's timeout begins anew with each byte: whoever sends one of a header every few seconds would keep the thread
that waits for it for hours.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


def hold_to(connection: http.client.HTTPConnection, until: float) -> None:
    """
    Have every answer on *connection* read to its end by *until*, a monotonic time; what takes longer is a TimeoutError.

    To connect, and to send the request, may take the connection's own timeout each.
    """
    # http.client calls it with the socket, wherever it wants an answer.
    connection.response_class = partial(_Answer, until=until)  # type: ignore[assignment]


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *given: Any, until: float, **named: Any) -> None:  # noqa: ANN401
        super().__init__(sock, *given, **named)
        self.fp = io.BufferedReader(_Reading(self.fp.detach(), sock, until))


class _Reading(io.RawIOBase):
    """Read from *sock* by way of *raw*, each time for as long as is left."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, until: float) -> None:
        self._raw = raw
        self._sock = sock
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()
