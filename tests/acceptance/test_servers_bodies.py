"""Bodies of any size, cut anywhere, at any speed, through real servers: exact below the limits, bounded above."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fixtures.http_servers import (
    BODY_SECONDS_MAX,
    HttpServer,
    Reply,
    chunked,
    read_reply,
    request,
    signed,
)
from tests.fixtures.http_stub import LARGE_BYTES_MAX

MIB = 1_048_576
LIMIT = MIB  # the default of a source that names no other
MULTIBYTE = '{"id":"evt_c02","title":"Café 😊 ☂ mânecă","note":"a\u2028b"}'.encode()


def json_of(size: int) -> bytes:
    """A body of exactly this many bytes."""
    head, tail = b'{"id":"evt_size","pad":"', b'"}'
    return head + b"a" * (size - len(head) - len(tail)) + tail


def digest(body: bytes) -> str:
    """What the stub calls an authentic body."""
    return hashlib.sha256(body).hexdigest()


def check_processed(reply: Reply, body: bytes) -> None:
    """The delivery was believed, and exactly these bytes arrived (P-RAW)."""
    assert (reply.status, reply.json()["event_id"]) == (200, digest(body))


def test_multibyte_characters_cut_by_chunks_arrive_unchanged(server: HttpServer) -> None:
    """Chunks that end inside a character, and one byte a chunk, verify and arrive as sent (P-RAW)."""
    inside = [
        MULTIBYTE.index("â".encode()) + 1,
        MULTIBYTE.index("😊".encode()) + 2,
        MULTIBYTE.index("\u2028".encode()) + 1,
    ]
    for cuts in (*([cut] for cut in inside), sorted(inside), range(1, len(MULTIBYTE))):
        edges = [0, *cuts, len(MULTIBYTE)]
        parts = [MULTIBYTE[a:b] for a, b in itertools.pairwise(edges)]
        check_processed(server.send(*chunked(parts)), MULTIBYTE)


def test_a_pause_inside_a_character_changes_nothing(server: HttpServer) -> None:
    """The server hands each half over by itself: the second is sent only when the application has the first."""
    cut = MULTIBYTE.index("😊".encode()) + 2
    head, first, second, end = chunked([MULTIBYTE[:cut], MULTIBYTE[cut:]])
    server.seen()
    with server.connect() as connection:
        connection.sendall(head + first)
        deadline = time.monotonic() + BODY_SECONDS_MAX
        while not any(entry["bytes"] == cut for entry in _peek(server)):
            assert time.monotonic() < deadline, "the first half did not reach the application"
        connection.sendall(second + end)
        check_processed(read_reply(connection), MULTIBYTE)


def _peek(server: HttpServer) -> list[dict[str, int]]:
    return [entry for entry in server.ask("/_peek") if entry["path"] == "/billing"]


@pytest.mark.parametrize("transfer", ["length", "chunked"])
@pytest.mark.parametrize("size", [99_000, 457_522, LIMIT])
def test_a_body_up_to_the_limit_is_taken(server: HttpServer, size: int, transfer: str) -> None:
    """What other frameworks refuse by default (100 kB) arrives intact, up to exactly the limit."""
    check_processed(_post(server, json_of(size), transfer), json_of(size))


@pytest.mark.parametrize("transfer", ["length", "chunked"])
@pytest.mark.parametrize("size", [5_000_000, 24_900_000, LARGE_BYTES_MAX])
def test_an_endpoint_may_take_more(server: HttpServer, size: int, transfer: str) -> None:
    """``body_bytes_max`` is per endpoint: 25 MiB bodies, as GitHub sends them, arrive intact."""
    check_processed(_post(server, json_of(size), transfer, path="/large"), json_of(size))


@pytest.mark.parametrize("transfer", ["length", "chunked"])
@pytest.mark.parametrize("excess", [1, 1_000, 500_000])
def test_a_body_over_the_limit_is_413_and_the_sender_can_read_why(
    server: HttpServer, excess: int, transfer: str
) -> None:
    """A sender that reads only after it has sent everything still gets the answer, not a reset connection."""
    reply = _post(server, json_of(LIMIT + excess), transfer)
    assert (reply.status, reply.closed) == (413, True)
    assert reply.json()["error"] == f"the body is over {LIMIT} bytes (setting body_bytes_max)"
    assert b"connection: close" in reply.head


def test_a_body_refused_for_its_size_leaves_one_line_in_the_log(server: HttpServer) -> None:
    """Endpoint, size and delivery id: enough to find the gap and have the delivery sent again."""
    server.new_log()
    body = json_of(LIMIT + 1)
    server.send(request(body, headers=[*signed(body), ("X-GitHub-Delivery", "72d3162e-cc78")]))
    lines = [line for line in server.new_log().splitlines() if "body_bytes_max" in line]
    assert len(lines) == 1
    assert all(part in lines[0] for part in ("billing", str(LIMIT + 1), 'x-github-delivery="72d3162e-cc78"'))


def _post(server: HttpServer, body: bytes, transfer: str, *, path: str = "/billing") -> Reply:
    if transfer == "length":
        return server.send(request(body, path=path, headers=signed(body)))
    size = 60_000
    return server.send(*chunked((body[at : at + size] for at in range(0, len(body), size)), path=path))


def test_what_follows_an_announced_length_is_no_part_of_the_body(server: HttpServer) -> None:
    """``Content-Length: 10`` with 5 MB behind it: ten bytes are the request, the rest gets nowhere."""
    server.seen()
    flood = json_of(5_000_000)
    reply = server.send(request(flood, length=10, headers=signed(flood)))
    assert reply.closed
    assert reply.statuses[:1] == [400]
    assert all(status < 500 for status in reply.statuses)
    seen = server.seen()
    assert [entry["bytes"] for entry in seen if entry["path"] == "/billing"] == [10]
    assert all(entry["method"] == "POST" for entry in seen if entry["path"] != "/_seen")


def test_a_body_that_stops_halfway_and_hangs_is_408(server: HttpServer) -> None:
    """Nothing of it is delivered, and the connection does not stay (C15, F31)."""
    before = server.ask("/_held")["settled"]
    body = json_of(1_000)
    begun = time.monotonic()
    reply = server.send(request(body[:500], length=1_000, headers=signed(body)))
    assert (reply.status, reply.closed) == (408, True)
    assert BODY_SECONDS_MAX * 0.9 < time.monotonic() - begun < BODY_SECONDS_MAX + 15
    assert server.ask("/_held")["settled"] == before


@pytest.mark.parametrize("sent", [0, 500])
def test_a_client_that_hangs_up_halfway_has_delivered_nothing(server: HttpServer, sent: int) -> None:
    """Closing the sending half is no end of a body; there is at most a 400 (C15)."""
    before = server.ask("/_held")["settled"]
    server.new_log()
    body = json_of(1_000)
    for end in ("half", "whole", "reset"):
        with server.connect() as connection:
            connection.sendall(request(body[:sent], length=1_000, headers=signed(body)))
            if end == "half":
                connection.shutdown(socket.SHUT_WR)
                assert read_reply(connection).statuses in ([], [400])
            if end == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    check_processed(server.send(request(body, headers=signed(body))), body)
    assert server.ask("/_held")["settled"] == before + 1
    check_quiet(server.new_log())


def check_quiet(log: str) -> None:
    """Neither the server nor the receiver was surprised."""
    assert "Traceback" not in log
    assert "Exception" not in log
    assert "ERROR" not in log


def test_fifty_slow_bodies_are_closed_in_time_and_cost_little(server: HttpServer) -> None:
    """F31, P-CALM: a byte now and then keeps no connection open; all are 408 at the deadline, in bounded memory."""
    body = json_of(1_000)
    resting = server.forget_peak()
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(50)]
        begun = time.monotonic()
        for connection in connections:
            connection.sendall(request(b"", length=1_000, headers=signed(body)))
        with ThreadPoolExecutor(50) as pool:
            replies = list(pool.map(_trickle, connections))
        seconds = time.monotonic() - begun
    assert [reply.statuses for reply in replies] == [[408]] * 50
    assert all(reply.closed for reply in replies)
    assert seconds < BODY_SECONDS_MAX + 15
    assert server.peak() - resting < 50 * MIB
    check_processed(server.send(request(body, headers=signed(body))), body)


def _trickle(connection: socket.socket) -> Reply:
    """Send a byte each half second until there is an answer."""
    connection.settimeout(0.5)
    while True:
        with contextlib.suppress(TimeoutError):
            if connection.recv(1, socket.MSG_PEEK):
                return read_reply(connection)
            raise AssertionError("closed without an answer")
        connection.sendall(b"x")


def test_fifty_uploads_of_the_limit_at_once_arrive_intact(server: HttpServer) -> None:
    """C15: all are taken, and memory is bounded by what was sent."""
    body = json_of(LIMIT)
    resting = server.forget_peak()
    with ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(lambda _: server.send(request(body, headers=signed(body))), range(50)))
    for reply in replies:
        check_processed(reply, body)
    assert server.peak() - resting < 50 * 3.5 * MIB


def _zeros(total: int, piece: bytes) -> Iterator[bytes]:
    for _ in range(total // len(piece)):
        yield piece


@pytest.mark.parametrize("transfer", ["length", "chunked"])
def test_a_hundred_megabytes_are_refused_with_memory_flat(server: HttpServer, transfer: str) -> None:
    """F32, P-CALM: 413, no more read than the limit and a little, less than 10 MB of memory, connection closed."""
    total, piece = 104_857_600, b"\0" * 65_536
    server.seen()
    resting = server.forget_peak()
    reply = _flood(server, transfer, total, piece)
    assert (reply.statuses, reply.closed) == ([413], True)
    grown = server.peak() - resting
    [entry] = [entry for entry in server.seen() if entry["path"] == "/billing"]
    # The last chunk is as large as the server reads at once: more where it was late to be asked for it.
    assert entry["bytes"] <= LIMIT + 65_536 + 1_048_576
    assert grown < 10_000_000


def _flood(server: HttpServer, transfer: str, total: int, piece: bytes) -> Reply:
    framing = ("Content-Length", str(total)) if transfer == "length" else ("Transfer-Encoding", "chunked")
    wrapped = piece if transfer == "length" else b"%x\r\n%b\r\n" % (len(piece), piece)
    with server.connect() as connection:
        connection.sendall(request(b"", length=None, headers=[*signed(b""), framing]))
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for part in _zeros(total, piece):
                connection.sendall(wrapped if part else b"")
        return read_reply(connection)


@pytest.mark.parametrize(
    "coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip", "x-gzip", "identity, gzip"]
)
def test_a_compressed_bomb_is_refused_unopened(server: HttpServer, coding: str) -> None:
    """F34, P-CALM: 415 from the header alone; nothing is inflated and nothing of the body is waited for."""
    bomb = b"\x1f\x8b" + b"\0" * 1_000
    resting = server.forget_peak()
    begun = time.monotonic()
    reply = server.send(request(bomb, headers=[*signed(bomb), ("Content-Encoding", coding)]))
    assert (reply.status, reply.json()["reason"]) == (415, "content_encoding")
    assert time.monotonic() - begun < 10
    assert server.peak() - resting < 5 * MIB


def test_a_lying_length_on_a_bomb_makes_no_difference(server: HttpServer) -> None:
    """F34, P-CALM: the encoding is refused before the length is looked at."""
    reply = server.send(request(b"\x1f\x8b", length=10_000_000_000, headers=[("Content-Encoding", "gzip")]))
    assert (reply.status, reply.json()["reason"]) == (415, "content_encoding")
