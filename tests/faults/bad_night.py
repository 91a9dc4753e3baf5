"""
Hold what a bad night happens to: a shop on a PostgreSQL that goes away, its provider, and a service that it tells.

    provider ── 98 % of the events ──► serve (receiver, worker, relay) ──► ledger service: answers 503 all night
        └────── all of them ─────────► its list of events                └► mail: takes everything
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.faults.sender import STRIPE_SECRET, Letter
from tests.fixtures.provider_apis import API_KEY, StripeApi

EVENTS, UNDELIVERED, BROKEN = 300, 6, 50
LEDGER_SECRET = "whsec_" + "ZmFrZS1sZWRnZXItc2VjcmV0LWZvci1vbmUtYmFkLW5pZ2h0"
#: The shop before the night, and after the handler was mended.
_SHOP = f"""
import os
from pathlib import Path

from webhook_inbox import Inbox
from webhook_inbox.destinations import Call, Http
from webhook_inbox.sources import Stripe

inbox = Inbox()
stripe = Stripe(secrets={STRIPE_SECRET!r}, api_key={API_KEY!r}, api_base=os.environ["STRIPE_API"])
billing = inbox.endpoint("billing", stripe, attempts_max=2, backoff_seconds_max=0.1)
inbox.destination("ledger", Http(os.environ["LEDGER_URL"], secret={LEDGER_SECRET!r}, allow_private=True))
inbox.destination("mail", Call(lambda message: None))
inbox.route("PaymentBooked", to="ledger")
inbox.route("PaymentBooked", to="mail")


@billing.on("invoice.paid")
def book(tx, event):
    invoice = event.payload["data"]["object"]
    tx.conn.execute("INSERT INTO effects (event_id, amount) VALUES (%s, %s)", [event.id, AMOUNT])
    tx.emit("PaymentBooked", {{"event": event.id}})
"""
BROKEN_SHOP = _SHOP.replace("AMOUNT", 'invoice["total"] - invoice["discount"]["amount"]')
MENDED_SHOP = _SHOP.replace("AMOUNT", 'invoice["total"] - invoice.get("discount", {"amount": 0})["amount"]')


@dataclass
class LedgerService:
    """
    Take messages, once it is up; answer 503 before.

    Attributes:
        taken: How often each message was confirmed, by its id.
        events: The event that each confirmed message tells of, by the message's id.
    """

    up: threading.Event = field(default_factory=threading.Event)
    taken: Counter[str] = field(default_factory=Counter)
    events: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def take(self, message_id: str, body: bytes) -> int:
        """Give the status that the message is answered with."""
        if not self.up.is_set():
            return 503
        self.taken[message_id] += 1
        self.events[message_id] = json.loads(body)["data"]["event"]
        return 200


@contextmanager
def ledger_service() -> Iterator[LedgerService]:
    """Serve it on loopback, down at first."""
    service = LedgerService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response_only(service.take(self.headers["webhook-id"], body))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service.url = f"http://127.0.0.1:{server.server_address[1]}/hooks"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def happened(stripe: StripeApi) -> list[Letter]:
    """Let all of the night's events have happened at the provider; give the letters that it delivers."""
    letters = []
    for number in range(1, EVENTS + 1):
        invoice = {"id": f"in_{number}", "object": "invoice", "total": 1000, "discount": {"amount": 100}}
        if number % (EVENTS // BROKEN) == 5:
            del invoice["discount"]
        event = stripe.add(f"evt_{number:04}", data={"object": invoice})
        if number % (EVENTS // UNDELIVERED):
            letters.append(Letter(event["id"], "/billing", json.dumps(event).encode()))
    return letters
