"""
Take the delivery out of a framework's own request, whose body is still to be read or was kept.

| request | head | body |
| --- | --- | --- |
| Starlette, FastAPI, Litestar | its ASGI scope | its ``receive``; or what it keeps once somebody called ``body()`` |
| Flask and whatever else has a WSGI ``environ`` | the environ | ``wsgi.input``; or what ``get_data()`` has kept |
| Django | the scope or the environ | what the request reads from, or has kept as ``request.body`` |

A body that was read and not kept is gone: then nobody can check its signature, and an exception says so. It is never
the sender who is blamed for that.
"""

from __future__ import annotations

import io
from typing import Any, Protocol, TypeAlias

from webhook_inbox.errors import BodyConsumedError, ConfigurationError
from webhook_inbox.http.body import Body
from webhook_inbox.http.environ import scope_of
from webhook_inbox.http.messages import Scope
from webhook_inbox.http.request import BODY_CONSUMED
from webhook_inbox.http.stream import Stream, connection_in

# Under the first Starlette, Litestar and Django keep what they have read, under the second Flask.
_KEPT_AS = ("_body", "_cached_data")


class AsgiRequest(Protocol):
    """Name what is needed of a request of Starlette's, FastAPI's or Litestar's."""

    @property
    def scope(self) -> Any:  # noqa: ANN401 - each framework has its own type
        """Give the ASGI scope."""

    @property
    def receive(self) -> Any:  # noqa: ANN401 - each framework has its own type
        """Give the ASGI server's ``receive``."""


class WsgiRequest(Protocol):
    """Name what is needed of a request of Flask's, or of another framework over WSGI."""

    @property
    def environ(self) -> Any:  # noqa: ANN401 - each framework has its own type
        """Give the WSGI environ."""


class DjangoRequest(Protocol):
    """Name what is needed of a request of Django's; it has a scope or an environ as well."""

    META: Any

    def read(self, size: int = ..., /) -> bytes:
        """Read the body."""
        ...


HttpRequest: TypeAlias = AsgiRequest | WsgiRequest | DjangoRequest


def scope_in(request: HttpRequest) -> Scope:
    """
    Give the head of *request*.

    Raises:
        ConfigurationError: It is no request of a framework.
    """
    scope: Scope | None = getattr(request, "scope", None)
    if scope is not None:
        return scope
    environ = getattr(request, "environ", None)
    if environ is None:
        raise ConfigurationError(
            f"receive_request takes the framework's own request, not a {type(request).__name__}; what a route of your "
            "own has read goes to inbox.receive(endpoint, headers=..., body=...)"
        )
    return scope_of(environ)


def body_in(request: HttpRequest) -> Body | Stream:
    """Give what the body of *request* is read by, within an event loop."""
    if hasattr(request, "receive") and _kept(request) is None and not _is_gone(request):
        return Body(request.receive)
    return stream_in(request)


def stream_in(request: HttpRequest) -> Stream:
    """Give what the body of a request of Flask's or Django's is read by, or one that was kept."""
    kept = _kept(request)
    environ = getattr(request, "environ", {})
    # Django under WSGI takes a body without a length for none, and has then "kept" nothing of it.
    if not kept and environ.get("wsgi.input_terminated") and not environ.get("CONTENT_LENGTH"):
        return Stream.of_environ(environ)
    if kept is not None:
        return Stream(io.BytesIO(kept))
    if _is_gone(request):
        return Stream(_Gone())
    if not hasattr(request, "read"):
        return Stream.of_environ(environ)
    readable: Any = request
    return Stream(readable, connection=connection_in(environ))


def _kept(request: HttpRequest) -> bytes | None:
    """Give the exact bytes that the framework has kept; None where it has none."""
    found = (getattr(request, name, None) for name in _KEPT_AS)
    return next((kept for kept in found if isinstance(kept, bytes)), None)


def _is_gone(request: HttpRequest) -> bool:
    """Say whether somebody has read what was not kept."""
    return (
        getattr(request, "_stream_consumed", False)  # Starlette
        or getattr(request, "is_connected", True) is False  # Litestar
        or getattr(request, "_read_started", False)  # Django
        or _is_begun(
            getattr(request, "__dict__", {}).get("stream")
        )  # Flask, where it was asked for its stream
    )


def _is_begun(stream: Any) -> bool:  # noqa: ANN401 - what Flask reads from
    """Say whether *stream* was read from, where it can tell."""
    try:
        return bool(stream.tell())
    except (AttributeError, OSError, ValueError):
        return False


class _Gone:
    """Stand for a body that nobody can read any more."""

    def read(self, size: int, /) -> bytes:  # noqa: ARG002 - as a file is read
        """
        Say so.

        Raises:
            BodyConsumedError: Always.
        """
        raise BodyConsumedError(BODY_CONSUMED)
