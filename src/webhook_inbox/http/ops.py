"""
Tell operators and their machines how the inbox is: ``/healthz``, ``/readyz``, ``/metrics``.

An ASGI app of its own, for a port or a path that providers do not reach. It shows no secret, no payload and no DSN,
but it does tell a reader which endpoints there are.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from webhook_inbox.errors import InboxError
from webhook_inbox.http.lifespan import run_lifespan
from webhook_inbox.http.messages import Receive, Scope, Send
from webhook_inbox.http.route import name_in
from webhook_inbox.model.failure import describe
from webhook_inbox.telemetry.registry import Metrics

READY_SECONDS_MAX = 5.0
_JSON = "application/json"


class OpsApp:
    """
    Answer probes and scrapes.

    Args:
        check: Raises an ``InboxError`` where the database is away, read-only, or of a schema that cannot be served.
        metrics: What is exposed.
    """

    def __init__(self, *, check: Callable[[], Awaitable[None]], metrics: Metrics) -> None:
        self._check = check
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        match scope["type"]:
            case "http":
                await _reply(send, *await self._page(scope))
            case "lifespan":
                await run_lifespan(None, receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1000, "reason": ""})
            case _:
                return

    async def _page(self, scope: Scope) -> tuple[int, bytes, str]:
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, _json(error="read with GET"), _JSON
        match name_in(scope):
            case "healthz":
                return 200, _json(status="alive"), _JSON
            case "readyz":
                return await self._ready()
            case "metrics":
                return 200, *self._metrics.expose()
            case _:
                return 404, _json(error="there are /healthz, /readyz and /metrics"), _JSON

    async def _ready(self) -> tuple[int, bytes, str]:
        """Ask the database, for a bounded time: a probe that hangs would pile up behind the next one."""
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                await self._check()
        except InboxError as error:
            return 503, _json(status="not ready", reason=error.code, error=str(error)), _JSON
        except TimeoutError:
            reason = f"no answer from the database within {READY_SECONDS_MAX:g}s"
            return 503, _json(status="not ready", reason="timeout", error=reason), _JSON
        except Exception as error:  # noqa: BLE001 - a probe must be answered; P-QUIET holds for its text
            return 503, _json(status="not ready", reason="unexpected", error=str(describe(error))), _JSON
        return 200, _json(status="ready"), _JSON


def _json(**fields: str) -> bytes:
    return json.dumps(fields).encode()


async def _reply(send: Send, status: int, body: bytes, content_type: str) -> None:
    headers = [
        (b"content-type", content_type.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if status == 405:  # noqa: PLR2004 - RFC 9110, section 15.5.6
        headers.append((b"allow", b"GET, HEAD"))
    try:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
    except OSError:
        return  # the prober has hung up
