"""The inbox inside Litestar: mounted, in a user's route, beside what reads bodies there."""

from __future__ import annotations

from typing import Any

import pytest
from litestar import Litestar, Request, Response, asgi, post as route
from litestar.params import JSONBody
from litestar.types import Receive, Scope, Send

from tests.fixtures.http_apps import BODY, LIMIT, check_taken, post, stored
from webhook_inbox import Inbox
from webhook_inbox.errors import BodyConsumedError
from webhook_inbox.model.receipt import Receipt

JSON = (("content-type", "application/json"),)


def respond(receipt: Receipt) -> Response[bytes]:
    """Make the framework's response."""
    return Response(receipt.body, status_code=receipt.status, headers=dict(receipt.headers))


@pytest.mark.parametrize("path", ["/webhooks/billing", "/webhooks/billing/"])
def test_it_mounts_in_litestar(inbox: Inbox, database: str, path: str) -> None:
    """Under a prefix, which Litestar takes off the path."""
    receiver = inbox.asgi()

    @asgi("/webhooks", is_mount=True, copy_scope=True)
    async def webhooks(scope: Scope, receive: Receive, send: Send) -> None:
        await receiver(scope, receive, send)  # type: ignore[arg-type]  # a TypedDict is a mutable mapping

    check_taken(post(Litestar([webhooks]), inbox, path), database)


def test_a_litestar_route_hands_its_request_on(inbox: Inbox, database: str) -> None:
    """The receipt becomes a response in one line; the limits are the endpoint's."""

    @route("/billing")
    async def hook(request: Request[Any, Any, Any]) -> Response[bytes]:
        return respond(await inbox.receive_request(request))

    app = Litestar([hook])
    check_taken(post(app, inbox, "/billing"), database)
    large = post(app, inbox, "/billing", b"x" * (LIMIT + 1))
    assert (large.status_code, large.json()["reason"]) == (413, "body_too_large")
    assert large.headers["connection"] == "close"


def test_a_litestar_route_that_also_takes_the_parsed_body_loses_nothing(inbox: Inbox, database: str) -> None:
    """Litestar has read the body for its parameter, and has kept the exact bytes: those are verified."""

    @route("/billing")
    async def hook(request: Request[Any, Any, Any], data: JSONBody[dict[str, Any]]) -> Response[bytes]:
        assert data["id"] == "evt_c01"
        return respond(await inbox.receive_request(request))

    check_taken(post(Litestar([hook]), inbox, "/billing", headers=JSON), database)


def test_a_litestar_route_that_has_eaten_the_body_is_told_how_to_mend_it(inbox: Inbox, database: str) -> None:
    """The exact bytes are gone: an exception says so, instead of a signature that never matches."""
    raised: list[BodyConsumedError] = []

    @route("/billing")
    async def hook(request: Request[Any, Any, Any]) -> None:
        assert b"".join([chunk async for chunk in request.stream()]) == BODY
        with pytest.raises(BodyConsumedError) as caught:
            await inbox.receive_request(request)
        raised.append(caught.value)

    assert post(Litestar([hook]), inbox, "/billing").status_code == 201
    assert "hand the request on untouched" in str(raised[0])
    assert stored(database) == []
