"""
Receive deliveries over WSGI: ``POST /{endpoint}``, bare or mounted under a prefix.

The same limits and answers as ``http/asgi.py``, on the thread that the server gave. Two things are the server's own
here: how long one read of a stalled body may block, and the end of the connection, which no application may ask for
(PEP 3333, "Other HTTP Features").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any, Protocol, TypeAlias

from webhook_inbox.http.answer import at_fault, headers_of
from webhook_inbox.http.body import LINGER_BYTES_MAX
from webhook_inbox.http.environ import scope_of
from webhook_inbox.http.incoming import Find, Incoming
from webhook_inbox.http.request import take_delivery_sync
from webhook_inbox.http.stream import Stream
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.telemetry.registry import Metrics

DeliverSync: TypeAlias = Callable[[EndpointPlan, Delivery], Receipt]


class StartResponse(Protocol):
    """Begin a WSGI response."""

    def __call__(self, status: str, headers: list[tuple[str, str]], /) -> object:
        """Take the status line and the headers."""
        ...


class WsgiReceiver:
    """
    Answer every HTTP request that reaches it; nothing leaves as an exception (P-CALM).

    Args:
        find: Gives an endpoint by name.
        deliver: Settles one delivery on the calling thread.
        metrics: Where requests are counted.
        probe: Told of ``answer.before`` and ``answer.after``.
    """

    def __init__(
        self,
        *,
        find: Find,
        deliver: DeliverSync,
        metrics: Metrics | None = None,
        probe: Probe = no_probe,
    ) -> None:
        self._find = find
        self._deliver = deliver
        self._metrics = metrics or Metrics()
        self._probe = probe

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request."""
        request = Incoming(scope_of(environ), Stream.of_environ(environ))
        receipt = self.settle(request)
        self._probe("answer.before")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers_of(receipt)]
        start_response(f"{receipt.status} {HTTPStatus(receipt.status).phrase}", headers)
        return self._answer(b"" if request.scope["method"] == "HEAD" else receipt.body, request)

    def settle(self, request: Incoming[Stream], name: str | None = None) -> Receipt:
        """
        Give the receipt; what the inbox has settled it has also counted, the rest is counted here.

        Args:
            name: Of the endpoint; None: the path names it.
        """
        self._metrics.in_flight.add(request)
        try:
            found = request.seek(self._find, name)
            if isinstance(found, Receipt):
                receipt = found
            else:
                taken = take_delivery_sync(request.scope, request.body, found)
                self._metrics.read(found.name, request.body.bytes_read)
                if isinstance(taken, Delivery):
                    return self._deliver(found, taken)
                receipt = taken
        except Exception as error:  # noqa: BLE001 - whatever it is: the sender shall come again
            receipt = at_fault(request.name, error)
        finally:
            self._metrics.in_flight.discard(request)
        self._metrics.count(request.name, receipt)
        return receipt

    def _answer(self, body: bytes, request: Incoming[Stream]) -> Iterator[bytes]:
        yield body
        limit = request.endpoint.body_bytes_max if request.endpoint else 0
        request.body.linger(LINGER_BYTES_MAX + limit)  # refused before the body was complete
        self._probe("answer.after")
