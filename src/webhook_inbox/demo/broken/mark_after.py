"""
Mark after: do the work, then record the event id in a transaction of its own.

Looks right, since no event is forgotten. But when the process dies between the two, or two copies come at once, nothing
says that the work is done: the redelivery does it again.
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
        seen = conn.execute("SELECT 1 FROM webhook_events WHERE event_id = %s", [event["id"]]).fetchone()
    if seen:
        return {"outcome": "duplicate"}
    with connect() as conn:
        book(conn, event)
    with connect() as conn:
        conn.execute(
            "INSERT INTO webhook_events (event_id) VALUES (%s) ON CONFLICT (event_id) DO NOTHING",
            [event["id"]],
        )
    return {"outcome": "processed"}
