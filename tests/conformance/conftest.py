"""Give each conformance test its drivers, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.fixtures.benches import EVERY
from tests.fixtures.drivers import Bench
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.probe import Probe, no_probe

OpenBench = Callable[..., Bench]


@pytest.fixture(params=EVERY, ids=lambda driver: driver.label)
def open_bench(request: pytest.FixtureRequest) -> Iterator[OpenBench]:
    """Opens the driver under test on a DSN; whatever it opened is closed with the test."""
    opened: list[Bench] = []

    def open_(
        dsn: str, *, probe: Probe = no_probe, pool: dict[str, Any] | None = None, **settings: Any
    ) -> Bench:
        given = {"connections_max": 2, "connection_wait_seconds": 5.0} | settings
        opened.append(request.param(dsn, settings=Settings(**given), probe=probe, pool=pool))
        return opened[-1]

    yield open_
    for bench in opened:
        bench.close()


@pytest.fixture(autouse=True)
def _the_pool_has_nothing_to_mend(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """See that drivers give connections back idle: psycopg's pool mends one that is not, and warns."""
    yield
    mended = [record.message for when in ("setup", "call") for record in caplog.get_records(when)]
    assert not [message for message in mended if "returned connection" in message]


@pytest.fixture
def effects(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection that sees what was committed; ``effect`` is the user's own table."""
    with psycopg.connect(database, autocommit=True) as witness:
        witness.execute("CREATE TABLE effect (n integer NOT NULL)")
        witness.execute("CREATE TABLE once (n integer PRIMARY KEY)")
        yield witness


@pytest.fixture
def bench(open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]) -> Bench:
    """The driver under test on a database with our schema and ``effect``."""
    return open_bench(database)
