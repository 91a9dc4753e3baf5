"""Give the receive tests an inbox by every way in, and an odd name to every schema but one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest

from tests.fixtures.postgres import PostgresServer
from tests.fixtures.receiving import ODD_SCHEMA, PLAIN_SCHEMA, WAYS, Bench, Way
from tests.fixtures.roles import restrict, restricted
from webhook_inbox.testing.databases import apply_migrations

OpenBench: TypeAlias = Callable[..., Bench]


@pytest.fixture(scope="session")
def _odd_template(postgres: PostgresServer) -> Iterator[str]:
    name = postgres.create()
    apply_migrations(postgres.direct_dsn_of(name), ODD_SCHEMA)
    restrict(postgres.direct_dsn_of(name), ODD_SCHEMA)
    yield name
    postgres.drop(name)


@pytest.fixture
def odd_database(postgres: PostgresServer, _odd_template: str) -> Iterator[str]:
    """The DSN of a new database that holds our schema under an odd name."""
    name = postgres.create(template=_odd_template)
    yield restricted(postgres.dsn_of(name))
    postgres.drop(name)


@pytest.fixture(params=WAYS)
def open_bench(request: pytest.FixtureRequest) -> Iterator[OpenBench]:
    """Opens an inbox, by each way in; on a thread the schema has its plain name, else an odd one."""
    way: Way = request.param
    schema, fixture = (PLAIN_SCHEMA, "database") if way == "thread" else (ODD_SCHEMA, "odd_database")
    opened: list[Bench] = []

    def open_(**settings: Any) -> Bench:
        bench = Bench(request.getfixturevalue(fixture), schema=schema, way=way, **settings)
        opened.append(bench)
        return bench

    yield open_
    for bench in opened:
        bench.close()


@pytest.fixture
def bench(open_bench: OpenBench) -> Bench:
    """An inbox, by each way in."""
    return open_bench()
