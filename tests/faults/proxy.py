"""
Stand between a client and PostgreSQL, understand the frames that pass, and do to them what networks do.

A *fault* looks at each frame and says what becomes of it: it passes, the connection is cut before, amid or after it, or
it and everything that follows is swallowed while the connection stays up (a half-open connection, for ever). Every
fault that happened is kept as its own witness.

Source: PostgreSQL manual, "Frontend/Backend Protocol", "Message Formats".
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import tempfile
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Direction: TypeAlias = Literal["to server", "to client"]
PORT = 5432
SECONDS_MAX = 20.0
_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104


class Fate(Enum):
    """Say what becomes of a frame."""

    PASS = auto()
    CUT_BEFORE = auto()
    CUT_AMID = auto()
    CUT_AFTER = auto()
    SWALLOW = auto()


@dataclass(frozen=True, slots=True)
class Frame:
    """
    Hold one frame.

    Attributes:
        kind: Its type byte; empty for the first of a connection, which has none.
        content: What follows its length.
        connection: Which one it passes on.
    """

    connection: int
    direction: Direction
    kind: bytes
    content: bytes

    @property
    def wire(self) -> bytes:
        """The frame as it is sent."""
        return self.kind + struct.pack("!i", len(self.content) + 4) + self.content

    def __str__(self) -> str:
        return f"{self.direction} {self.kind.decode() or 'startup'} {self.content[:40]!r}"


Fault: TypeAlias = Callable[[Frame], Fate]


def at_frame(number: int, fate: Fate) -> Fault:
    """Do *fate* to the *number*-th frame from now, in either direction."""
    left = number

    def fault(_: Frame) -> Fate:
        nonlocal left
        left -= 1
        return fate if left == 0 else Fate.PASS

    return fault


def at_commit(fate: Fate, *, of: str = "") -> Fault:
    """Do *fate* to the next COMMIT on its way to the server; where *of* is given, on a connection that this passed."""
    # By the simple protocol, or parsed under no name by the extended one.
    commits = ((b"Q", b"COMMIT\0"), (b"P", b"\0COMMIT\0\0\0"))
    return _once(lambda frame: (frame.kind, frame.content) in commits, fate, of)


def at_commit_reply(fate: Fate, *, of: str = "") -> Fault:
    """Do *fate* to the server's next confirmation of a COMMIT; see ``at_commit``."""
    return _once(lambda frame: frame.direction == "to client" and frame.content == b"COMMIT\0", fate, of)


def black_hole(_: Frame) -> Fate:
    """Swallow everything."""
    return Fate.SWALLOW


def _once(which: Callable[[Frame], bool], fate: Fate, of: str) -> Fault:
    done = False
    passed: set[int] = set()  # others commit, too

    def fault(frame: Frame) -> Fate:
        nonlocal done
        if of.encode() in frame.content:
            passed.add(frame.connection)
        if done or frame.connection not in passed or not which(frame):
            return Fate.PASS
        done = True
        return fate

    return fault


