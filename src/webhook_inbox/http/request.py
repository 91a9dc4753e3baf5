"""Turn one HTTP request into a delivery, or into the refusal that its sender deserves."""

from __future__ import annotations

import time
from typing import Any, Protocol

from webhook_inbox.errors import BodyConsumedError
from webhook_inbox.http.answer import closing
from webhook_inbox.http.body import Body
from webhook_inbox.http.limits import check_head, delivery_id
from webhook_inbox.http.messages import Message, Receive, Scope
from webhook_inbox.http.route import url_of
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.telemetry.events import DELIVERY_TOO_LARGE, REQUEST_REFUSED

_BODY_CONSUMED = (
    "the request's body was read before the inbox could read it, so its signature cannot be checked; "
    "hand the request on untouched: no form or body parameter in the route, and no middleware that reads the stream"
)


class HttpRequest(Protocol):
    """Name what is needed of a framework's request; Starlette's and FastAPI's have it."""

    @property
    def scope(self) -> Any:  # noqa: ANN401 - each framework has its own type
        """Give the ASGI scope."""

    @property
    def receive(self) -> Any:  # noqa: ANN401 - each framework has its own type
        """Give the ASGI server's ``receive``."""


async def read_request(request: HttpRequest, endpoint: EndpointPlan) -> Delivery | Receipt:
    """
    Give the delivery within a framework's *request*, or the receipt that refuses it; the limits are *endpoint*'s.

    Starlette keeps the exact bytes when a route or a middleware has called ``request.body()``; they are taken then.

    Raises:
        BodyConsumedError: The body was read and not kept, for instance by ``request.form()`` or ``request.stream()``.
    """
    kept = getattr(request, "_body", None)
    if kept is None and getattr(request, "_stream_consumed", False):
        raise BodyConsumedError(_BODY_CONSUMED)
    receive = request.receive if kept is None else _again(kept)
    taken = await take_delivery(request.scope, Body(receive), endpoint)
    return closing(taken, request.scope) if isinstance(taken, Receipt) else taken


async def take_delivery(scope: Scope, body: Body, endpoint: EndpointPlan) -> Delivery | Receipt:
    """
    Give the delivery that a request carries, its bytes as they were sent, or the receipt that refuses it.

    Raises:
        BodyConsumedError: The application in front of this receiver has read the body.

    Promises: P-RAW, P-CALM.
    """
    received_at = time.time()
    head = check_head(scope, endpoint)
    if isinstance(head, Receipt):
        return _logged(head, scope, body, endpoint)
    content = await body.read(endpoint, head.content_length)
    if isinstance(content, Receipt):
        return _logged(content, scope, body, endpoint)
    if not content and head.content_length:
        return _logged(_emptied(scope), scope, body, endpoint)
    return Delivery(
        method=scope["method"],
        url=url_of(scope, head.host),
        headers=_headers(scope),
        body=content,
        received_at=received_at,
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
    raise BodyConsumedError(_BODY_CONSUMED)


def _logged(refusal: Receipt, scope: Scope, body: Body, endpoint: EndpointPlan) -> Receipt:
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


def _again(content: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": content, "more_body": False}

    return receive
