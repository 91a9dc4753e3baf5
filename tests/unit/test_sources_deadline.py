"""Whoever answers byte by byte holds the thread that asked for no longer than the whole answer may take."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from webhook_inbox.protocol.asking import Unanswered
from webhook_inbox.runtime import asking
from webhook_inbox.runtime.asking import ask
from webhook_inbox.sources.listing import Request, Response

DEADLINE_SECONDS = 10.0
BEGINNINGS = {
    "the status line": b"",
    "the headers": b"HTTP/1.1 200 OK\r\nx-long: ",
    "the body": b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n",
    "chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n186A0\r\n",
}


@contextmanager
def trickling(beginning: bytes) -> Iterator[str]:
    """A server that begins its answer so, and then sends a byte every few milliseconds; its address."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                sock, _ = listening.accept()
                with sock:
                    sock.recv(65_536)
                    sock.sendall(beginning)
                    while not ended.wait(0.01):
                        sock.sendall(b"x")

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            ended.set()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            serving.join(DEADLINE_SECONDS)


@pytest.mark.parametrize("where", BEGINNINGS)
def test_an_answer_that_trickles_is_given_up(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-CALM: each byte comes in time, and the whole of it does not."""
    monkeypatch.setattr(asking, "SECONDS_MAX", 0.3)
    heard: list[Response | Unanswered] = []
    with trickling(BEGINNINGS[where]) as url:
        waiting = threading.Thread(
            target=lambda: heard.append(ask(Request(url=url, headers=()))), daemon=True
        )
        waiting.start()
        waiting.join(DEADLINE_SECONDS)
        assert heard == [Unanswered(reason="127.0.0.1 cannot be asked: TimeoutError")]
