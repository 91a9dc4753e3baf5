"""
Mark first: commit the event id as seen, then do the work in a transaction of its own.

Looks right, since no event is done twice. But when the work fails once, the redelivery is answered "duplicate": it is
never done, and Stripe never sends it again.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI

from webhook_inbox.demo.broken.common import StripeEvent, book, connect, verified_event

app = FastAPI()


@app.post("/stripe")
def receive(event: Annotated[StripeEvent, Depends(verified_event)]) -> dict[str, str]:
    """Answer a delivery."""
    with connect() as conn:
        marked = conn.execute(
            "INSERT INTO webhook_events (event_id) VALUES (%s) ON CONFLICT (event_id) DO NOTHING",
            [event["id"]],
        )
    if marked.rowcount == 0:
        return {"outcome": "duplicate"}
    with connect() as conn:
        book(conn, event)
    return {"outcome": "processed"}
