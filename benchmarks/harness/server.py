"""Run the one PostgreSQL that everybody is measured on: initdb's defaults, durable, on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from benchmarks.harness.processes import children, cpu_seconds
from webhook_inbox.embedded import EmbeddedPostgres


@dataclass(frozen=True, slots=True)
class Database:
    """
    Hold one database, made for one run.

    Attributes:
        dsn: A URI over the socket, which asks for no password.
    """

    dsn: str

    def execute(self, statement: str, parameters: dict[str, Any] | None = None) -> None:
        """Run *statement*, which may be several where there are no parameters, and commit."""
        with psycopg.connect(self.dsn) as conn:
            conn.execute(statement.encode(), parameters)

    def value(self, query: str) -> Any:  # noqa: ANN401 - whatever the query selects
        """Give the one value that *query* selects."""
        with psycopg.connect(self.dsn) as conn:
            row = conn.execute(query.encode()).fetchone()
        return None if row is None else row[0]

    def vacuum(self) -> None:
        """Let a run begin as on a server that has had time: statistics made, nothing left to write."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE")
            conn.execute("CHECKPOINT")

    def wal_bytes(self) -> int:
        """Give how much has ever been written to the server's write-ahead log."""
        return int(self.value("SELECT pg_current_wal_lsn() - '0/0'"))


class Server:
    """
    Serve databases; ``EmbeddedPostgres`` brings it up and down.

    Nothing is tuned but ``max_connections``, which some peers need and which costs nothing measurable.
    """

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self._admin = Database(postgres.dsn)
        self._made = 0
        self._templates: set[str] = set()

    @property
    def programs(self) -> Path:
        """Give the folder of the programs: pgbench is there where the machine brings the server."""
        return self._postgres.binaries.folder

    def template(self, name: str, fill: Callable[[Database], None]) -> str:
        """Give the name of a database that *fill* has filled, once in this server's life, to copy from."""
        if name not in self._templates:
            with psycopg.connect(self._admin.dsn, autocommit=True) as conn:
                conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            fill(Database(self._postgres.dsn_of(quote(name))))
            self._templates.add(name)
        return name

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[Database]:
        """Yield a copy of *template* on a server that has just written everything to disk; drop it afterwards."""
        self._made += 1
        name = f"run_{self._made}"
        copied = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*map(sql.Identifier, (name, template)))
        with psycopg.connect(self._admin.dsn, autocommit=True) as conn:
            conn.execute(copied)
            conn.execute("CHECKPOINT")
        try:
            yield Database(self._postgres.dsn_of(quote(name)))
        finally:
            with psycopg.connect(self._admin.dsn, autocommit=True) as conn:
                conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def cpu_seconds(self) -> float:
        """Give the processor time of the server's processes, those included that have ended."""
        main = self._postgres.processes()[0]
        return sum(map(cpu_seconds, (main, *children(main))))

    def settings(self) -> dict[str, str]:
        """Give the settings that decide what a commit costs."""
        names = (
            "server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers",
            "max_wal_size", "checkpoint_timeout", "default_toast_compression", "max_connections",
        )  # fmt: skip
        return {name: str(self._admin.value(f"SELECT current_setting('{name}', true)")) for name in names}


@contextmanager
def serve() -> Iterator[Server]:
    """Run a server of our own while the block runs."""
    with EmbeddedPostgres(settings={"max_connections": "200"}) as postgres:
        yield Server(postgres)
