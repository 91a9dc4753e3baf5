"""Deliver a letter to an ASGI app within this process, without a server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.faults.ledger import Answer
from tests.faults.sender import Letter


async def deliver(app: Callable[..., Awaitable[None]], letter: Letter, **headers: str) -> Answer:
    """Make one request of *letter*, with *headers* beside its own."""
    sent: list[dict[str, Any]] = []
    pairs = {**letter.headers, **letter.sign(letter.body), **headers}
    scope = {
        "type": "http",
        "method": "POST",
        "http_version": "1.1",
        "scheme": "http",
        "path": letter.path,
        "raw_path": letter.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in pairs.items()],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": letter.body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    given = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], given, b"".join(message.get("body", b"") for message in sent[1:]))
