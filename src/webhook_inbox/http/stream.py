"""
Read one body from a file, as WSGI servers and Django hand it on, within the limits of ``http/body.py``.

A read blocks until the server has that much. Between two reads the clock is looked at; within one only the connection
can be told how long to wait, where the server shows it. Elsewhere a sender that stalls holds a thread until the
server's own limit ends that (``docs/reference/http.md``).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol, Self

from webhook_inbox.errors import BodyConsumedError
from webhook_inbox.http.body import LINGER_SECONDS_MAX, as_announced, client_gone, too_slow
from webhook_inbox.http.limits import LENGTH_DIGITS_MAX
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan

_READ_BYTES = 8_192  # small: a read of more is a read that may last longer
_SOCKETS = ("gunicorn.socket", "werkzeug.socket")


class Readable(Protocol):
    """Name what is needed of a file."""

    def read(self, size: int, /) -> bytes:
        """Give up to *size* bytes, fewer only at the end."""
        ...


class Stream:
    """
    Receive one request's body from *file*.

    Args:
        file: The server's, the framework's, or one of bytes that were kept.
        length: How many bytes may be read, where *file* goes on after the body as a socket does; None: it ends there.
        connection: The client's, where the server tells.

    Attributes:
        bytes_read: How much has arrived so far.
        ended: Whether nothing more is waited for.
    """

    __slots__ = ("_connection", "_file", "_length", "bytes_read", "ended")

    def __init__(
        self, file: Readable, *, length: int | None = None, connection: socket.socket | None = None
    ) -> None:
        self._file = file
        self._length = length
        self._connection = connection
        self.bytes_read = 0
        self.ended = length == 0

    @classmethod
    def of_environ(cls, environ: Mapping[str, Any]) -> Self:
        """Receive the body of a WSGI request; ``wsgi.input_terminated`` says that a server ends chunked ones too."""
        announced = str(environ.get("CONTENT_LENGTH") or "")
        # A longer one is refused by ``check_head`` in a moment, and Python by itself would not read it.
        length = int(announced) if announced.isdecimal() and len(announced) <= LENGTH_DIGITS_MAX else 0
        return cls(
            environ["wsgi.input"],
            length=None if environ.get("wsgi.input_terminated") else length,
            connection=connection_in(environ),
        )

    def read(self, endpoint: EndpointPlan, content_length: int | None, *, chunked: bool) -> bytes | Receipt:
        """
        Give the exact bytes, or the refusal of a body that is too large, too slow or cut short; see ``Body.read``.

        Args:
            chunked: Whether the head says that the body comes in chunks.

        Raises:
            BodyConsumedError: *file* stands for a body that was read and not kept.

        Promises: P-RAW, P-CALM.
        """
        if chunked and self._length is not None:
            return answers.refused(
                411, "length_required", "this server reads no chunked body; send its length"
            )
        try:
            body = self._collect(endpoint)
        except BodyConsumedError:
            raise
        except OSError as error:
            self.ended = True
            late = isinstance(error.__cause__ or error, TimeoutError)  # Django puts one of its own around it
            body = too_slow(self.bytes_read) if late else client_gone()
        except Exception:  # noqa: BLE001 - each server has its own for chunks that are none
            self.ended = True
            body = answers.refused(400, "framing", "the body could not be read")
        if body == b"" and content_length and self._client_is_gone():
            return client_gone()
        return as_announced(body, content_length) if isinstance(body, bytes) else body

    def linger(self, bytes_max: int) -> None:
        """Discard what a refused client still sends; see ``Body.linger``."""
        ends_at = time.monotonic() + LINGER_SECONDS_MAX
        with suppress(Exception):  # the answer is given
            while not self.ended and self.bytes_read < bytes_max and (left := ends_at - time.monotonic()) > 0:
                self._next(left)

    def _collect(self, endpoint: EndpointPlan) -> bytes | Receipt:
        limit, settings = endpoint.body_bytes_max, endpoint.settings
        due = time.monotonic() + settings.body_seconds_max
        body = bytearray()
        while not self.ended:
            left = due + len(body) // settings.body_bytes_per_second_min - time.monotonic()
            if left <= 0:
                raise TimeoutError
            body += self._next(left)
            if len(body) > limit:
                return answers.body_too_large(limit)
        return bytes(body)

    def _next(self, seconds_max: float) -> bytes:
        size = _READ_BYTES if self._length is None else min(_READ_BYTES, self._length - self.bytes_read)
        with _bounded(self._connection, seconds_max):
            chunk = self._file.read(size)
        self.bytes_read += len(chunk)
        self.ended = not chunk or self.bytes_read == self._length
        return chunk

    def _client_is_gone(self) -> bool:
        """
        Say whether it was the client that ended the body before its first byte, and not the application.

        Nothing more is known of a connection that is not shown, or that speaks TLS. A file of the socket's own, such as
        wsgiref's, tells by itself: it ends where the client has ended it, whoever has read before.
        """
        if self._connection is None:
            return isinstance(getattr(self._file, "raw", None), socket.SocketIO)
        try:
            return not self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
        except ValueError:  # ssl.SSLSocket takes no flags
            return False


def connection_in(environ: Mapping[str, Any]) -> socket.socket | None:
    """Give the client's connection, where the server shows it."""
    return next((environ[key] for key in _SOCKETS if key in environ), None)


@contextmanager
def _bounded(connection: socket.socket | None, seconds_max: float) -> Iterator[None]:
    """Let no read of *connection* wait longer than *seconds_max*; it is then as the server had it."""
    if connection is None:
        yield
        return
    before = connection.gettimeout()
    connection.settimeout(seconds_max)
    try:
        yield
    finally:
        connection.settimeout(before)
