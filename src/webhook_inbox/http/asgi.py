"""
Receive deliveries over ASGI: ``POST /{endpoint}``, bare or mounted under a prefix.

    head ──► url, endpoint, method, headers, framing ──► body ──► deliver ──► answer
             400 404 405 413 415 431                     408 413     the runtime's, never cancelled from here

Everything up to ``deliver`` is about bytes: nothing is parsed, nothing is stored (P-RAW). Whatever happens, the
client gets an answer that says no more than it needs to know: no traceback, no name of another endpoint (P-CALM,
P-QUIET).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from webhook_inbox.errors import BodyConsumedError
from webhook_inbox.http.answer import closing, finish, send_receipt
from webhook_inbox.http.body import LINGER_BYTES_MAX, Body
from webhook_inbox.http.lifespan import Lifespan, run_lifespan
from webhook_inbox.http.limits import check_url
from webhook_inbox.http.messages import Receive, Scope, Send
from webhook_inbox.http.request import take_delivery
from webhook_inbox.http.route import name_in
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.telemetry.events import ANSWER_UNSENT, BODY_CONSUMED, REQUEST_FAILED
from webhook_inbox.telemetry.registry import UNKNOWN_ENDPOINT, Metrics

Find: TypeAlias = Callable[[str], EndpointPlan | None]
Deliver: TypeAlias = Callable[[EndpointPlan, Delivery], Awaitable[Receipt]]


class AsgiReceiver:
    """
    Answer every HTTP request that reaches it; nothing leaves as an exception (P-CALM).

    Args:
        find: Gives an endpoint by name.
        deliver: Settles one delivery; runs to its end even where this request is cancelled.
        metrics: Where requests are counted.
        probe: Told of ``answer.before`` and ``answer.after``.
        lifespan: Entered when the ASGI server starts; a mounted app is not told (inbox.lifespan is for its host).
    """

    def __init__(
        self,
        *,
        find: Find,
        deliver: Deliver,
        metrics: Metrics | None = None,
        probe: Probe = no_probe,
        lifespan: Lifespan | None = None,
    ) -> None:
        self._find = find
        self._deliver = deliver
        self._metrics = metrics or Metrics()
        self._probe = probe
        self._lifespan = lifespan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        match scope["type"]:
            case "http":
                await self._serve(scope, receive, send)
            case "lifespan":
                await run_lifespan(self._lifespan, receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1000, "reason": ""})  # before accept: HTTP 403
            case _:
                return  # a protocol of the future; there is nothing to say in it

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _Request(scope, Body(receive))
        in_flight = self._metrics.in_flight
        in_flight.add(request)
        try:
            receipt = await self._settle(request)
            await self._answer(closing(receipt, scope), request, send)
        finally:
            in_flight.discard(request)

    async def _settle(self, request: _Request) -> Receipt:
        """Give the receipt; what the inbox has settled it has also counted, the rest is counted here."""
        try:
            found = self._endpoint(request.scope)
            if isinstance(found, Receipt):
                receipt = found
            else:
                request.endpoint = found
                taken = await take_delivery(request.scope, request.body, found)
                self._metrics.read(found.name, request.body.bytes_read)
                if isinstance(taken, Delivery):
                    return await self._deliver(found, taken)
                receipt = taken
        except BodyConsumedError as error:
            BODY_CONSUMED.log(request.name, error)
            receipt = answers.unavailable(error.code, "this endpoint is not set up; send it again")
        except Exception as error:  # noqa: BLE001 - our fault, whatever it is: the sender shall come again
            failure = describe(error)
            REQUEST_FAILED.log(request.name, failure, "\n  ".join(failure.frames))
            receipt = answers.unavailable("unexpected", "something unexpected happened; send it again")
        self._metrics.count(request.name, receipt)
        return receipt

    def _endpoint(self, scope: Scope) -> EndpointPlan | Receipt:
        if refusal := check_url(scope):
            return refusal
        name = name_in(scope)
        return self._find(name) or answers.unknown_endpoint(name)

    async def _answer(self, receipt: Receipt, request: _Request, send: Send) -> None:
        body, endpoint = request.body, request.endpoint
        self._probe("answer.before")
        try:
            await send_receipt(receipt, send, more_body=not body.ended)
            if not body.ended:  # refused before the body was complete
                await body.linger(LINGER_BYTES_MAX + (endpoint.body_bytes_max if endpoint else 0))
                await finish(send)
        except Exception as error:  # noqa: BLE001 - the server's own; the event is settled whatever it is
            failure = describe(error)
            ANSWER_UNSENT.log(request.name, failure, "\n  ".join(failure.frames))
        self._probe("answer.after")


class _Request:
    """Hold one request while it is in flight; *endpoint* is None until it is found."""

    __slots__ = ("body", "endpoint", "scope")

    def __init__(self, scope: Scope, body: Body) -> None:
        self.scope = scope
        self.body = body
        self.endpoint: EndpointPlan | None = None

    @property
    def name(self) -> str:
        return self.endpoint.name if self.endpoint else UNKNOWN_ENDPOINT
