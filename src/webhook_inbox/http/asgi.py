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

from webhook_inbox.http.answer import at_fault, closing, finish, send_receipt
from webhook_inbox.http.body import LINGER_BYTES_MAX, Body
from webhook_inbox.http.incoming import Find, Incoming
from webhook_inbox.http.lifespan import Lifespan, run_lifespan
from webhook_inbox.http.messages import Receive, Scope, Send
from webhook_inbox.http.request import take_delivery
from webhook_inbox.http.stream import Stream
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.telemetry.events import ANSWER_UNSENT
from webhook_inbox.telemetry.registry import Metrics

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
        request = Incoming(scope, Body(receive))
        in_flight = self._metrics.in_flight
        in_flight.add(request)
        try:
            receipt = await self._settle(request)
            await self._answer(closing(receipt, scope), request, send)
        finally:
            in_flight.discard(request)

    async def settle(self, request: Incoming[Stream], name: str) -> Receipt:
        """Give the receipt of a request that the framework answers, for the endpoint called *name*."""
        in_flight = self._metrics.in_flight
        in_flight.add(request)
        try:
            return await self._settle(request, name)
        finally:
            in_flight.discard(request)

    async def _settle(self, request: Incoming[Body | Stream], name: str | None = None) -> Receipt:
        """Give the receipt; what the inbox has settled it has also counted, the rest is counted here."""
        try:
            found = request.seek(self._find, name)
            if isinstance(found, Receipt):
                receipt = found
            else:
                taken = await take_delivery(request.scope, request.body, found)
                self._metrics.read(found.name, request.body.bytes_read)
                if isinstance(taken, Delivery):
                    return await self._deliver(found, taken)
                receipt = taken
        except Exception as error:  # noqa: BLE001 - whatever it is: the sender shall come again
            receipt = at_fault(request.name, error)
        self._metrics.count(request.name, receipt)
        return receipt

    async def _answer(self, receipt: Receipt, request: Incoming[Body], send: Send) -> None:
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
