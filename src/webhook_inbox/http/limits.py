"""
Bound what a request may cost before anybody believes it: URL, headers, encoding, framing, announced size.

All limits of the receiver stand here and in ``http/body.py``, which bounds what then arrives. Everything is checked
from the request's head alone; a request that is refused here has not had one byte of its body read.

What the HTTP server must bound itself, because no application is asked: the time that a request's *head* takes to
arrive, and the number of connections (``docs/reference/http.md``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from webhook_inbox.http.messages import Scope
from webhook_inbox.http.route import url_bytes
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan

URL_BYTES_MAX = 8_192
HEADERS_MAX = 128
LENGTH_DIGITS_MAX = 18
_DELIVERY_ID_CHARS_MAX = 128
_WATCHED = frozenset({b"content-encoding", b"content-length", b"host", b"transfer-encoding"})
# By these an operator finds a delivery on the provider's page and has it sent again (providers.md gives the sources).
_DELIVERY_ID_HEADERS = (
    "webhook-id",
    "svix-id",
    "x-github-delivery",
    "x-gitlab-event-uuid",
    "x-shopify-webhook-id",
    "x-request-uuid",
    "x-wc-webhook-delivery-id",
    "linear-delivery",
    "i-twilio-idempotency-token",
    "x-atlassian-webhook-identifier",
    "x-zendesk-webhook-invocation-id",
    "paypal-transmission-id",
    "idempotency-key",
)


@dataclass(frozen=True, slots=True)
class Head:
    """
    Hold what the head of an acceptable request says about the rest.

    Attributes:
        content_length: Bytes announced; None where the body is chunked or absent.
        host: The ``Host`` header, empty where there is none.
        chunked: Whether the body comes in chunks.
        received_at: When it was read; see ``Delivery``.
    """

    content_length: int | None
    host: str
    chunked: bool
    received_at: float


def check_url(scope: Scope) -> Receipt | None:
    """Refuse a URL that no provider has."""
    if url_bytes(scope) <= URL_BYTES_MAX:
        return None
    return answers.refused(400, "url_too_long", f"the URL is over {URL_BYTES_MAX} bytes")


def check_head(scope: Scope, endpoint: EndpointPlan) -> Head | Receipt:
    """
    Refuse a method, headers, an encoding, a framing or an announced size that *endpoint* does not take.

    Header names are in lower case (ASGI specification, HTTP connection scope). A server that lets contradictory
    framing through may disagree with the proxy before it about where this request ends, so nothing of the connection
    is trusted.

    Source: RFC 9112, sections 6.1 to 6.3 (message body length); RFC 9110, section 8.4 (content coding).
    Promises: P-CALM.
    """
    source, headers = endpoint.source, scope.get("headers") or ()
    if scope["method"] != "POST" and scope["method"] not in source.methods:
        return answers.wrong_method(source.methods)
    seen: dict[bytes, list[bytes]] = {}
    size = 0
    for name, value in headers:
        size += len(name) + len(value)
        if name in _WATCHED:
            seen.setdefault(name, []).append(value)
    if size > endpoint.settings.header_bytes_max:
        limit = f"{endpoint.settings.header_bytes_max} bytes (setting header_bytes_max)"
        return answers.refused(431, "headers_too_large", f"the headers are over {limit}")
    if len(headers) > HEADERS_MAX:
        return answers.refused(431, "headers_too_many", f"there are over {HEADERS_MAX} headers")
    return _check_seen(seen, scope, endpoint)


def _check_seen(seen: dict[bytes, list[bytes]], scope: Scope, endpoint: EndpointPlan) -> Head | Receipt:
    for value in seen.get(b"content-encoding", ()):
        if any(coding.strip(b" \t").lower() not in {b"", b"identity"} for coding in value.split(b",")):
            return answers.refused(
                415, "content_encoding", "send the body as it is signed: no Content-Encoding but identity"
            )
    hosts, lengths = seen.get(b"host", ()), seen.get(b"content-length", ())
    encodings = seen.get(b"transfer-encoding", ())
    if flaw := _framing_flaw(lengths, encodings, scope):
        return answers.refused(400, "framing", flaw)
    if len(hosts) > 1:
        return answers.refused(400, "host", "there is more than one Host header")
    length = int(lengths[0]) if lengths else None
    if length is not None and length > endpoint.body_bytes_max:
        return answers.body_too_large(endpoint.body_bytes_max)
    host = hosts[0].decode("latin-1") if hosts else _served_at(scope)
    return Head(length, host, chunked=bool(encodings), received_at=time.time())


def _framing_flaw(lengths: Sequence[bytes], encodings: Sequence[bytes], scope: Scope) -> str:
    """Say why nobody can be sure where the body ends; empty where all can."""
    if lengths and encodings:
        return "there is both Content-Length and Transfer-Encoding"
    if len(lengths) > 1:
        return "there is more than one Content-Length"
    if lengths and not (lengths[0].isdigit() and len(lengths[0]) <= LENGTH_DIGITS_MAX):
        return "Content-Length is no number"
    if encodings and (len(encodings) > 1 or encodings[0].strip(b" \t").lower() != b"chunked"):
        return "Transfer-Encoding is not chunked"
    if encodings and scope.get("http_version") == "1.0":
        return "HTTP/1.0 knows no Transfer-Encoding"
    return ""


def _served_at(scope: Scope) -> str:
    host, port = scope.get("server") or ("", None)
    return f"{host}:{port}" if port else str(host or "")


def delivery_id(headers: Headers) -> str:
    """Give ``header=value`` of the provider's id for this delivery, safe for a log line; empty where there is none."""
    for name in _DELIVERY_ID_HEADERS:
        if name in headers:
            return f"{name}={json.dumps(headers[name][:_DELIVERY_ID_CHARS_MAX])}"
    return ""
