"""The inbox inside Flask: mounted, in a user's route, beside what reads bodies there."""

from __future__ import annotations

import io
from typing import Any

import pytest
from flask import Flask, Response, request
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from tests.fixtures.http_apps import BODY, LIMIT, SECRET, check_taken, stored
from tests.fixtures.http_servers import signed
from webhook_inbox import Inbox
from webhook_inbox.errors import BodyConsumedError, ConfigurationError
from webhook_inbox.model.receipt import Receipt
from webhook_inbox.sources import Stripe


@pytest.fixture
def app() -> Flask:
    """An application that lets its exceptions through."""
    app = Flask("shop")
    app.testing = True
    return app


def respond(receipt: Receipt) -> Response:
    """Make the framework's response."""
    return Response(receipt.body, receipt.status, dict(receipt.headers))


def post(app: Flask, path: str, body: bytes = BODY, **more: Any) -> Any:
    """Deliver a signed body once."""
    return _Answer(app.test_client().post(path, data=body, headers=list(signed(body, secret=SECRET)), **more))


class _Answer:
    """Name the parts of Werkzeug's answer as the others do."""

    def __init__(self, response: Any) -> None:
        self.status_code, self.content, self.headers = response.status_code, response.data, response.headers
        self.json = response.get_json


@pytest.mark.parametrize("path", ["/webhooks/billing", "/webhooks/billing/", "/webhooks//billing"])
def test_it_mounts_in_flask(thread_inbox: Inbox, database: str, app: Flask, path: str) -> None:
    """Under a prefix, by Werkzeug's own dispatcher."""
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/webhooks": thread_inbox.wsgi()})  # type: ignore[method-assign]
    check_taken(post(app, path), database)
    assert post(app, "/webhooks/nowhere").status_code == 404


def test_a_flask_route_hands_its_request_on(thread_inbox: Inbox, database: str, app: Flask) -> None:
    """The receipt becomes a response in one line; the limits are the endpoint's, and no header is the server's."""

    @app.post("/billing")
    def hook() -> Response:
        return respond(thread_inbox.receive_request_sync(request))

    check_taken(post(app, "/billing"), database)
    value = thread_inbox.metrics.registry.get_sample_value
    assert value("webhook_inbox_body_bytes_total", {"endpoint": "billing"}) == len(BODY)
    large = post(app, "/billing", b"x" * (LIMIT + 1))
    assert (large.status_code, large.json()["reason"]) == (413, "body_too_large")
    assert "connection" not in large.headers
    labels = {"endpoint": "billing", "reason": "body_too_large"}
    assert value("webhook_inbox_rejections_total", labels) == 1


@pytest.mark.parametrize("looked_at", ["json", "data", "form"])
def test_what_flask_keeps_is_taken(thread_inbox: Inbox, database: str, app: Flask, looked_at: str) -> None:
    """JSON and ``get_data()`` keep the exact bytes; ``form`` does not touch what is no form."""

    @app.before_request
    def look() -> None:
        assert getattr(request, looked_at) is not None

    @app.post("/billing")
    def hook() -> Response:
        return respond(thread_inbox.receive_request_sync(request))

    check_taken(post(app, "/billing", content_type="application/json"), database)


@pytest.mark.parametrize("terminated", [True, False])
def test_a_form_that_flask_has_parsed_is_told_so(
    thread_inbox: Inbox, database: str, app: Flask, terminated: bool
) -> None:
    """The exact bytes are gone; nothing is read past them, where a socket would wait for ever."""

    @app.post("/billing")
    def hook() -> Response:
        assert request.form["a"] == "1"
        with pytest.raises(BodyConsumedError, match="form"):
            thread_inbox.receive_request_sync(request)
        return Response(status=204)

    class OnceOnly(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            chunk = super().read(size)
            assert chunk or terminated, "read past the end"
            return chunk

    environ = {"wsgi.input": OnceOnly(b"a=1"), "wsgi.input_terminated": terminated}
    form = "application/x-www-form-urlencoded"
    answer = post(app, "/billing", b"a=1", content_type=form, environ_overrides=environ)
    assert answer.status_code == 204
    assert stored(database) == []


def test_a_chunked_body_reaches_a_flask_route(thread_inbox: Inbox, database: str, app: Flask) -> None:
    """As gunicorn and waitress hand it on: without a length, and with an end."""

    @app.post("/billing")
    def hook() -> Response:
        return respond(thread_inbox.receive_request_sync(request))

    environ = {"wsgi.input": io.BytesIO(BODY), "wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    headers = [*signed(BODY, secret=SECRET), ("transfer-encoding", "chunked")]
    response = app.test_client().post("/billing", headers=headers, environ_overrides=environ)
    check_taken(_Answer(response), database)


def test_a_flask_route_whose_path_names_no_endpoint_hears_404(thread_inbox: Inbox, app: Flask) -> None:
    """A stranger may have chosen the path; a name of the application's own that is wrong is an exception."""
    thread_inbox.endpoint("orders", Stripe(SECRET))

    @app.post("/<path:path>")
    def hook(path: str) -> Response:
        return respond(thread_inbox.receive_request_sync(request))

    answered = post(app, "/nobody")
    assert (answered.status_code, answered.json()["reason"]) == (404, "unknown_endpoint")
    with app.test_request_context(), pytest.raises(ConfigurationError, match="bilings"):
        thread_inbox.receive_request_sync(request, endpoint="bilings")
