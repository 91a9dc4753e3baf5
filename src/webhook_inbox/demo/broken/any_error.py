"""
Any error: record and work share one transaction, but every failed insert is taken for a duplicate.

Looks right, since the table's key does refuse the second copy. But a database that goes away refuses it too: the event
is answered "duplicate", though it was never stored, and Stripe never sends it again.
"""

from __future__ import annotations

from typing import Annotated

import psycopg
from fastapi import Depends, FastAPI

from webhook_inbox.demo.broken.common import StripeEvent, book, connect, verified_event

app = FastAPI()


@app.post("/stripe")
def receive(event: Annotated[StripeEvent, Depends(verified_event)]) -> dict[str, str]:
    """Answer a delivery."""
    with connect() as conn:
        try:
            conn.execute("INSERT INTO webhook_events (event_id) VALUES (%s)", [event["id"]])
        except psycopg.Error:
            return {"outcome": "duplicate"}
        book(conn, event)
    return {"outcome": "processed"}
