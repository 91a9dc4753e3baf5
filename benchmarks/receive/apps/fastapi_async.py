"""Receive as a careful author does: raw body, only the signature from Stripe's library, an async pool."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import stripe
from fastapi import FastAPI, HTTPException, Request
from psycopg_pool import AsyncConnectionPool

SECRET = os.environ["STRIPE_WEBHOOK_SECRET"]
TOLERANCE_SECONDS = 300
pool = AsyncConnectionPool(os.environ["DATABASE_URL"], min_size=10, max_size=10, open=False)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Open the pool."""
    await pool.open(wait=True)
    yield
    await pool.close()


app = FastAPI(lifespan=lifespan)


@app.post("/stripe")
async def receive(request: Request) -> dict[str, str]:
    """Record the event, unless it is known."""
    body = (await request.body()).decode()
    try:
        stripe.WebhookSignature.verify_header(
            body, request.headers.get("stripe-signature", ""), SECRET, TOLERANCE_SECONDS
        )
    except stripe.SignatureVerificationError as error:
        raise HTTPException(status_code=400) from error
    event = json.loads(body)
    async with pool.connection() as conn:
        await conn.execute(
            "INSERT INTO webhook_events (id, type, payload) VALUES (%s, %s, %s) ON CONFLICT (id) DO NOTHING",
            (event["id"], event["type"], body),
        )
    return {"status": "received"}
