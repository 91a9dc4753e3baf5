"""The inbox as a Django view: exempt from what would come before the signature, beside what reads bodies there."""

from __future__ import annotations

import asyncio
import io
import logging
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.db import connections, transaction
from django.http import HttpResponse
from django.test import AsyncRequestFactory, RequestFactory, override_settings
from django.urls import path
from psycopg_pool import AsyncConnectionPool

from tests.fixtures.asgi import chunks, exchange, scope_of
from tests.fixtures.benches import django_alias, forget_alias, set_django_up
from tests.fixtures.http_apps import BODY, LIMIT, SECRET, check_taken, stored
from tests.fixtures.http_servers import signed
from tests.fixtures.wsgi import WsgiAnswer, call, environ_of
from webhook_inbox import Django, Inbox
from webhook_inbox.errors import BodyConsumedError, ConfigurationError
from webhook_inbox.sources import Stripe

FORM = "multipart/form-data; boundary=cut"
MULTIPART = b'--cut\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--cut--\r\n'
urlpatterns: list[Any] = []


@pytest.fixture(autouse=True)
def _project() -> Iterator[None]:
    """A project whose routes each test gives, with the middlewares that a new project has."""
    set_django_up()
    middleware = ["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"]
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=middleware, ALLOWED_HOSTS=["*"], DEBUG=False):
        yield
    urlpatterns.clear()


def wsgi_post(inbox: Inbox, path: str, body: bytes = BODY, **more: Any) -> WsgiAnswer:
    """Deliver a signed body once to *inbox*, through the project's WSGI application."""
    headers = dict(signed(body, secret=SECRET))
    return call(WSGIHandler(), environ_of(path, body, headers=headers, **more), checked=False)


def asgi_post(inbox: Inbox, path: str, body: bytes = BODY) -> Any:
    """Deliver a signed body once to *inbox*, in chunks through the project's ASGI application; the client waits."""
    headers = [
        (b"content-type", b"application/json"),
        *((name.encode(), value.encode()) for name, value in signed(body, secret=SECRET)),
    ]

    async def story() -> Any:
        async with inbox.running():
            sent = chunks(body[:5], body[5:])
            return await exchange(ASGIHandler(), scope_of(path, headers=headers), sent, hang=True)

    return asyncio.run(story())


class Answer:
    """Name the parts of an answer as ``check_taken`` reads them."""

    def __init__(self, said: Any) -> None:
        self.status_code, self.content = said.status, said.body


@pytest.fixture
def posts(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Delivers by the way that is the test's parameter."""
    return {"wsgi": wsgi_post, "asgi": asgi_post}[request.param]


WAYS = pytest.mark.parametrize(
    ("posts", "asynchronous"),
    [("wsgi", False), ("asgi", False), ("asgi", True)],
    ids=["wsgi", "asgi", "asgi, async def"],
    indirect=["posts"],
)


@WAYS
def test_a_view_takes_deliveries(
    thread_inbox: Inbox, database: str, posts: Callable[..., Any], asynchronous: bool
) -> None:
    """P-RAW, P-ONCE: without CSRF's token, by a name that the route has, or that the project gives."""
    view = thread_inbox.django_view(asynchronous=asynchronous)
    urlpatterns.append(path("webhooks/<str:endpoint>", view))
    urlpatterns.append(path("stripe/", thread_inbox.django_view("billing", asynchronous=asynchronous)))
    check_taken(Answer(posts(thread_inbox, "/webhooks/billing")), database)
    assert posts(thread_inbox, "/stripe/").json()["outcome"] == "duplicate"
    unknown = posts(thread_inbox, "/webhooks/nowhere")
    assert (unknown.status, unknown.json()["reason"]) == (404, "unknown_endpoint")
    large = posts(thread_inbox, "/webhooks/billing", b"x" * (LIMIT + 1))
    assert (large.status, large.json()["reason"]) == (413, "body_too_large")
    labels = {"endpoint": "billing", "reason": "body_too_large"}
    assert thread_inbox.metrics.registry.get_sample_value("webhook_inbox_rejections_total", labels) == 1


@WAYS
def test_a_body_that_django_would_refuse_is_the_endpoints_to_judge(
    thread_inbox: Inbox, posts: Callable[..., Any], asynchronous: bool
) -> None:
    """``DATA_UPLOAD_MAX_MEMORY_SIZE`` is for forms: Django's 2.5 MB are less than some providers send."""
    urlpatterns.append(path("w/<str:endpoint>", thread_inbox.django_view(asynchronous=asynchronous)))
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=10):
        assert posts(thread_inbox, "/w/billing").status == 200


