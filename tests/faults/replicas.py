"""Run a primary and its standby, and let the standby take over."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.faults.invariants import one_row, until
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.testing.databases import apply_migrations

SETTINGS = {"max_connections": "60"}
#: Senders of WAL on the primary, and whether what they send has been flushed by the other side.
_STREAMING = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
_SENDERS = "SELECT pid FROM pg_stat_replication"


@dataclass(frozen=True, slots=True)
class Pair:
    """
    Hold two servers of one history.

    Attributes:
        primary: Takes writes, until it is killed.
        standby: Has what the primary streams to it; takes writes once it is promoted.
    """

    primary: EmbeddedPostgres
    standby: EmbeddedPostgres

    @property
    def dsn(self) -> str:
        """Both of them, as an application is told that shall write to whichever can be written to."""
        found = [_socket(each) for each in (self.primary, self.standby)]
        hosts, ports = (",".join(column) for column in zip(*found, strict=True))
        return (
            f"postgresql:///postgres?host={hosts}&port={ports}&user=postgres&target_session_attrs=read-write"
        )

    def cut(self) -> None:
        """Let the primary stream nothing any more, though it thinks that it does."""
        with psycopg.connect(self.primary.dsn) as connection:
            for (pid,) in connection.execute(_SENDERS).fetchall():
                os.kill(pid, signal.SIGSTOP)

    def promote(self) -> None:
        """Make the standby the primary."""
        with psycopg.connect(self.standby.dsn, autocommit=True) as connection:
            assert one_row(connection, "SELECT pg_promote(true, 30)") == (True,)


@contextmanager
def primary_and_standby(room: Path, *, synchronous: bool, script: str) -> Iterator[Pair]:
    """
    Start both, with our schema and what *script* makes; the standby streams.

    Args:
        synchronous: Whether the primary confirms a commit only when the standby has it.
    """
    room.chmod(0o755)
    for folder in room.parents:
        if folder.stat().st_mode & 0o001 == 0 and folder.owner() == room.owner():
            folder.chmod(folder.stat().st_mode | 0o011)  # the server's own account has to come through
    settings = {**SETTINGS, **({"synchronous_standby_names": "*"} if synchronous else {})}
    with EmbeddedPostgres(room / "first", durable=False, settings=SETTINGS) as made:
        apply_migrations(made.dsn)
        with psycopg.connect(made.dsn) as connection:
            connection.execute(script.encode())
    _copy(room / "first", room / "second")
    with EmbeddedPostgres(room / "first", durable=False, settings=settings) as primary:
        _follow(room / "second" / "pgdata", primary)
        with EmbeddedPostgres(room / "second", durable=False, settings=SETTINGS) as standby:
            with psycopg.connect(primary.dsn, autocommit=True) as connection:
                until(lambda: one_row(connection, _STREAMING) == (1,), "the standby streams", 30)
            yield Pair(primary, standby)


def _copy(first: Path, second: Path) -> None:
    """Copy a cluster that is shut down, with its files' owner."""
    data = first / "pgdata"

    def copied(source: str, target: str, **_: Any) -> str:
        shutil.copy2(source, target)
        _own(Path(target), data)
        return target

    second.mkdir(mode=0o755)
    shutil.copytree(data, second / "pgdata", copy_function=copied)
    for folder in [second / "pgdata", *(each for each in (second / "pgdata").rglob("*") if each.is_dir())]:
        _own(folder, data)


def _follow(data: Path, primary: EmbeddedPostgres) -> None:
    """Tell the standby with *data* whom to follow; in a file, for a command line that names a server is its."""
    host, port = _socket(primary)
    with (data / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"primary_conninfo = 'host={host} port={port} user=postgres'\n")
    (data / "standby.signal").touch()
    _own(data / "standby.signal", data)


def _own(target: Path, like: Path) -> None:
    if os.geteuid() == 0:
        owner = like.stat()
        os.chown(target, owner.st_uid, owner.st_gid)


def _socket(server: EmbeddedPostgres) -> tuple[str, str]:
    info = psycopg.conninfo.conninfo_to_dict(server.dsn)
    return str(info["host"]), str(info["port"])
