"""The receiver answers every request within its limits, says what helps and nothing else, and lets no exception out."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from tests.fixtures.asgi import Exchange, chunks, exchange, once, run_jumping, scope_of
from webhook_inbox.http.asgi import AsgiReceiver
from webhook_inbox.http.limits import HEADERS_MAX, URL_BYTES_MAX
from webhook_inbox.http.messages import Message
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.receipt import EventResult, Receipt
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol import answers
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.sources import Stripe
from webhook_inbox.telemetry.registry import UNKNOWN_ENDPOINT, Metrics

BODY = b'{"id":"evt_1"}'
DONE = answers.accepted([EventResult(outcome=Outcome.PROCESSED, event_id="evt_1", state=State.PROCESSED)])
SETTINGS = Settings(body_bytes_max=1_000, header_bytes_max=2_000)


class Greeting(Stripe):
    """A source whose provider opens with a GET."""

    methods: frozenset[str] = frozenset({"GET", "HEAD"})


class Desk:
    """A receiver whose deliveries are settled by a function, and what reached it."""

    def __init__(self, settle: Callable[[Delivery], Awaitable[Receipt] | Receipt] | None = None) -> None:
        source = Stripe("whsec_fake_desk_0000")
        plans = (
            EndpointPlan(name="billing", source=source, mode="inline", settings=SETTINGS),
            EndpointPlan(
                name="greeting", source=Greeting("whsec_fake_desk_0000"), mode="inline", settings=SETTINGS
            ),
        )
        self.plans = {plan.name: plan for plan in plans}
        self.settle = settle or (lambda _: DONE)
        self.delivered: list[tuple[str, Delivery]] = []
        self.points: list[str] = []
        self.metrics = Metrics()
        self.app = AsgiReceiver(
            find=self.plans.get, deliver=self.deliver, probe=self.points.append, metrics=self.metrics
        )

    async def deliver(self, plan: EndpointPlan, delivery: Delivery) -> Receipt:
        self.delivered.append((plan.name, delivery))
        settled = self.settle(delivery)
        return settled if isinstance(settled, Receipt) else await settled

    def post(
        self,
        path: str = "/billing",
        *,
        headers: Iterable[tuple[bytes, bytes]] = (),
        body: Iterable[Message] = (),
        hang: bool = False,
        **more: Any,
    ) -> Exchange:
        return once(self.app, scope_of(path, headers=headers, **more), body or chunks(BODY), hang=hang)

    def sample(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def desk() -> Desk:
    """A receiver that answers processed."""
    return Desk()


def refusal(said: Exchange) -> tuple[int, str]:
    """Status and reason of a refusal."""
    told = said.json()
    assert told["outcome"] in {"rejected", "unavailable", "failed"}
    return said.status, told["reason"]


# --- what reaches the inbox


def test_a_delivery_reaches_the_inbox_exactly_as_it_was_sent(desk: Desk) -> None:
    """P-RAW: bytes, repeated headers, URL and method arrive unchanged; the receipt goes back unchanged."""
    headers = [(b"stripe-signature", b"t=1,v1=\xe9"), (b"x-twice", b"a"), (b"x-twice", b"b")]
    said = desk.post(
        headers=headers, body=chunks(BODY[:5], BODY[5:]), query_string=b"a=1", raw_path=b"/bill%69ng"
    )
    assert (said.status, said.body) == (200, DONE.body)
    assert said.headers == {**dict(DONE.headers), "content-length": str(len(DONE.body))}
    [(endpoint, delivery)] = desk.delivered
    assert (endpoint, delivery.method, delivery.body) == ("billing", "POST", BODY)
    assert delivery.url == "https://hooks.example.test/bill%69ng?a=1"
    assert delivery.headers.all("x-twice") == ("a", "b")
    assert delivery.headers["stripe-signature"] == "t=1,v1=\xe9"


@pytest.mark.parametrize("path", ["/billing", "/billing/", "//billing", "/billing//"])
def test_every_form_of_the_path_is_served_without_a_redirect(desk: Desk, path: str) -> None:
    """Providers treat 3xx as a failure and a followed 301 loses the body: there is none."""
    assert desk.post(path).status == 200
    assert desk.post(path, root_path="/hooks").status == 200
    assert desk.post(f"/hooks{path}", root_path="/hooks").status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_handshake_method_reaches_only_a_source_that_has_it(desk: Desk, method: str) -> None:
    """GET and HEAD are for handshakes; elsewhere they are 405 with ``Allow`` and one helpful line."""
    assert desk.post("/greeting", method=method, body=chunks()).status == 200
    said = desk.post("/billing", method=method, body=chunks())
    assert refusal(said) == (405, "method")
    assert said.headers["allow"] == "POST"
    assert "POST" in said.json()["error"]
    assert desk.post("/greeting", method="PUT").headers["allow"] == "POST, GET, HEAD"
    assert [endpoint for endpoint, _ in desk.delivered] == ["greeting"]


# --- what does not


@pytest.mark.parametrize("path", ["/nowhere", "/Billing", "/a/billing", "/", "", "/billing\x00", "/%"])
def test_an_unknown_endpoint_is_404_before_its_body_and_names_no_other(desk: Desk, path: str) -> None:
    """A stranger learns nothing of the endpoints there are."""
    said = desk.post(path, headers=[(b"content-length", b"999999999")])
    assert refusal(said) == (404, "unknown_endpoint")
    assert b"greeting" not in said.body
    assert b"billing" not in said.body.replace(path.encode(), b"")
    assert desk.delivered == []


BIG = (b"x-big", b"a" * 2_000)
REFUSED: list[tuple[list[tuple[bytes, bytes]], tuple[int, str]]] = [
    ([BIG], (431, "headers_too_large")),
    ([(b"x", b"")] * HEADERS_MAX, (431, "headers_too_many")),
    ([(b"content-encoding", b"gzip")], (415, "content_encoding")),
    ([(b"content-encoding", b"identity, br")], (415, "content_encoding")),
    ([(b"content-encoding", b"identity"), (b"content-encoding", b"zstd")], (415, "content_encoding")),
    ([(b"content-encoding", b"GZIP")], (415, "content_encoding")),
    ([(b"content-length", b"14"), (b"transfer-encoding", b"chunked")], (400, "framing")),
    ([(b"content-length", b"14"), (b"content-length", b"14")], (400, "framing")),
    ([(b"content-length", b"14"), (b"content-length", b"15")], (400, "framing")),
    ([(b"content-length", b"+14")], (400, "framing")),
    ([(b"content-length", b"-1")], (400, "framing")),
    ([(b"content-length", b"0x0e")], (400, "framing")),
    ([(b"content-length", b"1_4")], (400, "framing")),
    ([(b"content-length", b"14, 14")], (400, "framing")),
    ([(b"content-length", b" 14")], (400, "framing")),
    ([(b"content-length", b"")], (400, "framing")),
    ([(b"content-length", "١٤".encode())], (400, "framing")),
    ([(b"content-length", b"9" * 5_000)], (431, "headers_too_large")),
    ([(b"content-length", b"9" * 1_000)], (400, "framing")),
    ([(b"transfer-encoding", b"xchunked")], (400, "framing")),
    ([(b"transfer-encoding", b"gzip, chunked")], (400, "framing")),
    ([(b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"chunked")], (400, "framing")),
    ([(b"transfer-encoding", b"identity")], (400, "framing")),
    ([(b"host", b"other.example.test")], (400, "host")),
    ([(b"content-length", b"1001")], (413, "body_too_large")),
    ([(b"content-length", b"999999999999999999")], (413, "body_too_large")),
]


@pytest.mark.parametrize(("headers", "expected"), REFUSED)
def test_what_the_head_forbids_is_refused_before_the_body(
    desk: Desk, headers: list[tuple[bytes, bytes]], expected: tuple[int, str]
) -> None:
    """P-CALM: the head alone decides, the connection is closed, and the inbox never hears of it."""
    said = desk.post(headers=headers, body=chunks(b"x" * 100_000))
    assert refusal(said) == expected
    assert said.headers["connection"] == "close"
    assert desk.delivered == []
    assert desk.points == ["answer.before", "answer.after"]


@pytest.mark.parametrize(
    "headers",
    [
        [(b"content-length", b"14")],
        [(b"content-length", b"014")],
        [(b"transfer-encoding", b"chunked")],
        [(b"transfer-encoding", b"Chunked ")],
        [(b"content-encoding", b"identity")],
        [(b"content-encoding", b"Identity ")],
        [(b"content-encoding", b"")],
        [(b"x-fill", b"a" * 1_970)],
        [(b"x", b"")] * (HEADERS_MAX - 1),
    ],
)
def test_what_the_head_may_say_is_served(desk: Desk, headers: list[tuple[bytes, bytes]]) -> None:
    """The limits themselves are inside; plain framing of either kind is fine."""
    assert desk.post(headers=headers).status == 200


def test_http_1_0_knows_no_transfer_encoding(desk: Desk) -> None:
    """RFC 9112, section 6.1: its framing is faulty."""
    headers = [(b"transfer-encoding", b"chunked")]
    assert refusal(desk.post(headers=headers, http_version="1.0")) == (400, "framing")


def test_a_long_url_is_refused_even_for_an_unknown_endpoint(desk: Desk) -> None:
    """Path and query count together."""
    assert refusal(desk.post(raw_path=b"/" + b"a" * URL_BYTES_MAX)) == (400, "url_too_long")
    assert refusal(desk.post(query_string=b"a" * URL_BYTES_MAX)) == (400, "url_too_long")
    assert desk.post(query_string=b"a" * (URL_BYTES_MAX - len("/billing"))).status == 200


def test_a_body_over_its_limit_is_refused_while_it_streams(desk: Desk) -> None:
    """The message names limit and setting; what is read on after it is bounded."""
    said = desk.post(body=chunks(*[b"x" * 1_000] * 200))
    assert refusal(said) == (413, "body_too_large")
    assert said.json()["error"] == "the body is over 1000 bytes (setting body_bytes_max)"
    assert 2 < said.received <= 2 + 66
    assert desk.delivered == []


def test_a_body_that_stops_is_408_and_a_broken_one_is_nothing(desk: Desk) -> None:
    """No half of a body is ever delivered."""
    half = chunks(b"half", complete=False)
    assert refusal(desk.post(body=half[:1], hang=True)) == (408, "body_too_slow")
    assert refusal(desk.post(body=half)) == (400, "client_gone")
    assert refusal(desk.post(body=chunks(b"half"), headers=[(b"content-length", b"8")])) == (
        400,
        "body_cut_short",
    )
    assert desk.delivered == []


def test_every_4xx_closes_its_connection_where_there_is_one(desk: Desk) -> None:
    """A request that was refused leaves nothing behind to be read as the next one; HTTP/2 has streams for that."""
    desk.settle = lambda _: answers.refused(400, "signature_mismatch", "no matching signature")
    assert desk.post().headers["connection"] == "close"
    assert "connection" not in desk.post(http_version="2").headers
    assert desk.post(http_version="2.0").headers["connection"] == "close"
    desk.settle = lambda _: answers.unavailable("store_unavailable", "later")
    assert "connection" not in desk.post().headers


# --- whose fault it is


def test_an_unexpected_exception_is_answered_503_and_logged_once_without_its_text(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """P-CALM, P-QUIET: the sender comes again; the log has type and frames, neither it nor the answer has the text."""

    def fail(_: Delivery) -> Receipt:
        raise ValueError("card 4242424242424242")

    desk.settle = fail
    with caplog.at_level(logging.DEBUG, logger="webhook_inbox"):
        said = desk.post()
    assert refusal(said) == (503, "unexpected")
    assert said.headers["retry-after"] == "5"
    [record] = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "webhook_inbox")
    assert record.__dict__["event"] == "request_failed"
    assert "ValueError" in record.getMessage()
    assert "test_http_receiver.py" in record.getMessage()
    assert "4242" not in caplog.text
    assert b"4242" not in said.body
    assert record.exc_info is None


def test_a_body_that_somebody_else_has_read_is_our_fault(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """A middleware that eats bodies must not make a provider give up: 503, and an error that says what to change."""
    with caplog.at_level(logging.DEBUG, logger="webhook_inbox"):
        said = desk.post(headers=[(b"content-length", b"14")], body=chunks())
    assert refusal(said) == (503, "body_consumed")
    [record] = caplog.records
    assert record.__dict__["event"] == "body_consumed"
    assert "middleware" in record.getMessage()


def test_a_body_that_the_server_lost_to_an_upgrade_is_the_senders_to_mend(desk: Desk) -> None:
    """P-CALM: uvicorn on httptools drops the body of such a request, which any stranger can send."""
    headers = [(b"content-length", b"14"), (b"upgrade", b"h2c"), (b"connection", b"upgrade")]
    assert refusal(desk.post(headers=headers, body=chunks())) == (400, "upgrade")
    assert desk.post(headers=headers).status == 200


def test_the_inbox_is_not_asked_for_an_endpoint_that_cannot_be_found(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P-CALM: even a resolver that fails is answered, and logged once."""

    def find(name: str) -> EndpointPlan | None:
        raise LookupError(name)

    app = AsgiReceiver(find=find, deliver=Desk().deliver)
    said = once(app, scope_of("/billing"), chunks(BODY))
    assert refusal(said) == (503, "unexpected")
    assert [record.__dict__["event"] for record in caplog.records] == ["request_failed"]