def test_a_body_that_stops_is_408_in_a_view(database: str) -> None:
    """Where the server shows the connection, and although Django puts an error of its own around the timeout."""
    inbox = Inbox(database)
    inbox.endpoint("billing", Stripe(SECRET), body_seconds_max=0.05)
    urlpatterns.append(path("w/<str:endpoint>", inbox.django_view()))
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as file:
        theirs.sendall(BODY[:5])
        more: dict[str, Any] = {"gunicorn.socket": ours, "CONTENT_LENGTH": str(len(BODY))}
        headers = dict(signed(BODY, secret=SECRET))
        said = call(WSGIHandler(), environ_of("/w/billing", file, headers=headers, **more), checked=False)
    assert (said.status, said.json()["reason"]) == (408, "body_too_slow")


def test_a_chunked_body_reaches_a_view_under_wsgi(thread_inbox: Inbox, database: str) -> None:
    """Django itself takes it for an empty one, a middleware that has looked at ``request.body`` included."""
    urlpatterns.append(path("w/<str:endpoint>", thread_inbox.django_view()))
    for looks in ([], [f"{__name__}.looking"]):
        with override_settings(MIDDLEWARE=looks):
            headers = {**dict(signed(BODY, secret=SECRET)), "Transfer-Encoding": "chunked"}
            environ = environ_of("/w/billing", io.BytesIO(BODY), headers=headers)
            assert call(WSGIHandler(), environ, checked=False).status == 200
    assert len(stored(database)) == 1


