"""The WSGI receiver keeps the rules of the ASGI one, reads no byte too many, and lets no exception out."""

from __future__ import annotations

import io
import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.fixtures.asgi import chunks, once, scope_of
from tests.fixtures.wsgi import WsgiAnswer, call, environ_of
from webhook_inbox.errors import BodyConsumedError
from webhook_inbox.http import stream
from webhook_inbox.http.asgi import AsgiReceiver
from webhook_inbox.http.body import LINGER_BYTES_MAX
from webhook_inbox.http.limits import HEADERS_MAX, URL_BYTES_MAX
from webhook_inbox.http.wsgi import WsgiReceiver
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.sources import Stripe
from webhook_inbox.telemetry.registry import Metrics

SECRET = "whsec_fake_wsgi_00000000"
BODY = b'{"id":"evt_1"}'
LIMIT = 20_000
DONE = answers.accepted([EventResult(outcome=Outcome.PROCESSED, event_id="evt_1", state=State.PROCESSED)])
SETTINGS = Settings(
    body_bytes_max=LIMIT, header_bytes_max=2_000, body_seconds_max=10, body_bytes_per_second_min=4_096
)

# As the standard library's server says by its silence.
UNTERMINATED: dict[str, Any] = {"wsgi.input_terminated": False}


class Greeting(Stripe):
    """A source whose provider opens with a GET."""

    methods: frozenset[str] = frozenset({"GET", "HEAD"})


class Desk:
    """A receiver whose deliveries are settled by a function, and what reached it."""

    def __init__(self, settle: Callable[[Delivery], Receipt] = lambda _: DONE) -> None:
        plans = (
            EndpointPlan(name="billing", source=Stripe(SECRET), mode="inline", settings=SETTINGS),
            EndpointPlan(name="greeting", source=Greeting(SECRET), mode="inline", settings=SETTINGS),
        )
        self.plans = {plan.name: plan for plan in plans}
        self.settle = settle
        self.delivered: list[Delivery] = []
        self.points: list[str] = []
        self.metrics = Metrics()
        self.app = WsgiReceiver(
            find=self.plans.get, deliver=self.deliver, probe=self.points.append, metrics=self.metrics
        )

    def deliver(self, plan: EndpointPlan, delivery: Delivery) -> Receipt:
        self.delivered.append(delivery)
        return self.settle(delivery)

    def post(self, path: str = "/billing", body: Any = BODY, **more: Any) -> WsgiAnswer:
        return call(self.app, environ_of(path, body, **more))


@pytest.fixture
def desk() -> Desk:
    """A receiver that answers processed."""
    return Desk()


def refusal(said: WsgiAnswer) -> tuple[int, str]:
    """Status and reason of a refusal."""
    return said.status, said.json()["reason"]


class Endless:
    """A body that goes on for ever, and how much of it was taken."""

    def __init__(self) -> None:
        self.taken = 0

    def read(self, size: int) -> bytes:
        self.taken += size
        return b"x" * size


# --- what reaches the inbox


def test_a_delivery_reaches_the_inbox_exactly_as_it_was_sent(desk: Desk) -> None:
    """P-RAW: bytes, headers, URL and method arrive unchanged; the receipt goes back unchanged."""
    said = desk.post(
        headers={"Stripe-Signature": "t=1,v1=\xe9"}, RAW_URI="/bill%69ng?a=1%20", QUERY_STRING="a=1%20"
    )
    assert (said.status, said.body) == (200, DONE.body)
    assert said.headers == {**dict(DONE.headers), "content-length": str(len(DONE.body))}
    [delivery] = desk.delivered
    assert (delivery.method, delivery.body) == ("POST", BODY)
    assert delivery.url == "https://hooks.example.test/bill%69ng?a=1%20"
    assert delivery.headers["stripe-signature"] == "t=1,v1=\xe9"
    assert delivery.headers["content-length"] == str(len(BODY))
    assert desk.points == ["answer.before", "answer.after"]
    assert not desk.metrics.in_flight


@pytest.mark.parametrize("path", ["/billing", "/billing/", "//billing", "/billing//"])
def test_it_mounts_under_any_prefix_without_a_redirect(desk: Desk, path: str) -> None:
    """The prefix is ``SCRIPT_NAME``, and may read like an endpoint."""
    for prefix in ("", "/hooks", "/api/hooks", "/billing"):
        assert desk.post(path, SCRIPT_NAME=prefix).status == 200
    assert desk.post(f"/hooks{path}").status == 404


