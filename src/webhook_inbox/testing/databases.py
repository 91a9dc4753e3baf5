"""Make a database for each test on a server that somebody gave or that lives as long as the run, and drop it again."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from webhook_inbox.drivers.psycopg_sync import PsycopgDriver
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.migrate import DEFAULT_SCHEMA, migrate

# The first version that can copy a template's files in place of logging them, which is faster where fsync is off.
_COPY_STRATEGY_SINCE = 150_000


@dataclass(frozen=True)
class DatabaseServer:
    """
    A server on which tests make databases.

    Attributes:
        dsn: Of a database that is there, as a user who may create others; nothing is written to that one.
        admin: A connection to it, in autocommit.
    """

    dsn: str
    admin: psycopg.Connection[Any]

    @property
    def version(self) -> int:
        """Give the server's version as libpq numbers it: 150018 is 15.18."""
        return self.admin.info.server_version

    def dsn_of(self, database: str) -> str:
        """Give the DSN of another database, as a URI."""
        return uri(**{**conninfo_to_dict(self.dsn), "dbname": database})

    def create(self, *, template: str | None = None) -> str:
        """Make a database, a clone of *template* where one is named, and give its name."""
        name = f"test_{secrets.token_hex(6)}"
        statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
            if self.version >= _COPY_STRATEGY_SINCE:
                statement += sql.SQL(" STRATEGY file_copy")
        self.admin.execute(statement)
        return name

    def drop(self, database: str) -> None:
        """Drop a database, whoever is still connected to it."""
        self.admin.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database))
        )

    def _cut(self, database: str) -> None:
        """End all sessions of a database."""
        self.admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database,)
        )

    @contextmanager
    def template(self, tables: str | Callable[[str], object], schema: str = DEFAULT_SCHEMA) -> Iterator[str]:
        """Yield the name of a database with our schema and the user's *tables*: SQL, or what a DSN is handed to."""
        name = self.create()
        try:
            dsn = self.dsn_of(name)
            apply_migrations(dsn, schema)
            if isinstance(tables, str):
                with psycopg.connect(dsn) as connection:
                    connection.execute(tables.encode())
            else:
                tables(dsn)
                self._cut(name)  # a pool of the user's may have stayed: nothing that is in use can be cloned
            yield name
        finally:
            self.drop(name)


@contextmanager
def serving(dsn: str) -> Iterator[DatabaseServer]:
    """Yield the server of *dsn*, which libpq understands."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        yield DatabaseServer(dsn, admin)


def apply_migrations(dsn: str, schema: str = DEFAULT_SCHEMA) -> None:
    """Do to a database what ``webhook-inbox migrate`` does."""
    driver = PsycopgDriver(dsn, settings=Settings())
    try:
        driver.run(lambda: migrate(schema))
    finally:
        driver.close()


def uri(**parameters: Any) -> str:  # noqa: ANN401 - as libpq gives them
    """Write libpq's *parameters* as a URI, for code that reads nothing else."""
    user, database = (quote(str(parameters.pop(key, "")), safe="") for key in ("user", "dbname"))
    return f"postgresql://{user}@/{database}?{urlencode(parameters)}"
