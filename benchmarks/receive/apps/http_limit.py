"""Read the body, verify its HMAC, answer 200, store nothing: the most that a Python process can do."""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable
from typing import Any

SECRET = os.environ["STRIPE_WEBHOOK_SECRET"].encode()
OK = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
BAD = {"type": "http.response.start", "status": 400, "headers": [(b"content-length", b"0")]}
END = {"type": "http.response.body", "body": b""}


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Serve one HTTP request."""
    chunks = []
    more = True
    while more:
        message = await receive()
        chunks.append(message["body"])
        more = message.get("more_body", False)
    header = next((value for name, value in scope["headers"] if name == b"stripe-signature"), b"")
    timestamp, _, signed = header.partition(b",v1=")
    expected = hmac.digest(SECRET, timestamp[2:] + b"." + b"".join(chunks), "sha256").hex().encode()
    await send(OK if hmac.compare_digest(expected, signed) else BAD)
    await send(END)