@pytest.mark.parametrize(
    ("more", "url"),
    [
        ({}, "/h%20ooks/billing"),
        ({"REQUEST_URI": "/h%20ooks/%62illing"}, "/h%20ooks/%62illing"),
        ({"RAW_URI": "http://hooks.example.test/h%20ooks/billing"}, "/h%20ooks/billing"),
        ({"QUERY_STRING": "a=%2F"}, "/h%20ooks/billing?a=%2F"),
    ],
    ids=["escaped anew", "as sent", "a whole URL was sent", "query"],
)
def test_the_url_is_the_one_that_the_client_asked_for(desk: Desk, more: dict[str, Any], url: str) -> None:
    """Some providers sign it: as it was sent where the server says, else written as every client does."""
    assert desk.post(SCRIPT_NAME="/h ooks", **more).status == 200
    assert desk.delivered[0].url == f"https://hooks.example.test{url}"


def test_a_header_cannot_pass_for_the_length_or_the_type(desk: Desk) -> None:
    """``Content_Length`` becomes the same word in an environ that ``Content-Length`` would: it is left out."""
    lying: dict[str, Any] = {"HTTP_CONTENT_LENGTH": "1", "HTTP_CONTENT_TYPE": "text/plain"}
    call(desk.app, environ_of(body=BODY, **lying), checked=False)
    assert desk.delivered[0].headers.all("content-length") == (str(len(BODY)),)
    assert "content-type" not in desk.delivered[0].headers


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_handshake_method_reaches_only_a_source_that_has_it(desk: Desk, method: str) -> None:
    """And HEAD is answered without a body, whatever the server would do with one."""
    greeted = desk.post("/greeting", b"", method=method)
    assert (greeted.status, bool(greeted.body)) == (200, method == "GET")
    refused = desk.post(method=method)
    assert (refused.status, refused.headers["allow"]) == (405, "POST")


# --- the rules that stand once

HEADS: dict[str, tuple[str, str, dict[str, str]]] = {
    "no such endpoint": ("POST", "/nowhere", {}),
    "two segments": ("POST", "/a/billing", {}),
    "method": ("PUT", "/billing", {}),
    "compressed": ("POST", "/billing", {"content-encoding": "gzip"}),
    "announced too large": ("POST", "/billing", {"content-length": str(LIMIT + 1)}),
    "no number": ("POST", "/billing", {"content-length": "-1"}),
    "a number that Python does not read": ("POST", "/billing", {"content-length": "9" * 5_000}),
    "long url": ("POST", "/" + "x" * URL_BYTES_MAX, {}),
    "large headers": ("POST", "/billing", {"x-large": "x" * 2_000}),
    "many headers": ("POST", "/billing", {f"x-{n}": "1" for n in range(HEADERS_MAX + 1)}),
    "two framings": ("POST", "/billing", {"content-length": "1", "transfer-encoding": "chunked"}),
    "coding": ("POST", "/billing", {"transfer-encoding": "gzip, chunked"}),
    "cut short": ("POST", "/billing", {"content-length": str(len(BODY) + 1)}),
}


@pytest.mark.parametrize("name", HEADS)
def test_both_receivers_refuse_alike(desk: Desk, name: str) -> None:
    """A rule about heads stands once, whoever serves; over WSGI only the connection's end is the server's."""
    method, path, headers = HEADS[name]
    over_asgi = once(
        AsgiReceiver(find=desk.plans.get, deliver=_never),
        scope_of(path, method=method, headers=[(n.encode(), v.encode()) for n, v in headers.items()]),
        chunks(BODY),
    )
    environ = environ_of(path, io.BytesIO(BODY), method=method, headers=headers)
    if "HTTP_CONTENT_LENGTH" in environ:
        environ["CONTENT_LENGTH"] = environ.pop("HTTP_CONTENT_LENGTH")
    over_wsgi = call(desk.app, environ, checked=False)
    assert over_asgi.status >= 400
    assert (over_wsgi.status, over_wsgi.body) == (over_asgi.status, over_asgi.body)
    assert over_wsgi.headers == {k: v for k, v in over_asgi.headers.items() if k != "connection"}
    assert desk.delivered == []


