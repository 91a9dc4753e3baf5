"""
Speak HTTP/1.1 byte by byte to one receiver, and to nobody else.

A client that is made to deliver cannot stop in the middle of a body, send two lengths or hold its last byte back; so
this one writes to the socket itself. It follows no redirect, asks no proxy, and connects to what it has looked at: the
name is resolved each time, and an address that is not loopback is refused unless the user owns the receiver.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

from webhook_inbox._version import __version__
from webhook_inbox.errors import ConfigurationError

Pairs: TypeAlias = Iterable[tuple[str, str]]
_HEAD_BYTES_MAX = 65_536
_CONNECT_SECONDS = 5.0
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")


@dataclass(frozen=True, slots=True)
class Answer:
    """
    Hold what came back.

    Attributes:
        status: Of the answer; None where none came.
        seconds: Since the request was whole.
        silence: Why none came: ``no connection``, ``connection closed`` or ``no answer in time``.
    """

    status: int | None
    seconds: float
    silence: str = ""

    @property
    def acknowledged(self) -> bool:
        """Say whether the provider would be satisfied."""
        return self.status is not None and self.status // 100 == 2  # noqa: PLR2004 - 2xx

    def __str__(self) -> str:
        return str(self.status) if self.status is not None else self.silence


class Line:
    """Hold one connection."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._read = b""

    def send(self, content: bytes) -> None:
        """Send; whoever has closed the line already may have answered before."""
        try:
            self._socket.sendall(content)
        except OSError:
            return

    def answer(self, seconds_max: float) -> Answer:
        """Wait for the head of the answer; what precedes it (``100 Continue``) does not count."""
        began = time.monotonic()
        while True:
            head, end, rest = self._read.partition(b"\r\n\r\n")
            if end:
                self._read = rest
                found = _STATUS.match(head)
                status = int(found[1]) if found else 0
                if status // 100 != 1:
                    return Answer(status, time.monotonic() - began)
                continue
            silence = self._more(began + seconds_max)
            if silence:
                return Answer(None, time.monotonic() - began, silence)

    def answers(self, seconds_max: float) -> int:
        """Count the answers that come until the line is closed or *seconds_max* have passed."""
        ends_at = time.monotonic() + seconds_max
        while not self._more(ends_at):
            pass
        return len(_STATUS.findall(self._read))

    def _more(self, ends_at: float) -> str:
        """Read on; give why there is no more."""
        left = ends_at - time.monotonic()
        if left <= 0:
            return "no answer in time"
        self._socket.settimeout(left)
        try:
            part = self._socket.recv(_HEAD_BYTES_MAX)
        except TimeoutError:
            return "no answer in time"
        except OSError:
            return "connection closed"
        self._read += part
        return "" if part and len(self._read) <= _HEAD_BYTES_MAX else "connection closed"

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


class Wire:
    """
    Reach one receiver.

    Args:
        url: Where it listens; http or https.
        owned: Whether any address will do.

    Attributes:
        requests: How many connections were opened so far.

    Raises:
        ConfigurationError: *url* is none, or holds credentials.
    """

    def __init__(self, url: str, *, owned: bool) -> None:
        parts = _parted(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._named = parts.netloc
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._owned = owned
        self.requests = 0

    def head(self, method: str, headers: Pairs, length: int | None, *, close: bool = True) -> bytes:
        """
        Write the head of a request.

        Args:
            length: What it says about its body; None: nothing.
        """
        pairs = [("host", self._named), ("user-agent", f"webhook-inbox-audit/{__version__}"), *headers]
        pairs += [("connection", "close")] if close else []
        pairs += [] if length is None else [("content-length", str(length))]
        lines = [f"{method} {self._target} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")

    @contextmanager
    def line(self) -> Iterator[Line]:
        """
        Open a connection for the block.

        Raises:
            ConfigurationError: The address is not loopback, and the user has not said that the receiver is theirs.
            OSError: Nobody listens.
        """
        line = self.open()
        try:
            yield line
        finally:
            line.close()

    @contextmanager
    def lines(self, number: int) -> Iterator[list[Line]]:
        """
        Open *number* connections for the block; fewer, but at least one, where the receiver lets no more in.

        Raises as ``line``.
        """
        with ExitStack() as stack:
            opened = [stack.enter_context(self.line())]
            with suppress(TimeoutError):  # nobody accepts them, and the queue for them is full
                while len(opened) < number:
                    opened.append(stack.enter_context(self.line()))
            yield opened

    def open(self) -> Line:
        """Open a connection, to be closed by the caller; see ``line``."""
        self.requests += 1
        opened = self._connect(self._addresses())
        if self._tls is None:
            return Line(opened)
        try:
            return Line(self._tls.wrap_socket(opened, server_hostname=self._host))
        except OSError:
            opened.close()
            raise

    def request(self, method: str, headers: Pairs, body: bytes, seconds_max: float) -> Answer:
        """Send one whole request and wait for its answer."""
        try:
            with self.line() as line:
                line.send(self.head(method, headers, len(body)) + body)
                return line.answer(seconds_max)
        except TimeoutError:
            return Answer(None, 0.0, "no answer in time")
        except OSError:
            return Answer(None, 0.0, "no connection")

    def _addresses(self) -> list[str]:
        found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        if not self._owned and not all(map(is_loopback, addresses)):
            raise ConfigurationError(
                f"{self._host} is not on this machine, and an audit sends what harms a receiver that is not yours: "
                "--i-own-this-receiver says that it is"
            )
        return addresses

    def _connect(self, addresses: list[str]) -> socket.socket:
        for address in addresses[:-1]:
            try:
                return socket.create_connection((address, self._port), _CONNECT_SECONDS)
            except OSError:
                continue
        return socket.create_connection((addresses[-1], self._port), _CONNECT_SECONDS)


def _parted(url: str) -> SplitResult:
    """Take *url* apart; what is none is not quoted, since it may hold credentials (P-QUIET)."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in {"http", "https"} and parts.username is None and parts.port != 0
        # As the resolver does, for which an empty label, or a long one, is no name.
        (parts.hostname or ".").encode("idna")
    except ValueError:
        sound = False
    # What is sent is the URL as it is: nothing is there to encode it.
    if not (sound and url.isascii() and url.isprintable() and " " not in url):
        raise ConfigurationError(
            "URL is none to audit; expected http://host:port/endpoint in ASCII, without a user"
        )
    return parts


def is_loopback(address: str) -> bool:
    """Say whether *address*, as the resolver gives it, is this machine's own."""
    found = ip_address(address.partition("%")[0])
    inner = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (inner or found).is_loopback
