"""Start and stop with the ASGI server, and say why where that fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from webhook_inbox.errors import InboxError
from webhook_inbox.http.messages import Message, Receive, Send
from webhook_inbox.model.failure import describe

Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]


async def run_lifespan(lifespan: Lifespan | None, receive: Receive, send: Send) -> None:
    """
    Enter *lifespan* when the server starts and leave it, in the same task, when the server stops.

    A failure is told to the server in one sentence, and the server refuses to start (P-QUIET).
    """
    await receive()
    started = False
    try:
        if lifespan is None:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        else:
            async with lifespan():
                started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
    except Exception as error:  # noqa: BLE001 - whatever it is, the server logs this one sentence
        await send(_failed("shutdown" if started else "startup", error))
    else:
        await send({"type": "lifespan.shutdown.complete"})


def _failed(stage: str, error: Exception) -> Message:
    message = str(error) if isinstance(error, InboxError) else str(describe(error))
    return {"type": f"lifespan.{stage}.failed", "message": f"webhook-inbox: {stage} failed: {message}"}
