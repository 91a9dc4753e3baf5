"""Receive as most tutorials do: ``def`` on the thread pool, Stripe's library, one transaction a request."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import stripe
from fastapi import Depends, FastAPI, Header, HTTPException, Request
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

SECRET = os.environ["STRIPE_WEBHOOK_SECRET"]
pool = ConnectionPool(os.environ["DATABASE_URL"], min_size=10, max_size=10, open=False)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Open the pool."""
    pool.open(wait=True)
    yield
    pool.close()


app = FastAPI(lifespan=lifespan)


async def read_body(request: Request) -> bytes:
    """Give the raw bytes, which the signature covers."""
    return await request.body()


@app.post("/stripe")
def receive(
    payload: Annotated[bytes, Depends(read_body)],
    stripe_signature: Annotated[str, Header()],
) -> dict[str, str]:
    """Record the event, unless it is known."""
    try:
        event = stripe.Webhook.construct_event(payload, stripe_signature, SECRET)
    except (ValueError, stripe.SignatureVerificationError) as error:
        raise HTTPException(status_code=400) from error
    with pool.connection() as conn:
        conn.execute(
            "INSERT INTO webhook_events (id, type, payload) VALUES (%s, %s, %s) ON CONFLICT (id) DO NOTHING",
            (event.id, event.type, Jsonb(event.to_dict())),
        )
    return {"status": "received"}
