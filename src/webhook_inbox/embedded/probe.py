"""
Ask a server one question over its socket, and believe it is ready only when the answer comes.

PostgreSQL's own protocol, version 3.0, in the few messages that takes (manual, "Message Flow"), and not libpq:
libpq reads PGHOSTADDR, PGSERVICE, PGOPTIONS, PGREQUIREAUTH and two dozen more from the environment of whoever
runs us, and what a user has set there for another server must not decide whether this one started.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

PROTOCOL_3_0 = 3 << 16
#: A message's size counts these four bytes of its own.
SIZE_BYTES = 4
ANSWER_BYTES_MAX = 1 << 20


class NoAnswerError(Exception):
    """Say why the question was not answered; the server may still be starting."""


def ask(socket_path: Path, sql: str, *, user: str, database: str, timeout_seconds: float = 5.0) -> str | None:
    """
    Run *sql* in a session of its own and return the first value of its first row, None where it has no row.

    Args:
        socket_path: The server's socket file.
        sql: One statement without parameters.
        timeout_seconds: For each send and each read, above 0.

    Raises:
        NoAnswerError: Nothing listens, the server is starting or stopping, or the statement failed.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_seconds)
        try:
            connection.connect(str(socket_path))
            connection.sendall(_startup(user, database))
            for kind, _ in _messages(connection):
                if kind == b"Z":
                    break
            connection.sendall(_message(b"Q", sql.encode() + b"\0"))
            return _answer(connection)
        except OSError as error:
            raise NoAnswerError(str(error)) from error


def _answer(connection: socket.socket) -> str | None:
    value = None
    for kind, body in _messages(connection):
        if kind == b"D" and value is None:
            (size,) = struct.unpack_from("!i", body, 2)
            value = body[6 : 6 + size].decode()
        if kind == b"Z":
            break
    connection.sendall(_message(b"X", b""))
    return value


def _messages(connection: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    while True:
        kind, size = struct.unpack("!ci", _read(connection, 5))
        if not SIZE_BYTES <= size <= ANSWER_BYTES_MAX:
            raise NoAnswerError("what listens there does not speak PostgreSQL's protocol")
        body = _read(connection, size - SIZE_BYTES)
        if kind == b"E":
            raise NoAnswerError(_error(body))
        if kind == b"R" and struct.unpack_from("!i", body) != (0,):
            raise NoAnswerError("the server asks for a password on its own socket")
        yield kind, body


def _error(body: bytes) -> str:
    fields = {field[:1]: field[1:].decode(errors="replace") for field in body.split(b"\0") if field}
    return f"{fields.get(b'C', '?')}: {fields.get(b'M', '?')}"


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise NoAnswerError("the server closed the connection")
        data += chunk
    return data


def _startup(user: str, database: str) -> bytes:
    pairs = f"user\0{user}\0database\0{database}\0application_name\0webhook-inbox\0\0".encode()
    return struct.pack("!ii", len(pairs) + 8, PROTOCOL_3_0) + pairs


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body
