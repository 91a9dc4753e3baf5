"""Serve the mail service: uvicorn app:app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Mount
from webhooks import make_inbox

inbox = make_inbox()


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """Work off what is received while the server runs; a mounted app's own lifespan does not run."""
    async with inbox.running(worker=True):
        yield


app = Starlette(routes=[Mount("/webhooks", inbox.asgi())], lifespan=lifespan)  # POST /webhooks/mail
