"""The inbox inside Starlette and FastAPI: mounted, in a user's route, beside middleware that reads bodies."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

import httpx
import psycopg
import pytest
from fastapi import Body as FastAPIBody, FastAPI, Response as FastAPIResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from tests.fixtures.http_apps import BODY, LIMIT, SECRET, check_taken, effects, post, run, stored
from tests.fixtures.http_servers import signed
from webhook_inbox import Event, Inbox, Tx
from webhook_inbox.errors import BodyConsumedError, ConfigurationError
from webhook_inbox.sources import Stripe
from webhook_inbox.telemetry.registry import UNKNOWN_ENDPOINT

# --- mounted


@pytest.mark.parametrize("path", ["/webhooks/billing", "/webhooks/billing/", "/webhooks//billing"])
def test_it_mounts_in_starlette(inbox: Inbox, database: str, path: str) -> None:
    """Under a prefix, with and without a slash at the end."""
    check_taken(post(Starlette(routes=[Mount("/webhooks", inbox.asgi())]), inbox, path), database)


def test_it_mounts_in_fastapi_inside_a_mount(inbox: Inbox, database: str) -> None:
    """Prefixes add up; FastAPI changes nothing of the bytes."""
    inner, outer = FastAPI(), FastAPI()
    inner.mount("/webhooks", inbox.asgi())
    outer.mount("/api", inner)
    check_taken(post(outer, inbox, "/api/webhooks/billing"), database)


def test_it_serves_under_a_root_path_that_a_proxy_cuts_off(inbox: Inbox, database: str) -> None:
    """A server that was told the prefix, and a proxy that strips it."""
    app = FastAPI()
    app.mount("/webhooks", inbox.asgi())
    check_taken(post(app, inbox, "/webhooks/billing", root_path="/public"), database)


def test_it_may_be_mounted_under_its_endpoints_own_name(inbox: Inbox, database: str) -> None:
    """A prefix that reads like an endpoint is no trap."""
    check_taken(
        post(Starlette(routes=[Mount("/billing", inbox.asgi())]), inbox, "/billing/billing"), database
    )


def test_the_hosts_lifespan_runs_the_inbox(inbox: Inbox) -> None:
    """A mounted app's lifespan does not run by itself: ``inbox.lifespan`` is handed to the host."""
    app = FastAPI(lifespan=inbox.lifespan)
    heard: list[str] = []

    async def story() -> None:
        incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

        async def receive() -> Any:
            return incoming.pop(0)

        async def send(message: Any) -> None:
            heard.append(message["type"])

        await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)

    asyncio.run(story())
    assert heard == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize("reads", ["body", "nothing"])
def test_middleware_that_keeps_the_body_is_harmless(inbox: Inbox, database: str, reads: str) -> None:
    """``await request.body()`` in a middleware keeps the exact bytes, and they are handed on."""

    async def look(request: Request, call_next: Any) -> Response:
        if reads == "body":
            await request.body()
        response: Response = await call_next(request)
        return response

    app = Starlette(
        routes=[Mount("/webhooks", inbox.asgi())], middleware=[Middleware(BaseHTTPMiddleware, dispatch=look)]
    )
    check_taken(post(app, inbox, "/webhooks/billing"), database)


