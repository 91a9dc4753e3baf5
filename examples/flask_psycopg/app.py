"""Serve the shop: flask run; and work: webhook-inbox worker app:inbox."""

from __future__ import annotations

from flask import Flask, Response, request
from webhooks import make_inbox

inbox = make_inbox()
app = Flask(__name__)


@app.post("/webhooks/paddle")
def paddle() -> Response:
    """Receive; the raw body is read here, before anything else of Flask's looks at it."""
    receipt = inbox.receive_request_sync(request, endpoint="paddle")
    return Response(receipt.body, receipt.status, dict(receipt.headers))
