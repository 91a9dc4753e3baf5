"""Turn one HTTP request into a delivery, or into the refusal that its sender deserves."""

from __future__ import annotations

from webhook_inbox.errors import BodyConsumedError
from webhook_inbox.http.body import Body
from webhook_inbox.http.limits import Head, check_head, delivery_id
from webhook_inbox.http.messages import Scope
from webhook_inbox.http.route import url_of
from webhook_inbox.http.stream import Stream
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.telemetry.events import DELIVERY_TOO_LARGE, REQUEST_REFUSED

BODY_CONSUMED = (
    "the request's body was read before the inbox could read it, so its signature cannot be checked; "
    "hand the request on untouched: no form or body parameter in the route, and no middleware that reads the stream"
)


async def take_delivery(scope: Scope, body: Body | Stream, endpoint: EndpointPlan) -> Delivery | Receipt:
    """
    Give the delivery that a request carries, its bytes as they were sent, or the receipt that refuses it.

    Raises:
        BodyConsumedError: The application in front of this receiver has read the body.

    Promises: P-RAW, P-CALM.
    """
    if isinstance(body, Stream):
        return take_delivery_sync(scope, body, endpoint)
    head = _accepted(scope, body, endpoint)
    if isinstance(head, Receipt):
        return head
    content = await body.read(endpoint, head.content_length)
    return _delivered(scope, body, endpoint, head, content)


def take_delivery_sync(scope: Scope, body: Stream, endpoint: EndpointPlan) -> Delivery | Receipt:
    """Give what ``take_delivery`` gives, on the calling thread."""
    head = _accepted(scope, body, endpoint)
    if isinstance(head, Receipt):
        return head
    content = body.read(endpoint, head.content_length, chunked=head.chunked)
    return _delivered(scope, body, endpoint, head, content)


def _accepted(scope: Scope, body: Body | Stream, endpoint: EndpointPlan) -> Head | Receipt:
    head = check_head(scope, endpoint)
    return _logged(head, scope, body, endpoint) if isinstance(head, Receipt) else head


def _delivered(
    scope: Scope,
    body: Body | Stream,
    endpoint: EndpointPlan,
    head: Head,
    content: bytes | Receipt,
) -> Delivery | Receipt:
    if not content and head.content_length:
        content = _emptied(scope)
    if isinstance(content, Receipt):
        return _logged(content, scope, body, endpoint)
    return Delivery(
        method=scope["method"],
        url=url_of(scope, head.host),
        headers=_headers(scope),
        body=content,
        received_at=head.received_at,
    )


def _headers(scope: Scope) -> Headers:
    return Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]])


def _emptied(scope: Scope) -> Receipt:
    """
    Give the refusal of a body that was announced and is called complete without one byte of it.

    uvicorn on httptools drops the body of a request that asks for an upgrade other than to WebSocket; Java's HttpClient
    asks for ``h2c`` on every first request without TLS. Beside that no server does it: a middleware has read the body.

    Raises:
        BodyConsumedError: The application in front of this receiver has read the body.
    """
    if any(name == b"upgrade" for name, _ in scope["headers"]):
        return answers.refused(
            400, "upgrade", "send the request without an Upgrade header; its body was lost"
        )
    raise BodyConsumedError(BODY_CONSUMED)


def _logged(refusal: Receipt, scope: Scope, body: Body | Stream, endpoint: EndpointPlan) -> Receipt:
    """Leave one line; for a body refused for its size, with all that is needed to find the gap and have it filled."""
    match refusal.reason:
        case "method":
            pass  # a browser or a scanner; the answer says all there is to say
        case "body_too_large":
            headers = _headers(scope)
            size = headers.get("content-length") or f"at least {body.bytes_read}"
            DELIVERY_TOO_LARGE.log(
                endpoint.name, size, endpoint.body_bytes_max, delivery_id(headers) or "no delivery id"
            )
        case _:
            REQUEST_REFUSED.log(endpoint.name, refusal.reason)
    return refusal
