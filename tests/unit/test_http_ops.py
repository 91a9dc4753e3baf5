"""Operators' pages say how the inbox is, show no secret, and are not reachable through the receiver."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.fixtures.asgi import Exchange, once, scope_of
from webhook_inbox.errors import SchemaVersionError, StoreUnavailableError
from webhook_inbox.http.asgi import AsgiReceiver
from webhook_inbox.http.ops import OpsApp
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.telemetry.registry import Metrics

Check = Callable[[], Awaitable[None]]


async def well() -> None:
    """A database that can be served."""


def failing(error: Exception) -> Check:
    """A database about which this is to be said."""

    async def check() -> None:
        raise error

    return check


async def hanging() -> None:
    """A database that does not answer."""
    await asyncio.Event().wait()


def get(
    path: str,
    check: Check = well,
    *,
    method: str = "GET",
    metrics: Metrics | None = None,
    root_path: str = "",
) -> Exchange:
    """Read one page."""
    app = OpsApp(check=check, metrics=metrics or Metrics())
    return once(app, scope_of(path, method=method, root_path=root_path))


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/healthz/", "//readyz"])
def test_every_page_is_there_bare_and_mounted(path: str) -> None:
    """GET and HEAD, with and without a prefix."""
    assert get(path).status == 200
    assert get(path, method="HEAD").status == 200
    assert get(f"/ops{path}", root_path="/ops").status == 200


def test_alive_needs_no_database() -> None:
    """A process that is restarted because the database is away would help nobody."""
    assert get("/healthz", hanging).json() == {"status": "alive"}


@pytest.mark.parametrize(
    ("check", "reason", "words"),
    [
        (failing(StoreUnavailableError("the database is read-only")), "store_unavailable", "read-only"),
        (failing(SchemaVersionError("run webhook-inbox migrate")), "schema_version", "webhook-inbox migrate"),
        (hanging, "timeout", "within 5s"),
        (failing(ValueError("postgresql://u:hunter2@db")), "unexpected", "ValueError"),
        (failing(TimeoutError("hunter2")), "timeout", "no answer"),
    ],
)
def test_not_ready_says_why_and_shows_no_secret(check: Check, reason: str, words: str) -> None:
    """503 and the reason, within a bounded time (P-QUIET)."""
    said = get("/readyz", check)
    assert said.status == 503
    assert (said.json()["status"], said.json()["reason"]) == ("not ready", reason)
    assert words in said.json()["error"]
    assert b"hunter2" not in said.body


def test_ready_says_so() -> None:
    """200 once the check comes back."""
    assert (get("/readyz").status, get("/readyz").json()) == (200, {"status": "ready"})


def test_metrics_are_in_prometheus_text_format() -> None:
    """What was counted can be scraped."""
    metrics = Metrics()
    metrics.observe("billing", Receipt(status=200, outcome=Outcome.PROCESSED), 0.01)
    said = get("/metrics", metrics=metrics)
    assert said.headers["content-type"].startswith("text/plain; version=")
    assert b'webhook_inbox_deliveries_total{endpoint="billing",outcome="processed"} 1.0' in said.body


def test_nothing_else_is_served() -> None:
    """Other paths are 404, other methods 405 with ``Allow``."""
    assert get("/").status == 404
    assert get("/metrics/x").status == 404
    said = get("/metrics", method="POST")
    assert (said.status, said.headers["allow"]) == (405, "GET, HEAD")


def test_the_receiver_serves_no_page_of_operators() -> None:
    """What strangers reach has none of it (P-QUIET)."""

    async def deliver(plan: EndpointPlan, delivery: Delivery) -> Receipt:
        raise AssertionError

    receiver = AsgiReceiver(find=lambda _: None, deliver=deliver)
    for path in ("/healthz", "/readyz", "/metrics"):
        assert once(receiver, scope_of(path, method="GET")).status == 404


def test_other_protocols_are_answered_or_left_alone() -> None:
    """Servers send lifespan events and, if a client asks, websockets."""
    app = OpsApp(check=well, metrics=Metrics())
    events = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    said = once(app, {"type": "lifespan"}, events)
    assert [message["type"] for message in said.sent] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]
    assert once(app, {"type": "websocket"}).sent[0]["type"] == "websocket.close"
    assert once(app, {"type": "future"}).sent == []
