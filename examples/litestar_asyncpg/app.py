"""Serve the shop: uvicorn app:app."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import asyncpg
from litestar import Litestar, asgi
from litestar.types import Receive, Scope, Send
from webhooks import make_inbox

inbox = make_inbox(partial(asyncpg.create_pool, os.environ["DATABASE_URL"]))
receiver = inbox.asgi()


@asynccontextmanager
async def lifespan(_: Litestar) -> AsyncIterator[None]:
    """Work off what is received while the server runs; a mounted app's own lifespan does not run."""
    async with inbox.running(worker=True):
        yield


@asgi("/webhooks", is_mount=True, copy_scope=True)
async def webhooks(scope: Scope, receive: Receive, send: Send) -> None:
    """Receive: POST /webhooks/payments."""
    await receiver(scope, receive, send)


app = Litestar([webhooks], lifespan=[lifespan])