class Proxy:
    """
    Listen on a Unix socket and on TCP, and forward to a server's Unix socket.

    Args:
        dsn: The database behind it, with the folder of the server's socket as host.

    Attributes:
        delay_seconds: How long each frame is held.
        chunk_bytes: Into pieces of what size a frame is cut; 0: none.
    """

    def __init__(self, dsn: str) -> None:
        self._behind = conninfo_to_dict(dsn)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._connections: set[_Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._folder = tempfile.TemporaryDirectory(prefix="proxy-")
        self._fault: Fault | None = None
        self._done: list[Frame] = []
        self.delay_seconds = 0.0
        self.chunk_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS_MAX)
        self._loop.close()
        self._folder.cleanup()

    @property
    def dsn(self) -> str:
        """The database, by way of the Unix socket here."""
        return self._dsn(host=self._folder.name, port=PORT)

    @property
    def tcp_dsn(self) -> str:
        """The database, by way of TCP here."""
        host, port = self._servers[1].sockets[0].getsockname()
        return self._dsn(host=host, port=port)

    @property
    def done(self) -> list[Frame]:
        """The frames to which something was done, in order, since the last ``arm``."""
        return list(self._done)

    def arm(self, fault: Fault) -> None:
        """Let *fault* decide over each frame from now on."""
        self._call(self._arm(fault))

    def heal(self) -> None:
        """Let all frames pass; what hangs in a black hole stays there."""
        self._call(self._arm(None))

    def _dsn(self, **by: Any) -> str:
        return make_conninfo("", **{**self._behind, **by})

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS_MAX)

    async def _listen(self) -> None:
        path = Path(self._folder.name) / f".s.PGSQL.{PORT}"
        self._servers = [
            await asyncio.start_unix_server(self._serve, path),
            await asyncio.start_server(self._serve, "127.0.0.1", 0),
        ]

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.cut()
        while self._connections:
            await asyncio.sleep(0.001)

    async def _arm(self, fault: Fault | None) -> None:
        self._fault = fault
        if fault is not None:
            self._done = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket = Path(str(self._behind["host"])) / f".s.PGSQL.{self._behind['port']}"
        try:
            to_server = await asyncio.open_unix_connection(socket)
        except OSError:
            writer.close()
            return
        connection = _Connection(self, (reader, writer), to_server)
        self._connections.add(connection)
        try:
            await connection.forward()
        finally:
            self._connections.discard(connection)

    def fate_of(self, frame: Frame) -> Fate:
        """Ask the fault, and remember what it did."""
        fate = Fate.PASS if self._fault is None else self._fault(frame)
        if fate is not Fate.PASS:
            self._done.append(frame)
        return fate


Ends: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Connection:
    """Forward one connection, both ways, frame by frame."""

    def __init__(self, proxy: Proxy, client: Ends, server: Ends) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._swallowed = False

    async def forward(self) -> None:
        """Forward until one side ends or the connection is cut."""
        tasks = [
            asyncio.create_task(self._pump(self._client[0], self._server[1], "to server")),
            asyncio.create_task(self._pump(self._server[0], self._client[1], "to client")),
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.cut()
        await asyncio.gather(*tasks, return_exceptions=True)

    def cut(self) -> None:
        """End the connection on both sides."""
        for writer in (self._client[1], self._server[1]):
            writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            first = direction == "to server"
            while True:
                frame = await self._read(reader, direction, first=first)
                if first and frame.content[:4] in {
                    struct.pack("!i", _SSL_REQUEST),
                    struct.pack("!i", _GSS_REQUEST),
                }:
                    self._client[1].write(b"N")  # neither is to be had here; the client goes on without
                    continue
                first = False
                if not await self._pass_on(frame, writer):
                    return

    async def _read(self, reader: asyncio.StreamReader, direction: Direction, *, first: bool) -> Frame:
        kind = b"" if first else await reader.readexactly(1)
        (length,) = struct.unpack("!i", await reader.readexactly(4))
        return Frame(id(self), direction, kind, await reader.readexactly(length - 4))

    async def _pass_on(self, frame: Frame, writer: asyncio.StreamWriter) -> bool:
        """Do to *frame* what is its fate; False: the connection shall be cut."""
        if self._swallowed:
            return True
        if self._proxy.delay_seconds:
            await asyncio.sleep(self._proxy.delay_seconds)
        match self._proxy.fate_of(frame):
            case Fate.PASS:
                await self._write(writer, frame.wire)
                return True
            case Fate.CUT_BEFORE:
                return False
            case Fate.CUT_AMID:
                await self._write(writer, frame.wire[: len(frame.wire) // 2])
                return False
            case Fate.CUT_AFTER:
                await self._write(writer, frame.wire)
                return False
            case Fate.SWALLOW:
                self._swallowed = True
                return True

    async def _write(self, writer: asyncio.StreamWriter, wire: bytes) -> None:
        size = self._proxy.chunk_bytes or len(wire)
        for start in range(0, len(wire), size):
            writer.write(wire[start : start + size])
            await writer.drain()
            if size < len(wire):
                await asyncio.sleep(0)
