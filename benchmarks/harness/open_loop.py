"""
Send at a constant rate, whatever the receiver makes of it: open loop, as providers do.

Latency counts from the moment at which a request was due, not from when a connection was free for it: a receiver that
stalls for a second delays every request of that second, and all of them are counted (what wrk2 calls coordinated
omission).
"""

from __future__ import annotations

import select
import socket
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from typing import BinaryIO

from benchmarks.harness.errors import BenchmarkError
from benchmarks.harness.requests import Requests

CONNECTIONS = 64
_GRACE_SECONDS = 10.0
_READ_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """
    Hold what a constant rate came to.

    Attributes:
        answers: Requests that were answered 200.
        refused: Those answered otherwise, or whose connection broke.
        unanswered: Those without an answer some seconds after the last was due.
    """

    answers: int
    refused: int
    unanswered: int
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(slots=True, eq=False)
class Connection:
    """Hold one connection and the one request that is under way on it."""

    port: int
    socket: socket.socket = field(init=False)
    due_at: float = 0.0
    heard: bytes = b""

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Connect."""
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=_GRACE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Disconnect."""
        self.socket.close()

    def fileno(self) -> int:
        """Let ``select`` watch it."""
        return self.socket.fileno()

    def ask(self, request: bytes, due_at: float) -> None:
        """Send *request*, which was due at *due_at*; nothing else may be under way."""
        self.due_at, self.heard = due_at, b""
        try:
            self.socket.sendall(request)
        except OSError:  # the receiver closed an idle connection, as HTTP lets it
            self.reopen()
            self.socket.sendall(request)

    def reopen(self) -> None:
        """Connect anew."""
        self.close()
        self.open()

    def wait(self) -> int:
        """Give the status of the response, when it is there; see ``hear``."""
        while (status := self.hear()) == 0:
            pass
        return status

    def hear(self) -> int:
        """Read what came; give the status of a whole response, 0 where it goes on, -1 where the connection broke."""
        try:
            got = self.socket.recv(_READ_BYTES)
        except OSError:
            got = b""
        self.heard += got
        head, end, body = self.heard.partition(b"\r\n\r\n")
        if not end:
            return 0 if got else -1
        length, closing = _framing(head)
        if len(body) < length:
            return 0 if got else -1
        if closing:
            self.reopen()
        return int(head[9:12])


def _framing(head: bytes) -> tuple[int, bool]:
    lines = head.lower().split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
    return length, b"connection: close" in lines


def send_at(requests: Requests, port: int, *, per_second: float) -> Paced:
    """Send each of *requests* once to 127.0.0.1:*port*, *per_second* of them."""
    connections = [Connection(port) for _ in range(CONNECTIONS)]
    try:
        with requests.file.open("rb") as file:
            return _Pace(requests, file, per_second, deque(connections)).run()
    finally:
        for each in connections:
            each.close()


class _Pace:
    def __init__(
        self, requests: Requests, file: BinaryIO, per_second: float, idle: deque[Connection]
    ) -> None:
        self._requests, self._file, self._per_second = requests, file, per_second
        self._idle, self._busy = idle, set[Connection]()
        self._sent = self._refused = 0
        self._latencies: list[float] = []

    def run(self) -> Paced:
        begin = time.perf_counter()
        last_due_at = begin + self._requests.count / self._per_second
        while self._busy or self._sent < self._requests.count:
            now = time.perf_counter()
            if now > last_due_at + _GRACE_SECONDS:
                break
            wait = self._send_due(begin, now)
            ready, _, _ = select.select(self._busy, [], [], wait)
            self._hear(ready)
        return self._result()

    def _send_due(self, begin: float, now: float) -> float:
        """Send what is due and has a connection; give the seconds until there may be more to send."""
        while self._sent < self._requests.count:
            due_at = begin + self._sent / self._per_second
            if due_at > now:
                return due_at - now
            if not self._idle:
                break
            connection = self._idle.popleft()
            connection.ask(self._file.read(self._requests.bytes_each), due_at)
            self._busy.add(connection)
            self._sent += 1
        return 1.0

    def _hear(self, ready: list[Connection]) -> None:
        for connection in ready:
            status = connection.hear()
            if status == 0:
                continue
            self._busy.discard(connection)
            self._idle.append(connection)
            if status == 200:  # noqa: PLR2004 - the answer that means recorded
                self._latencies.append(time.perf_counter() - connection.due_at)
            else:
                self._refused += 1
            if status < 0:
                connection.reopen()

    def _result(self) -> Paced:
        if len(self._latencies) < 2:  # noqa: PLR2004 - no percentile of less
            raise BenchmarkError(f"at {self._per_second:g}/s nothing was answered 200")
        percentiles = statistics.quantiles(self._latencies, n=100, method="inclusive")
        return Paced(
            answers=len(self._latencies),
            refused=self._refused,
            unanswered=self._requests.count - len(self._latencies) - self._refused,
            p50_ms=percentiles[49] * 1e3,
            p99_ms=percentiles[98] * 1e3,
            max_ms=max(self._latencies) * 1e3,
        )