async def _never(plan: EndpointPlan, delivery: Delivery) -> Receipt:
    raise AssertionError("it was believed")


# --- bodies


def test_a_chunked_body_is_read_to_its_end_where_the_server_ends_it(desk: Desk) -> None:
    """``wsgi.input_terminated``: gunicorn, waitress, Werkzeug and mod_wsgi set it."""
    for size in (0, 1, 8_191, 8_192, 8_193, LIMIT):
        body = b"x" * size
        assert desk.post(body=io.BytesIO(body), headers={"Transfer-Encoding": "chunked"}).status == 200
        assert desk.delivered.pop().body == body
    over = desk.post(body=io.BytesIO(b"x" * (LIMIT + 1)), headers={"Transfer-Encoding": "chunked"})
    assert refusal(over) == (413, "body_too_large")


def test_without_that_nothing_is_read_past_the_length(desk: Desk) -> None:
    """Beyond it a socket waits for the next request: a chunked body is refused, none announced is none."""
    endless = Endless()
    chunked = desk.post(body=endless, headers={"Transfer-Encoding": "chunked"}, **UNTERMINATED)
    assert refusal(chunked) == (411, "length_required")
    assert desk.post(body=endless, **UNTERMINATED).status == 200
    assert desk.post(body=endless, CONTENT_LENGTH="", **UNTERMINATED).status == 200
    assert endless.taken == 0
    assert desk.post(body=endless, CONTENT_LENGTH="10000", **UNTERMINATED).status == 200
    assert endless.taken == 10_000
    refused = desk.post(
        body=endless, CONTENT_LENGTH="300", headers={"Content-Encoding": "gzip"}, **UNTERMINATED
    )
    assert (refused.status, endless.taken) == (415, 10_300)
    assert [len(delivery.body) for delivery in desk.delivered] == [0, 0, 10_000]


def test_an_endless_body_is_413_and_little_more_of_it_is_taken(desk: Desk) -> None:
    """What a refused client still sends is discarded within bounds, so that it can read why."""
    endless = Endless()
    assert refusal(desk.post(body=endless)) == (413, "body_too_large")
    assert endless.taken <= LIMIT + LINGER_BYTES_MAX + 8_192