# --- the way back


def test_a_client_that_is_gone_is_no_error(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A server may say so with an OSError; the event is settled all the same, and nobody is alarmed."""

    async def story(refused: bool) -> None:
        messages = chunks(b"x" * 2_000, b"and more") if refused else chunks(BODY)

        async def receive() -> Message:
            return messages.pop(0)

        async def send(message: Message) -> None:
            raise ConnectionResetError

        await desk.app(scope_of(), receive, send)

    for refused in (False, True):
        run_jumping(story(refused))
    assert len(desk.delivered) == 1
    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []
    assert desk.points == ["answer.before", "answer.after"] * 2


def test_a_server_that_refuses_the_answer_is_logged_once(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """P-CALM: nothing leaves as an exception, not even the server's own."""

    async def story() -> None:
        messages = chunks(BODY)

        async def receive() -> Message:
            return messages.pop(0)

        async def send(message: Message) -> None:
            raise RuntimeError("no")

        await desk.app(scope_of(), receive, send)

    run_jumping(story())
    [record] = caplog.records
    assert record.__dict__["event"] == "answer_unsent"
    assert "RuntimeError" in record.getMessage()


def test_a_cancelled_request_ends_as_cancelled_and_is_not_in_flight(desk: Desk) -> None:
    """The server's own cancellation goes through; only the delivery beneath is shielded, by the runtime."""

    async def story() -> bool:
        begun, never = asyncio.Event(), asyncio.Event()

        async def settle(_: Delivery) -> Receipt:
            begun.set()
            await never.wait()
            return DONE

        desk.settle = settle
        task = asyncio.create_task(exchange(desk.app, scope_of(), chunks(BODY)))
        await begun.wait()
        assert desk.sample("webhook_inbox_requests_in_flight") == 1
        task.cancel()
        done, _ = await asyncio.wait({task})
        return next(iter(done)).cancelled()

    assert run_jumping(story())
    assert desk.sample("webhook_inbox_requests_in_flight") == 0


def test_no_answer_is_split_whatever_a_handshake_echoes(desk: Desk) -> None:
    """P-CALM: a line end in a header value would begin a header, or a body, of the stranger's choice."""
    echoed = "a\r\nset-cookie: x\r\n\r\n<script>\x00\u2028é☂"
    desk.settle = lambda _: Receipt(status=200, outcome=Outcome.HANDSHAKE, headers=(("x-echo", echoed),))
    value = desk.post("/greeting", method="GET", body=chunks()).headers["x-echo"]
    assert value == "aset-cookie: x<script>é?"


# --- what is left behind


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_refused_for_its_size_leaves_a_line_that_finds_the_gap(
    desk: Desk, announced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Endpoint, size and the provider's own id: enough to have it sent again."""
    headers = [(b"x-github-delivery", b'72d3162e"\r\n' + b"a" * 500), (b"x-secret", b"hunter2")]
    headers += [(b"content-length", b"2000")] if announced else []
    assert refusal(desk.post(headers=headers, body=chunks(b"x" * 2_000))) == (413, "body_too_large")
    [record] = caplog.records
    line = record.getMessage()
    assert record.levelname == "WARNING"
    assert record.__dict__["event"] == "delivery_too_large"
    assert "endpoint billing" in line
    assert ("2000" if announced else "at least 2000") in line
    assert 'x-github-delivery="72d3162e\\"\\r\\n' in line
    assert "\n" not in line
    assert len(line) < 400
    assert "hunter2" not in line


@pytest.mark.parametrize(
    ("headers", "lines"),
    [([BIG], 1), ([(b"content-encoding", b"gzip")], 1), ([(b"content-length", b"x")], 1), ([], 0)],
)
def test_a_refusal_leaves_at_most_one_line(
    desk: Desk, headers: list[tuple[bytes, bytes]], lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    """P-QUIET: the reason code, and nothing that the stranger wrote."""
    with caplog.at_level(logging.DEBUG, logger="webhook_inbox"):
        desk.post(headers=headers)
        desk.post("/nowhere")
        desk.post(method="PUT")
    assert len(caplog.records) == lines
    assert "gzip" not in caplog.text


def test_everything_is_counted_under_bounded_names(desk: Desk) -> None:
    """Known endpoints by name, all others under one; by outcome and by reason; never by what a stranger wrote."""
    desk.post()
    desk.post("/stranger-chose-this")
    desk.post(headers=[(b"content-length", b"5000")])
    desk.post(body=chunks(b"x" * 1_500))
    unknown = UNKNOWN_ENDPOINT
    deliveries, rejections = "webhook_inbox_deliveries_total", "webhook_inbox_rejections_total"
    assert desk.sample(deliveries, endpoint=unknown, outcome="rejected") == 1
    assert desk.sample(rejections, endpoint=unknown, reason="unknown_endpoint") == 1
    assert desk.sample(deliveries, endpoint="billing", outcome="rejected") == 2
    assert desk.sample(rejections, endpoint="billing", reason="body_too_large") == 2
    assert desk.sample("webhook_inbox_body_bytes_total", endpoint="billing") == len(BODY) + 1_500
    assert b"stranger" not in desk.metrics.expose()[0]


# --- other scopes


def test_a_websocket_is_declined(desk: Desk) -> None:
    """Closed before it is accepted, which servers answer with 403."""
    said = once(
        desk.app, {"type": "websocket", "path": "/billing", "headers": []}, [{"type": "websocket.connect"}]
    )
    assert [message["type"] for message in said.sent] == ["websocket.close"]


def test_an_unknown_protocol_is_left_alone(desk: Desk) -> None:
    """Nothing is said in a language that is not known."""
    assert once(desk.app, {"type": "future"}).sent == []


def test_the_answer_is_json_that_no_browser_sniffs(desk: Desk) -> None:
    """The name that a 404 shows can be nothing else than text."""
    said = desk.post("/<script>alert(1)")
    assert json.loads(said.body)["reason"] == "unknown_endpoint"
    assert b"<" not in said.body
    assert said.headers["content-type"] == "application/json"
    assert said.headers["x-content-type-options"] == "nosniff"