def looking(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A middleware that looks at the body."""

    def middleware(request: Any) -> Any:
        assert request.body in (b"", BODY)
        return get_response(request)

    return middleware


def reading(get_response: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A middleware that parses forms, and reads what is none."""

    def middleware(request: Any) -> Any:
        form = request.content_type == "multipart/form-data"
        assert request.POST["a"] == "1" if form else request.read() == BODY
        return get_response(request)

    return middleware


@WAYS
def test_a_body_that_a_middleware_has_read_is_told_so_and_the_sender_comes_again(
    thread_inbox: Inbox,
    database: str,
    caplog: pytest.LogCaptureFixture,
    posts: Callable[..., Any],
    asynchronous: bool,
) -> None:
    """A 4xx would make the provider give up for a mistake of the application (P-ACK)."""
    urlpatterns.append(path("w/<str:endpoint>", thread_inbox.django_view(asynchronous=asynchronous)))
    with (
        override_settings(MIDDLEWARE=[f"{__name__}.reading"]),
        caplog.at_level(logging.ERROR, logger="webhook_inbox"),
    ):
        said = [posts(thread_inbox, "/w/billing")]
        if posts is wsgi_post:
            said.append(wsgi_post(thread_inbox, "/w/billing", MULTIPART, CONTENT_TYPE=FORM))
    assert {(each.status, each.json()["reason"]) for each in said} == {(503, "body_consumed")}
    told = [record for record in caplog.records if record.name == "webhook_inbox"]
    assert [record.__dict__["event"] for record in told] == ["body_consumed"] * len(said)
    assert stored(database) == []


def test_a_view_of_the_users_own_hands_its_request_on(thread_inbox: Inbox, database: str) -> None:
    """By the request, under WSGI and ASGI; a parsed form is an exception that says what to do."""
    request = RequestFactory().post(
        "/billing", BODY, content_type="application/json", headers=dict(signed(BODY, secret=SECRET))
    )
    receipt = thread_inbox.receive_request_sync(request)
    assert (receipt.status, receipt.outcome) == (200, "processed")
    assert "connection" not in dict(receipt.headers)
    again = AsyncRequestFactory().post(
        "/billing", BODY, content_type="application/json", headers=dict(signed(BODY, secret=SECRET))
    )

    async def story() -> str:
        async with thread_inbox.running():
            return (await thread_inbox.receive_request(again)).outcome

    assert asyncio.run(story()) == "duplicate"
    parsed = RequestFactory().post("/billing", MULTIPART, content_type=FORM)
    assert parsed.POST["a"] == "1"
    with pytest.raises(BodyConsumedError, match="form"):
        thread_inbox.receive_request_sync(parsed)


@pytest.fixture
def alias(database: str) -> Iterator[str]:
    """A database of Django's, under ``ATOMIC_REQUESTS``."""
    alias = django_alias(database)
    connections.databases[alias]["ATOMIC_REQUESTS"] = True
    yield alias
    forget_alias(alias)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_view_is_exempt_from_atomic_requests(alias: str, database: str, asynchronous: bool) -> None:
    """Nothing could be committed before the answer otherwise (P-ACK); Django refuses an ``async def`` view there."""
    inbox = Inbox(Django(alias))
    inbox.endpoint("billing", Stripe(SECRET)).on("*")(lambda tx, event: None)
    urlpatterns.append(path("w/<str:endpoint>", inbox.django_view(asynchronous=asynchronous)))
    said = asgi_post(inbox, "/w/billing") if asynchronous else wsgi_post(inbox, "/w/billing")
    assert (said.status, said.json()["outcome"]) == (200, "queued")
    assert [state for state, _ in stored(database)] == ["waiting"]
    inbox.close()


def test_a_view_that_is_called_inside_a_transaction_is_refused_by_name(
    alias: str, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrapper of the project's own may have opened one: the log says so, and the sender comes again."""
    inbox = Inbox(Django(alias))
    inbox.endpoint("billing", Stripe(SECRET))
    view = inbox.django_view("billing")

    def wrapped(request: Any) -> HttpResponse:
        with transaction.atomic(using=alias):
            answer: HttpResponse = view(request)
            return answer

    exempt = transaction.non_atomic_requests(using=alias)(wrapped)
    exempt.csrf_exempt = True
    urlpatterns.append(path("w", exempt))
    with caplog.at_level(logging.ERROR, logger="webhook_inbox"):
        said = wsgi_post(inbox, "/w")
    assert (said.status, said.json()["reason"]) == (503, "configuration")
    assert "within atomic() already" in caplog.text
    assert stored(database) == []
    inbox.close()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_nobody_has_to_be_logged_in(thread_inbox: Inbox, asynchronous: bool) -> None:
    """It bears the mark that ``login_not_required`` leaves, for Django's ``LoginRequiredMiddleware``."""
    assert thread_inbox.django_view(asynchronous=asynchronous).login_required is False  # type: ignore[attr-defined]


def test_what_cannot_work_is_refused_when_the_routes_are_made(thread_inbox: Inbox) -> None:
    """A name that nobody opened, and threads over a pool that serves event loops only."""
    with pytest.raises(ConfigurationError, match="bilings"):
        thread_inbox.django_view("bilings")
    on_loops = Inbox(AsyncConnectionPool("", open=False))
    assert callable(on_loops.django_view(asynchronous=True))
    for make in (on_loops.django_view, on_loops.wsgi):
        with pytest.raises(ConfigurationError, match="runs on threads"):
            make()
