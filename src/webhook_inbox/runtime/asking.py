"""Make one request of a provider's API, on the calling thread: bounded in time and size, and following nothing."""

from __future__ import annotations

import http.client
import ssl
import time
from urllib.parse import urlsplit

from webhook_inbox._version import __version__
from webhook_inbox.model.headers import Headers
from webhook_inbox.protocol.asking import Unanswered
from webhook_inbox.sources.deadline import hold_to
from webhook_inbox.sources.listing import Request, Response

# A process that stops waits for the thread that asks: less than a worker is given to stop (stop_seconds_max).
SECONDS_MAX = 20.0
BYTES_MAX = 64 * 1_048_576
_CHUNK_BYTES = 65_536


def ask(request: Request) -> Response | Unanswered:
    """Give what is answered, or why nothing is; never raises for what the other side does."""
    parts = urlsplit(request.url)
    connection = _connection(parts.scheme, parts.hostname or "", parts.port)
    hold_to(connection, time.monotonic() + SECONDS_MAX)
    headers = {"accept-encoding": "identity", "user-agent": f"webhook-inbox/{__version__}"}
    try:
        method = "GET" if request.body is None else "POST"
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, target, request.body, headers | dict(request.headers))
        response = connection.getresponse()
        body = _read(response)
        return Response(status=response.status, headers=Headers(response.getheaders()), body=body)
    except _TooLargeError:
        return Unanswered(reason=f"it answers with more than {BYTES_MAX} bytes", later=False)
    except (OSError, http.client.HTTPException) as error:
        # What the exception says may be anybody's words; its name says what to look for.
        return Unanswered(reason=f"{parts.hostname} cannot be asked: {type(error).__name__}")
    finally:
        connection.close()


class _TooLargeError(Exception):
    """An answer that is not read to its end."""


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=SECONDS_MAX / 2)
    return http.client.HTTPSConnection(
        host, port, timeout=SECONDS_MAX / 2, context=ssl.create_default_context()
    )


def _read(response: http.client.HTTPResponse) -> bytes:
    content = bytearray()
    while chunk := response.read1(_CHUNK_BYTES):
        content += chunk
        if len(content) > BYTES_MAX:
            raise _TooLargeError
    if response.length:  # the other side has hung up before it said all
        raise http.client.IncompleteRead(b"", response.length)
    return bytes(content)