def test_middleware_that_eats_the_body_is_told_so_and_the_sender_comes_again(
    inbox: Inbox, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its 503 is ours: a 4xx would make the provider give up for a mistake of the application (P-ACK)."""

    async def eat(request: Request, call_next: Any) -> Response:
        async for _ in request.stream():
            pass
        response: Response = await call_next(request)
        return response

    app = Starlette(
        routes=[Mount("/webhooks", inbox.asgi())], middleware=[Middleware(BaseHTTPMiddleware, dispatch=eat)]
    )
    with caplog.at_level(logging.ERROR, logger="webhook_inbox"):
        response = post(app, inbox, "/webhooks/billing")
    assert (response.status_code, response.json()["reason"]) == (503, "body_consumed")
    assert [record.__dict__["event"] for record in caplog.records] == ["body_consumed"]
    assert stored(database) == []


# --- in a route of the user's own


def test_a_starlette_route_hands_its_request_on(inbox: Inbox, database: str) -> None:
    """The receipt becomes a response in one line; what was read is counted."""

    async def hook(request: Request) -> Response:
        receipt = await inbox.receive_request(request)
        return Response(receipt.body, receipt.status, dict(receipt.headers))

    check_taken(
        post(Starlette(routes=[Route("/hooks/billing", hook, methods=["POST"])]), inbox, "/hooks/billing"),
        database,
    )
    labels = {"endpoint": "billing"}
    assert inbox.metrics.registry.get_sample_value("webhook_inbox_body_bytes_total", labels) == len(BODY)


def test_a_fastapi_route_hands_its_request_on(inbox: Inbox, database: str) -> None:
    """With FastAPI's own Response, by an endpoint's name that the path does not show."""
    app = FastAPI()

    @app.post("/stripe")
    async def hook(request: Request) -> FastAPIResponse:
        receipt = await inbox.receive_request(request, endpoint="billing")
        return FastAPIResponse(receipt.body, receipt.status, dict(receipt.headers))

    check_taken(post(app, inbox, "/stripe"), database)


def test_a_fastapi_route_that_also_takes_the_parsed_body_loses_nothing(inbox: Inbox, database: str) -> None:
    """FastAPI has read the body for its parameter, and has kept the exact bytes: those are verified."""
    app = FastAPI()

    @app.post("/billing")
    async def hook(request: Request, event: Annotated[Any, FastAPIBody()]) -> FastAPIResponse:
        assert event["id"] == "evt_c01"
        receipt = await inbox.receive_request(request)
        return FastAPIResponse(receipt.body, receipt.status, dict(receipt.headers))

    check_taken(post(app, inbox, "/billing", headers=(("content-type", "application/json"),)), database)


def test_a_route_that_has_eaten_the_body_is_told_how_to_mend_it(inbox: Inbox, database: str) -> None:
    """The exact bytes are gone: an exception says so, instead of a signature that never matches."""
    raised: list[BodyConsumedError] = []

    async def hook(request: Request) -> Response:
        async for _ in request.stream():
            pass
        with pytest.raises(BodyConsumedError) as caught:
            await inbox.receive_request(request)
        raised.append(caught.value)
        return Response()

    post(Starlette(routes=[Route("/billing", hook, methods=["POST"])]), inbox, "/billing")
    [error] = raised
    assert "middleware" in str(error)
    assert "evt_c01" not in str(error)
    assert stored(database) == []


def test_a_route_has_the_same_limits(inbox: Inbox, database: str) -> None:
    """Refused bodies and encodings are receipts in a route too, and close the connection."""

    async def hook(request: Request) -> Response:
        receipt = await inbox.receive_request(request)
        return Response(receipt.body, receipt.status, dict(receipt.headers))

    app = Starlette(routes=[Route("/billing", hook, methods=["POST"])])
    large = post(app, inbox, "/billing", b"x" * (LIMIT + 1))
    assert (large.status_code, large.json()["reason"]) == (413, "body_too_large")
    assert large.headers["connection"] == "close"
    packed = post(app, inbox, "/billing", headers=(("content-encoding", "gzip"),))
    assert (packed.status_code, packed.json()["reason"]) == (415, "content_encoding")
    labels = {"endpoint": "billing", "reason": "body_too_large"}
    assert inbox.metrics.registry.get_sample_value("webhook_inbox_rejections_total", labels) == 1
    assert stored(database) == []


@pytest.mark.parametrize(
    "path",
    [
        "/hooks/nobody",
        "/hooks/Billing",
        "/hooks/billing.",
        "/hooks/%00",
        "/hooks/%F0%9F%98%80",
        "/hooks/",
        "/",
    ],
)
def test_a_route_whose_path_names_no_endpoint_hears_404_and_never_an_exception(
    inbox: Inbox, database: str, path: str
) -> None:
    """A stranger chooses the path: a receipt as any other, counted, its body unread, and no name told (P-CALM)."""
    inbox.endpoint("orders", Stripe(SECRET), mode="inline")

    async def hook(request: Request) -> Response:
        receipt = await inbox.receive_request(request)
        return Response(receipt.body, receipt.status, dict(receipt.headers))

    answered = post(Starlette(routes=[Route("/{path:path}", hook, methods=["POST"])]), inbox, path)
    assert (answered.status_code, answered.json()["reason"]) == (404, "unknown_endpoint")
    assert answered.headers["connection"] == "close"
    assert "orders" not in answered.text
    labels = {"endpoint": UNKNOWN_ENDPOINT, "reason": "unknown_endpoint"}
    assert inbox.metrics.registry.get_sample_value("webhook_inbox_rejections_total", labels) == 1
    assert stored(database) == []


def test_a_route_that_names_an_endpoint_that_nobody_opened_is_told_so(inbox: Inbox, database: str) -> None:
    """The name is the application's own: a mistake in it is an exception with the remedy, not a stranger's 404."""

    async def hook(request: Request) -> Response:
        with pytest.raises(ConfigurationError, match=r"inbox\.endpoint\('bilings'"):
            await inbox.receive_request(request, endpoint="bilings")
        return Response(status_code=204)

    assert post(Starlette(routes=[Route("/b", hook, methods=["POST"])]), inbox, "/b").status_code == 204
    assert stored(database) == []


def test_returning_the_receipt_itself_never_acknowledges_what_failed(inbox: Inbox, database: str) -> None:
    """
    FastAPI would turn a returned object into 200 and JSON, whatever became of the delivery: loss (P-ACK).

    So a receipt refuses to be turned into JSON that way; the error says what to return instead.
    """
    app = FastAPI()

    @app.post("/billing")
    async def hook(request: Request):  # type: ignore[no-untyped-def]  # noqa: ANN202 - the mistake under test
        return await inbox.receive_request(request)

    forged = run(app, inbox, lambda client: client.post("/billing", content=BODY))
    assert forged.status_code == 500
    with pytest.raises(
        TypeError, match=r"Response\(receipt\.body, receipt\.status, dict\(receipt\.headers\)\)"
    ):
        run_raising(app, inbox)


def run_raising(app: Any, inbox: Inbox) -> None:
    """Deliver an unsigned body, and let what the application raises through."""

    async def story() -> None:
        async with (
            inbox.running(),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://hooks.test") as client,
        ):
            await client.post("/billing", content=BODY)

    asyncio.run(story())


# --- the whole way


def test_one_delivery_is_counted_once(inbox: Inbox) -> None:
    """Through the receiver: accepted, duplicate and refused deliveries, each once."""
    app = inbox.asgi()

    async def call(client: httpx.AsyncClient) -> None:
        headers = signed(BODY, secret=SECRET)
        for _ in range(2):
            await client.post("/billing", content=BODY, headers=headers)
        await client.post("/billing", content=BODY)
        await client.post("/billing", content=b"x" * (LIMIT + 1))
        await client.post("/nowhere")

    run(app, inbox, call)
    value = inbox.metrics.registry.get_sample_value
    counted = {
        (endpoint, outcome): value(
            "webhook_inbox_deliveries_total", {"endpoint": endpoint, "outcome": outcome}
        )
        for endpoint in ("billing", "(unknown)")
        for outcome in ("processed", "duplicate", "rejected")
    }
    assert counted == {
        ("billing", "processed"): 1,
        ("billing", "duplicate"): 1,
        ("billing", "rejected"): 2,
        ("(unknown)", "processed"): None,
        ("(unknown)", "duplicate"): None,
        ("(unknown)", "rejected"): 1,
    }


def test_readiness_follows_the_database(inbox: Inbox, empty_database: str) -> None:
    """200 with our schema, 503 with the command that helps without it."""

    async def ready(client: httpx.AsyncClient) -> tuple[int, Any]:
        response = await client.get("/readyz")
        return response.status_code, response.json()

    assert run(inbox.ops(), inbox, ready) == (200, {"status": "ready"})
    without = Inbox(empty_database)
    status, told = run(without.ops(), without, ready)
    assert (status, told["reason"]) == (503, "schema_version")
    assert "webhook-inbox migrate" in told["error"]


def test_a_request_that_is_cancelled_midway_leaves_its_event_processed(inbox: Inbox, database: str) -> None:
    """The delivery runs to its end although nobody waits for it any more (P-ONCE)."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def story() -> None:
        billing = inbox.endpoint("slow", Stripe(SECRET), mode="inline")

        @billing.on("order.paid")
        async def book(tx: Tx[psycopg.AsyncConnection[Any]], event: Event) -> None:
            begun.set()
            await go_on.wait()
            await tx.conn.execute("INSERT INTO effects VALUES (%s)", [event.id])

        transport = httpx.ASGITransport(inbox.asgi())
        async with (
            inbox.running(),
            httpx.AsyncClient(transport=transport, base_url="http://hooks.test") as client,
        ):
            headers = signed(BODY, secret=SECRET)
            task = asyncio.create_task(client.post("/slow", content=BODY, headers=headers))
            await begun.wait()
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            go_on.set()
            again = await client.post("/slow", content=BODY, headers=headers)
            assert (again.status_code, again.json()["state"]) == (200, "processed")
            assert again.json()["outcome"] == "duplicate"

    asyncio.run(story())
    assert effects(database) == 1