def test_a_body_that_trickles_is_408(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two reads the clock is looked at; what arrived has earned its time as over ASGI."""
    now, seconds_each = [0.0], [0.0]
    monkeypatch.setattr("webhook_inbox.http.stream.time.monotonic", lambda: now[0])

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            now[0] += seconds_each[0]
            return super().read(min(size or 0, 1_000))

    seconds_each[0] = 1.0
    assert refusal(desk.post(body=Slow(b"x" * 15_000))) == (408, "body_too_slow")
    seconds_each[0] = 0.8  # 15 reads are 12 seconds: 10, and 3 that 15,000 bytes earn
    assert desk.post(body=Slow(b"x" * 15_000)).status == 200
    seconds_each[0] = 100.0
    assert desk.post(body=Slow(b"x" * 1_000), CONTENT_LENGTH="1000", **UNTERMINATED).status == 200


def test_a_body_that_stops_is_408_where_the_server_shows_the_connection(desk: Desk) -> None:
    """The read itself is bounded, and the connection has its own patience back for what follows."""
    desk.plans["billing"] = EndpointPlan(
        name="billing", source=Stripe(SECRET), mode="inline", settings=Settings(body_seconds_max=0.05)
    )
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as file:
        ours.settimeout(7.0)
        theirs.sendall(BODY[:5])
        more: dict[str, Any] = {"gunicorn.socket": ours, "CONTENT_LENGTH": str(len(BODY)), **UNTERMINATED}
        assert refusal(desk.post(body=file, **more)) == (408, "body_too_slow")
        assert ours.gettimeout() == 7.0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionResetError(), (400, "client_gone")),
        (OSError("cut"), (400, "client_gone")),
        (ValueError("no chunk"), (400, "framing")),
    ],
    ids=["reset", "cut", "chunks that are none"],
)
def test_a_body_that_cannot_be_read_is_the_senders(
    desk: Desk, error: Exception, expected: tuple[int, str]
) -> None:
    """P-CALM: each server raises its own for a client that hangs up, or whose chunks are none."""

    class Broken:
        def read(self, size: int) -> bytes:
            raise error

    assert refusal(desk.post(body=Broken())) == expected


def test_a_body_that_somebody_has_read_is_told_so_and_the_sender_comes_again(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """A 4xx would make the provider give up for a mistake of the application (P-ACK)."""
    with caplog.at_level(logging.ERROR, logger="webhook_inbox"):
        said = desk.post(body=io.BytesIO(), CONTENT_LENGTH="14")
    assert refusal(said) == (503, "body_consumed")
    assert [record.__dict__["event"] for record in caplog.records] == ["body_consumed"]


@pytest.mark.parametrize("key", ["gunicorn.socket", "werkzeug.socket"])
def test_a_client_that_hangs_up_before_its_body_is_not_taken_for_that(desk: Desk, key: str) -> None:
    """Where the server shows the connection, it says who ended the body (P-CALM)."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        environ: dict[str, Any] = {key: ours, "CONTENT_LENGTH": "14"}
        assert refusal(desk.post(body=io.BytesIO(), **environ)) == (503, "body_consumed")
        theirs.shutdown(socket.SHUT_WR)
        assert refusal(desk.post(body=io.BytesIO(), **environ)) == (400, "client_gone")


def test_a_client_that_hangs_up_is_known_by_a_file_of_the_sockets_own(desk: Desk) -> None:
    """The standard library's server shows no connection, but hands over its end (P-CALM)."""
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("rb") as file:
        theirs.shutdown(socket.SHUT_WR)
        environ = environ_of("/billing", file, CONTENT_LENGTH="14", **UNTERMINATED)
        assert refusal(call(desk.app, environ, checked=False)) == (400, "client_gone")


# --- whatever happens


def test_a_defect_is_503_logged_and_counted_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    """P-CALM, P-QUIET: the sender comes again, and nobody reads what the exception says."""

    def fail(_: Delivery) -> Receipt:
        raise ValueError("card 4242")

    desk = Desk(fail)
    with caplog.at_level(logging.ERROR, logger="webhook_inbox"):
        said = desk.post()
    assert refusal(said) == (503, "unexpected")
    assert [record.__dict__["event"] for record in caplog.records] == ["request_failed"]
    assert "4242" not in caplog.text + said.body.decode()
    failures = desk.metrics.registry.get_sample_value(
        "webhook_inbox_failures_total", {"endpoint": "billing", "reason": "unexpected"}
    )
    assert failures == 1


@given(
    path=st.text(st.characters(max_codepoint=255), max_size=20).map(lambda text: f"/{text}"),
    headers=st.dictionaries(
        st.sampled_from(["HOST", "TRANSFER_ENCODING", "CONTENT_ENCODING", "UPGRADE", "STRIPE_SIGNATURE"]),
        st.text(st.characters(max_codepoint=255), max_size=12) | st.sampled_from(["chunked", "gzip", "h2c"]),
    ),
    length=st.sampled_from([None, "", "0", "14", "13", "+14", "1_4", "\u0661", "9" * 20, "9" * 5_000]),
    protocol=st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/9", ""]),
    terminated=st.booleans(),
)
def test_whatever_a_stranger_sends_is_one_short_answer(
    path: str, headers: dict[str, str], length: str | None, protocol: str, terminated: bool
) -> None:
    """P-CALM: below 500 but for a body that was promised and is not there, and nothing is raised."""
    desk = Desk()
    more: dict[str, Any] = {f"HTTP_{name}": value for name, value in headers.items()}
    if length is not None:
        more["CONTENT_LENGTH"] = length
    more |= {"SERVER_PROTOCOL": protocol, "wsgi.input_terminated": terminated}
    environ = environ_of(path, io.BytesIO(BODY), **more)
    said = call(desk.app, environ, checked=False)
    assert said.status < 500
    assert len(said.body) < 1_000


def test_an_error_of_ours_passes_through_a_stream_unchanged() -> None:
    """What stands for a body that is gone says so itself; it is not mistaken for a broken one."""

    class Gone:
        def read(self, size: int) -> bytes:
            raise BodyConsumedError("it is gone")

    plan = Desk().plans["billing"]
    with pytest.raises(BodyConsumedError):
        stream.Stream(Gone()).read(plan, 1, chunked=False)
