"""Use the public names as a user does; two type checkers read this file, nothing runs it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, assert_type
from uuid import UUID
from wsgiref.types import WSGIApplication

import flask
import litestar
import starlette.requests
import starlette.routing
from psycopg import AsyncConnection, Connection
from psycopg_pool import ConnectionPool

from webhook_inbox import Event, EventResult, GiveUp, Handlers, Ignore, Inbox, Outcome, Receipt, State, Tx
from webhook_inbox.destinations import Call, Destination, Failed, Http, Limits, Message, Sent, Verdict
from webhook_inbox.sources import GitHub, Hmac, Meta, Shopify, Slack, Source, StandardWebhooks, Stripe

inbox = Inbox("postgresql:///app", schema="hooks", duplicate_wait_seconds=2.0)
pooled = Inbox(ConnectionPool("postgresql:///app", open=False))
configured_by_environment = Inbox()

billing = inbox.endpoint("billing", Stripe(secrets="whsec_fake_typing"), mode="inline", unhandled="drop")
several = inbox.endpoint("several", Stripe(secrets=["whsec_fake_a", "whsec_fake_b"]), mode="inline")
mail = inbox.endpoint("mail", StandardWebhooks(secrets="whsec_ZmFrZV90eXBpbmdfc2VjcmV0"), mode="inline")

# Whatever has a name of its own is typed like any class, although it is imported only when it is asked for.
named: list[Source] = [
    GitHub("fake-secret", algorithm="sha1"),
    Meta("fake-secret", verify_token="fake-token"),
    Shopify(["fake-old", "fake-new"], event_id="webhook"),
    Slack("fake-secret", tolerance_seconds=60),
]


@billing.on("invoice.paid", "invoice.payment_succeeded")
def book_payment(tx: Tx[Connection], event: Event) -> None:
    """Write on the driver's own connection, as in any other code."""
    assert_type(tx.conn.execute("SELECT 1").fetchone(), tuple[Any, ...] | None)
    assert_type(event.id, str)
    assert_type(event.body, bytes)
    assert_type(event.created_at, datetime | None)
    assert_type(event.idempotency_key("update-customer-metadata"), str)
    assert_type(
        tx.emit("InvoicePaymentBooked", {"invoice_id": 1}, aggregate_type="Invoice", aggregate_id=1), UUID
    )
    tx.review("paid after void", details={"invoice": 1})
    if event.account:
        raise Ignore("not ours")
    raise GiveUp("unknown plan")


handlers = Handlers()


@handlers.on("*")
async def note(tx: Tx[AsyncConnection], event: Event) -> None:
    """Await the same calls on an asynchronous connection."""
    await tx.conn.execute("INSERT INTO notes (event_id) VALUES (%s)", [event.id])
    assert_type(await tx.emit("Noted", {"id": event.id}), UUID)
    await tx.review("look at this")


mail.include(handlers)


class Shelf:
    """A destination of one's own needs no base class."""

    place = "shelf"
    limits = Limits(batch_messages_max=10)

    async def open(self) -> None:
        """Make ready."""

    async def send(self, messages: Sequence[Message]) -> Sequence[Verdict]:
        """Say of each what became of it."""
        return [Sent() if each.payload else Failed("empty", permanent=True) for each in messages]

    async def close(self) -> None:
        """Let go."""


async def tell_crm(message: Message) -> None:
    """Call another API under a key that stays the same."""
    assert_type(message.idempotency_key, str)


shelf: Destination = Shelf()
inbox.destination("shelf", shelf, ordered=True, dead_message="skip")
inbox.destination("crm", Call(tell_crm))
inbox.destination(
    "hooks", Http("https://mail.example/hooks", secret="whsec_ZmFrZV90eXBpbmdfc2VjcmV0X2Zha2U=")
)
inbox.route("Invoice*", to="shelf")


async def emit_in_a_transaction_of_ones_own(conn: Connection, other: AsyncConnection) -> None:
    """The id comes at once, or is awaited."""
    assert_type(inbox.emit(conn, "Paid", {}, key="invoice-1"), UUID)
    assert_type(await inbox.emit(other, "Paid", {}, to="crm"), UUID)
    async with inbox.running(worker=True, relay=True):
        await inbox.relay(drain=True)


@inbox.on_error
def tell(endpoint: str, error: BaseException) -> None:
    """Receive what the log leaves out."""


async def own_route(body: bytes) -> tuple[int, bytes]:
    """Take a delivery in within a route of one's own."""
    receipt = await inbox.receive("billing", headers=[("stripe-signature", "t=1,v1=00")], body=body)
    assert_type(receipt, Receipt)
    assert_type(receipt.outcome, Outcome)
    assert_type(receipt.results, tuple[EventResult, ...])
    for result in receipt.results:
        assert_type(result.state, State | None)
    return receipt.status, receipt.body


def own_thread(body: bytes) -> Receipt:
    """Take a delivery in without an event loop."""
    return inbox.receive_sync("billing", headers=[], body=body)


async def own_requests(
    asgi: starlette.requests.Request, of_litestar: litestar.Request[Any, Any, Any], wsgi: flask.Request
) -> None:
    """Hand a framework's request on, whichever it is."""
    assert_type(await inbox.receive_request(asgi), Receipt)
    assert_type(await inbox.receive_request(of_litestar, endpoint="billing"), Receipt)
    assert_type(inbox.receive_request_sync(wsgi, endpoint="billing"), Receipt)


# A server's and a framework's own types take the apps.
starlette.routing.Mount("/webhooks", inbox.asgi())
wsgi_app: WSGIApplication = inbox.wsgi()
django_views = [inbox.django_view(), inbox.django_view("billing", asynchronous=True)]


async def serve() -> None:
    """Run until the block ends."""
    async with inbox.running():
        await inbox.check()


assert_type(Hmac.__name__, str)
