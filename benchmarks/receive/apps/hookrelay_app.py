"""Receive with hookrelay's router and PostgreSQL backend, as its README says; the HMAC is ours: it has none."""

from __future__ import annotations

import hmac
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI
from hookrelay.backends.postgres import PostgresBackend
from hookrelay.fastapi import create_webhook_router
from sqlalchemy.ext.asyncio import create_async_engine

SECRET = os.environ["STRIPE_WEBHOOK_SECRET"].encode()
engine = create_async_engine(
    os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://"), pool_size=10, max_overflow=0
)
backend = PostgresBackend(engine)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Make the table."""
    await backend.init_schema()
    yield
    await engine.dispose()


def verify(body: bytes, headers: Mapping[str, str]) -> bool:
    """Say whether Stripe's signature is right."""
    timestamp, _, signed = headers.get("stripe-signature", "").partition(",v1=")
    expected = hmac.digest(SECRET, timestamp[2:].encode() + b"." + body, "sha256").hex()
    return hmac.compare_digest(expected, signed)


app = FastAPI(lifespan=lifespan)
app.include_router(
    create_webhook_router(
        backend=backend,
        source="stripe",
        path="",
        verify_signature=verify,
        idempotency_key=lambda payload: payload["id"],
    ),
    prefix="/stripe",
)
