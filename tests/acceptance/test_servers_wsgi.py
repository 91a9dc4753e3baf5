"""The WSGI receiver on real servers: exact bytes, the same answers, and processes that fork after it was made."""

from __future__ import annotations

import hashlib
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.http_inbox import DSN_VARIABLE, EFFECTS
from tests.fixtures.http_servers import (
    WSGI_KINDS,
    WSGI_STUB,
    HttpServer,
    Kind,
    Reply,
    chunked,
    request,
    running,
    signed,
)
from tests.fixtures.http_stub import BODY_SECONDS_VARIABLE

LIMIT = 1_048_576  # the default of a source that names no other
MULTIBYTE = '{"id":"evt_c02","title":"Café 😊 ☂ mânecă","note":"a\u2028b"}'.encode()
INBOX = "tests.fixtures.http_inbox:wsgi"


def delivery(body: bytes, path: str = "/billing") -> bytes:
    """A signed request that closes its connection."""
    return request(body, path=path, headers=signed(body))


def check_processed(reply: Reply, body: bytes) -> None:
    """The delivery was believed, and exactly these bytes arrived (P-RAW)."""
    assert (reply.status, reply.json()["event_id"]) == (200, hashlib.sha256(body).hexdigest())


@pytest.mark.parametrize("size", [1, 8_191, 8_193, 100_000, LIMIT])
def test_a_body_of_a_known_length_arrives_as_it_was_sent(wsgi_server: HttpServer, size: int) -> None:
    """P-RAW: up to the limit itself, cut into segments anywhere."""
    body = MULTIBYTE * (size // len(MULTIBYTE)) + b"a" * (size % len(MULTIBYTE))
    raw = delivery(body)
    middle = len(raw) // 2 + 1
    check_processed(wsgi_server.send(raw[:middle], raw[middle:]), body)


def test_a_chunked_body_arrives_as_it_was_sent_or_is_told_to_say_its_length(wsgi_server: HttpServer) -> None:
    """Gunicorn and waitress end such a body, the standard library's server hands it on as it is."""
    pieces = [MULTIBYTE[at : at + 7] for at in range(0, len(MULTIBYTE), 7)]
    reply = wsgi_server.send(*chunked(pieces))
    if wsgi_server.kind == "wsgiref":
        assert (reply.status, reply.json()["reason"]) == (411, "length_required")
    else:
        check_processed(reply, MULTIBYTE)


def test_a_body_over_the_limit_is_413_and_the_sender_can_read_why(wsgi_server: HttpServer) -> None:
    """A sender that reads only after it has sent everything gets the answer, not a reset connection."""
    reply = wsgi_server.send(delivery(b"x" * (LIMIT + 1)))
    assert (reply.status, reply.json()["reason"]) == (413, "body_too_large")


def test_methods_paths_and_handshakes_are_answered_as_over_asgi(wsgi_server: HttpServer) -> None:
    """One set of rules; HEAD has the headers alone."""
    assert wsgi_server.send(request(path="/nowhere")).status == 404
    wrong = wsgi_server.send(request(method="PUT"))
    assert (wrong.status, b"allow: post" in wrong.head) == (405, True)
    assert wsgi_server.send(request(path="/greeting", method="GET")).raw.endswith(b"hello")
    head = wsgi_server.send(request(path="/greeting", method="HEAD"))
    assert (head.status, head.raw.endswith(b"\r\n\r\n")) == (200, True)


@pytest.mark.parametrize("path", ["/billing", "/billing/", "//billing", "/%62illing", "/billing?a=%20b"])
def test_every_form_of_the_path_takes_a_delivery(wsgi_server: HttpServer, path: str) -> None:
    """Without a redirect, which providers treat as a failure."""
    check_processed(wsgi_server.send(delivery(MULTIBYTE, path)), MULTIBYTE)


@pytest.mark.parametrize("sent", [0, 20])
def test_a_client_that_hangs_up_leaves_no_error_and_the_next_is_served(
    wsgi_server: HttpServer, sent: int
) -> None:
    """Before the body, and in the middle of it: nothing that a stranger does is an error of ours (P-CALM)."""
    wsgi_server.new_log()
    head, _, body = delivery(MULTIBYTE).partition(b"\r\n\r\n")
    reply = wsgi_server.send(head + b"\r\n\r\n" + body[:sent], end=True)
    assert reply.statuses in ([400], [])
    check_processed(wsgi_server.send(delivery(MULTIBYTE)), MULTIBYTE)
    assert "Traceback" not in wsgi_server.new_log()


def test_a_body_that_stops_halfway_is_408_on_gunicorn(tmp_path: Path) -> None:
    """It frees the thread; of the other servers waitress asks nobody before the body is complete."""
    with running("gunicorn", tmp_path / "log", app=WSGI_STUB, **{BODY_SECONDS_VARIABLE: "0.5"}) as server:
        stopped = request(MULTIBYTE[:20], headers=signed(MULTIBYTE), length=len(MULTIBYTE))
        reply = server.send(stopped)
        assert (reply.status, reply.json()["reason"]) == (408, "body_too_slow")
        check_processed(server.send(delivery(MULTIBYTE)), MULTIBYTE)


@pytest.mark.parametrize("kind", WSGI_KINDS)
def test_an_event_that_comes_many_times_at_once_takes_effect_once(
    kind: Kind, database: str, tmp_path: Path
) -> None:
    """P-ONCE, P-DUP, in processes that were forked after the inbox was made: each opens connections of its own."""
    event = b'{"id":"evt_%d","object":"event","type":"order.paid","data":{"object":{}}}'
    with psycopg.connect(database, autocommit=True) as witness:
        witness.execute(EFFECTS)
        with running(kind, tmp_path / "log", app=INBOX, **{DSN_VARIABLE: database}) as server:
            requests = [delivery(event % (n % 8)) for n in range(64)]
            requests += [delivery(event % (100 + n), "/queued") for n in range(8)]
            with ThreadPoolExecutor(8) as clients:
                replies = list(clients.map(server.send, requests))
            assert {reply.status for reply in replies} == {200}
            effects = witness.execute("SELECT event_id, title FROM effects").fetchall()
            assert sorted(event_id for event_id, _ in effects) == [f"evt_{n}" for n in range(8)]
            assert {int(pid) for _, pid in effects} <= {*server.pids()}
            assert len(server.pids()) == (3 if kind == "gunicorn" else 1)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(20)
        assert witness.execute(
            "SELECT endpoint, state, count(*) FROM webhooks.inbox GROUP BY 1, 2 ORDER BY 1"
        ).fetchall() == [("billing", "processed", 8), ("queued", "waiting", 8)]
