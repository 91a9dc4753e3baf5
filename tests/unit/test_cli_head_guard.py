"""P-CALM: a request head that is late or endless costs a bounded time and a bounded memory, and nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from webhook_inbox.cli import head_guard
from webhook_inbox.cli.head_guard import HEAD_BYTES_MAX, GuardedHttp

SECONDS_MAX = 20.0
REQUEST = b"POST /billing HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"


class Gate:
    """An application whose answer waits for the test."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        self.open.set()

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        self.entered.set()
        await asyncio.get_running_loop().run_in_executor(None, self.open.wait, SECONDS_MAX)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def gate() -> Gate:
    """Open, unless a test closes it."""
    return Gate()


@pytest.fixture
def port(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server with the guard, whose clock runs for half a second."""
    monkeypatch.setattr(head_guard, "HEAD_SECONDS_MAX", 0.5)
    config = uvicorn.Config(gate, http=GuardedHttp, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            gate.open.set()
            server.should_exit = True
            thread.join(SECONDS_MAX)


def connect(port: int) -> socket.socket:
    """A connection that does not wait for ever."""
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)


def rest(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65_536):
            received += chunk
    return received


@pytest.mark.parametrize("start", [b"P", b"POST / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nX-Slow: "])
def test_a_head_that_does_not_end_is_answered_408_and_closed(port: int, start: bytes) -> None:
    """However far it got."""
    with connect(port) as connection:
        connection.sendall(start)
        assert rest(connection).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("start", [b"", b"\r\n\r\n"], ids=["nothing", "empty lines"])
def test_a_connection_without_a_request_is_closed(port: int, start: bytes) -> None:
    """Nothing was asked, so nothing is answered."""
    with connect(port) as connection:
        connection.sendall(start)
        assert rest(connection) == b""


def test_a_trickle_of_header_bytes_does_not_keep_a_connection(port: int) -> None:
    """The clock is for the whole head, not for its next byte."""
    with connect(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\n")
        connection.settimeout(0.05)
        received = b""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(400):  # 20 seconds at most
                connection.sendall(b"X-More: 1\r\n")
                with contextlib.suppress(TimeoutError):
                    received += connection.recv(65_536)
                    break
        assert received.startswith(b"HTTP/1.1 408 ")


def test_an_endless_head_is_answered_431_and_not_kept(port: int) -> None:
    """Whatever it is made of: it is cut off soon after the limit."""
    line = b"X-Endless: " + b"x" * 1_000 + b"\r\n"
    sent = 0
    with connect(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\n")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 100 * HEAD_BYTES_MAX:
                connection.sendall(line * 16)
                sent += len(line) * 16
        assert rest(connection)[:13] in (b"HTTP/1.1 431 ", b"")  # a reset may overtake the answer
    assert HEAD_BYTES_MAX < sent < 50 * HEAD_BYTES_MAX


def test_an_ordinary_request_passes_and_so_does_the_next_on_its_connection(port: int) -> None:
    """In one segment, byte by byte, and with a body that comes later."""
    with connect(port) as connection:
        connection.sendall(REQUEST)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
        for each in (REQUEST[at : at + 1] for at in range(len(REQUEST))):
            connection.sendall(each)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_the_clock_of_the_head_does_not_run_while_a_request_is_handled(port: int, gate: Gate) -> None:
    """Not even when the next request's head has begun: the answer on its way is not torn off."""
    gate.open.clear()
    with connect(port) as connection:
        connection.sendall(REQUEST)
        assert gate.entered.wait(SECONDS_MAX)
        connection.sendall(b"POST /next HTTP/1.1\r\nHost:")
        threading.Timer(1.5, gate.open.set).start()  # three times the clock
        received = rest(connection)
    assert received.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in received


def test_a_body_is_not_counted_as_a_head(port: int) -> None:
    """Larger than any head may be, and slower."""
    body = b"x" * (8 * HEAD_BYTES_MAX)
    with connect(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
        connection.sendall(body)
        connection.sendall(REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        received = rest(connection)
    assert received.count(b"HTTP/1.1 200 ") == 2
