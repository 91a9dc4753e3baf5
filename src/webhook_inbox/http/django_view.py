"""
Receive deliveries in a Django project: ``path("webhooks/<str:endpoint>", inbox.django_view())``.

A view is exempt from what stands between a sender and its signature: CSRF's token and ``LoginRequiredMiddleware``; and
from ``ATOMIC_REQUESTS``, under which nothing could be committed before the answer (P-ACK).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from webhook_inbox.http.asgi import AsgiReceiver
from webhook_inbox.http.framework import scope_in, stream_in
from webhook_inbox.http.incoming import Incoming
from webhook_inbox.http.route import last_segment
from webhook_inbox.http.stream import Stream
from webhook_inbox.http.wsgi import WsgiReceiver
from webhook_inbox.model.receipt import Receipt

# Of ``HttpRequest``, and for the endpoint's name where the route has one; Django has no types.
View: TypeAlias = Callable[..., Any]


def sync_view(receiver: WsgiReceiver, endpoint: str | None) -> View:
    """Make a ``def`` view; *endpoint* is what the route does not name."""

    def webhook(request: Any, endpoint: str | None = endpoint) -> Any:  # noqa: ANN401 - Django has no types
        incoming = _incoming(request)
        return _response(receiver.settle(incoming, endpoint or last_segment(incoming.scope)))

    return _exempt(webhook)


def async_view(receiver: AsgiReceiver, endpoint: str | None) -> View:
    """Make an ``async def`` view; *endpoint* is what the route does not name."""

    async def webhook(request: Any, endpoint: str | None = endpoint) -> Any:  # noqa: ANN401 - Django has no types
        incoming = _incoming(request)
        return _response(await receiver.settle(incoming, endpoint or last_segment(incoming.scope)))

    return _exempt(webhook)


def _incoming(request: Any) -> Incoming[Stream]:  # noqa: ANN401 - Django has no types
    return Incoming(scope_in(request), stream_in(request))


def _response(receipt: Receipt) -> Any:  # noqa: ANN401 - Django has no types
    from django.http import HttpResponse

    return HttpResponse(receipt.body, status=receipt.status, headers=dict(receipt.headers))


def _exempt(view: Any) -> View:  # noqa: ANN401 - a function, which is given attributes
    """Mark *view* as Django's own decorators do; two are not used, for before Django 5 they know no ``async def``."""
    from django.db import connections, transaction

    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    view.csrf_exempt, view.login_required = True, False
    marked: View = view
    return marked
