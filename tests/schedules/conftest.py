"""Give the schedules one database, whose connections stay open from one to the next."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.moves import check_moves, watch
from tests.fixtures.postgres import PostgresServer
from tests.schedules.stage import TABLES
from webhook_inbox.testing.databases import apply_migrations
from webhook_inbox.testing.schedules import Explorer


@pytest.fixture(scope="package")
def explorer(postgres: PostgresServer) -> Iterator[Explorer]:
    """An explorer on a database with our schema and ``effects``; not behind a pooler, which shares sessions."""
    name = postgres.create()
    dsn = postgres.direct_dsn_of(name)
    apply_migrations(dsn)
    with psycopg.connect(dsn) as conn:
        conn.execute(TABLES)
        watch(conn)
    with Explorer(dsn) as opened:
        yield opened
    with psycopg.connect(dsn) as conn:
        check_moves(conn)  # also in what was cut, and where two met: no move that is in no table
    postgres.drop(name)
