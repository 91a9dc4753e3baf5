"""Send a receipt back, to a client that may be gone; answer for what went wrong on our side."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from webhook_inbox.errors import BodyConsumedError
from webhook_inbox.http.messages import Scope, Send
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.protocol import answers
from webhook_inbox.telemetry.events import BODY_CONSUMED
from webhook_inbox.telemetry.results import log_defect

_CLIENT_ERRORS = range(400, 500)
_NO_CONTENT = 204  # has no content-length, not even of 0 (RFC 9110, section 8.6)
_WITHOUT_CONNECTION_HEADER = frozenset(
    {"2", "3"}
)  # as ASGI writes them; "2.0" is an HTTP/1 request that lies


async def send_receipt(receipt: Receipt, send: Send, *, more_body: bool = False) -> None:
    """
    Send *receipt* as an ASGI response.

    A client that has hung up is no error: its event is settled, and the provider's resend will hear of it.

    Args:
        more_body: Whether to leave the response open; close it with ``finish``.
    """
    headers = headers_of(receipt)
    try:
        await send({"type": "http.response.start", "status": receipt.status, "headers": headers})
        await send({"type": "http.response.body", "body": receipt.body, "more_body": more_body})
    except OSError:  # the client is gone (ASGI specification, HTTP, "Disconnected Client")
        return


async def finish(send: Send) -> None:
    """End a response that was left open."""
    try:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    except OSError:
        return


def headers_of(receipt: Receipt) -> list[tuple[bytes, bytes]]:
    """Give every header of the answer, its length included, in a list of the caller's own."""
    headers = list(_encoded(receipt.headers))
    if receipt.status != _NO_CONTENT:
        headers.append((b"content-length", b"%d" % len(receipt.body)))
    return headers


def at_fault(endpoint: str, error: Exception) -> Receipt:
    """
    Answer for *error*, which is our fault or the application's and not the sender's: it shall come again (P-ACK).

    The log has what happened; the sender hears a constant sentence (P-QUIET).
    """
    if isinstance(error, BodyConsumedError):
        BODY_CONSUMED.log(endpoint, error)
        return answers.unavailable(error.code, "this endpoint is not set up; send it again")
    log_defect(endpoint, error)
    return answers.unavailable("unexpected", "something unexpected happened; send it again")


def closing(receipt: Receipt, scope: Scope) -> Receipt:
    """
    Have a 4xx close its connection: where a request was not understood, nobody can be sure where the next one begins.

    HTTP/2 and later have no such header (RFC 9113, section 8.2.2).
    """
    if receipt.status not in _CLIENT_ERRORS or scope.get("http_version") in _WITHOUT_CONNECTION_HEADER:
        return receipt
    return replace(receipt, headers=(*receipt.headers, ("connection", "close")))


@lru_cache(maxsize=64)
def _encoded(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    """Encode headers; nearly all answers have one of a few sets."""
    return [(name.encode("latin-1"), _one_line(value)) for name, value in headers]


def _one_line(value: str) -> bytes:
    """Encode a header value; a control character in it would end the header (response splitting), so none is sent."""
    if not value.isprintable():
        value = "".join(character for character in value if character.isprintable())
    return value.encode("latin-1", "replace")
