"""An audit reaches one receiver on this machine, and nobody else; whatever comes back is an answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.testing.audit.wire import Wire, is_loopback

SECONDS_MAX = 10.0


@contextmanager
def serving(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server on loopback that does *answer* with one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(SECONDS_MAX)

        def serve() -> None:
            opened, _ = listening.accept()
            with opened:
                opened.settimeout(SECONDS_MAX)
                answer(opened)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/hooks?a=1"
        thread.join(SECONDS_MAX)


@pytest.mark.parametrize(
    ("said", "status", "silence"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 500 No\r\nA: b\r\n\r\nbody", 500, ""),
        (b"HTTP/1.1 307 Elsewhere\r\nLocation: http://192.0.2.1/\r\n\r\n", 307, ""),
        (b"nonsense\r\n\r\n", 0, ""),
        (b"HTTP/1.1 200", None, "connection closed"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000, None, "connection closed"),
        (b"", None, "connection closed"),
    ],
)
def test_whatever_comes_back_is_read_as_an_answer(said: bytes, status: int | None, silence: str) -> None:
    """A status, or why there is none; a redirect is a status like any other."""

    def answer(opened: socket.socket) -> None:
        opened.recv(65_536)
        opened.sendall(said)

    with serving(answer) as url:
        found = Wire(url, owned=False).request("POST", (), b"{}", SECONDS_MAX)
    assert (found.status, found.silence) == (status, silence)


def test_who_does_not_answer_is_not_waited_for() -> None:
    """The time is the caller's."""
    done = threading.Event()
    with serving(lambda _: done.wait(SECONDS_MAX)) as url:
        found = Wire(url, owned=False).request("POST", (), b"{}", 0.1)
        done.set()
    assert (found.status, found.silence) == (None, "no answer in time")


def test_who_lets_nobody_in_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the queue of connections is full, as many are opened as there is room for, and a request has no answer."""
    monkeypatch.setattr("webhook_inbox.testing.audit.wire._CONNECT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listening:
        wire = Wire(f"http://127.0.0.1:{listening.getsockname()[1]}/", owned=False)
        with wire.lines(8) as lines:
            assert 1 <= len(lines) < 8
            assert wire.request("POST", (), b"{}", SECONDS_MAX).silence == "no answer in time"


def test_the_request_is_as_it_was_asked_for() -> None:
    """Target, host, length and headers, with no character lost that latin-1 has."""
    heard: list[bytes] = []
    with serving(lambda opened: heard.append(opened.recv(65_536))) as url:
        Wire(url, owned=False).request("POST", [("x-odd", "\xff")], b"{}", SECONDS_MAX)
    head, _, body = heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /hooks?a=1 HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nx-odd: \xff\r\n" in head
    assert b"\r\ncontent-length: 2" in head
    assert body == b"{}"


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),  # noqa: S104 - nobody listens
        ("::", False),
        ("10.0.0.1", False),
        ("169.254.169.254", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("192.0.2.1", False),
    ],
)
def test_only_loopback_is_this_machine(address: str, own: bool) -> None:
    """By the address, not by its spelling."""
    assert is_loopback(address) is own


@pytest.mark.parametrize("addresses", [["192.0.2.1"], ["127.0.0.1", "192.0.2.1"]])
def test_what_a_name_resolves_to_is_looked_at_each_time(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of this machine that leads elsewhere the second time is not connected to, unless the user owns it."""
    tried: list[str] = []

    def connect(address: tuple[str, int], *_: object) -> socket.socket:
        tried.append(address[0])
        raise ConnectionRefusedError

    found = [["127.0.0.1"], addresses, addresses]
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (one, 0)) for one in found.pop(0)]
    )
    monkeypatch.setattr(socket, "create_connection", connect)
    wire = Wire("http://receiver.example.test/", owned=False)
    with pytest.raises(ConnectionRefusedError):
        wire.open()
    with pytest.raises(ConfigurationError, match="--i-own-this-receiver"):
        wire.open()
    assert tried == ["127.0.0.1"]
    with pytest.raises(ConnectionRefusedError):
        Wire("http://receiver.example.test/", owned=True).open()
    assert tried == ["127.0.0.1", *addresses]


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://127.0.0.1/", "127.0.0.1:80/x", "http://", "http://a:b@127.0.0.1/", "http://h:x/"),
        *("http://localhost../x", f"http://{'h' * 64}.test/", "http://[::1/x", "http://127.0.0.1:0/x"),
        *("http://127.0.0.1/a b", "http://127.0.0.1/zo\xeb", "http://127.0.0.1/a\tb", "http:///x"),
    ],
)
def test_what_is_no_url_is_refused_unquoted(url: str) -> None:
    """P-QUIET: it may hold credentials."""
    with pytest.raises(ConfigurationError, match="expected http://") as caught:
        Wire(url, owned=True)
    assert "a:b" not in str(caught.value)
