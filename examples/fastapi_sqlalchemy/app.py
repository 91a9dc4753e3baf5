"""Serve the shop: uvicorn app:api."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from models import LedgerEntry
from sqlalchemy import select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from webhooks import make_inbox

engine = create_async_engine(os.environ["DATABASE_URL"])
sessions = async_sessionmaker(engine, expire_on_commit=False)
inbox = make_inbox(sessions)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Work off what is received while the server runs; a mounted app's own lifespan does not run."""
    async with inbox.running(worker=True):
        yield
    await engine.dispose()


api = FastAPI(lifespan=lifespan)
api.mount("/webhooks", inbox.asgi())  # POST /webhooks/billing


@api.get("/ledger")
async def ledger() -> list[dict[str, str | int]]:
    """Show what is booked."""
    async with sessions() as session:
        entries = await session.scalars(select(LedgerEntry).order_by(LedgerEntry.id))
        return [
            {"invoice": each.invoice_id, "amount": each.amount, "currency": each.currency} for each in entries
        ]
