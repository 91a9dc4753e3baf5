"""Give the fault tests their nursery and their bench."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.app import TABLES
from tests.faults.bench import Bench
from tests.faults.ledger import Ledger
from tests.faults.server import Nursery

#: How often the receiver is killed at each fault point.
KILLS = int(os.environ.get("WEBHOOK_INBOX_TEST_KILLS", "3"))
#: Whether every relay is killed at every point that it passes, and not only where destinations differ.
EACH_WITH_EACH = "WEBHOOK_INBOX_TEST_KILLS" in os.environ


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Starts receivers in milliseconds."""
    log = tmp_path_factory.mktemp("nursery") / "log"
    started = Nursery(lanes=4, log=log)
    try:
        yield started
    finally:
        started.close()
    assert "Traceback" not in log.read_text(), f"a receiver wrote a traceback: {log}"


@pytest.fixture(scope="session")
def relay_nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Starts relays in milliseconds."""
    log = tmp_path_factory.mktemp("relay-nursery") / "log"
    started = Nursery(lanes=2, log=log, program="tests.faults.relay_nursery")
    try:
        yield started
    finally:
        started.close()
    assert "Traceback" not in log.read_text(), f"a relay wrote a traceback: {log}"


@pytest.fixture
def receiver_database(database: str) -> str:
    """The DSN of a new database with our schema and the tables of the receiver's handlers."""
    with psycopg.connect(database) as connection:
        connection.execute(TABLES)
    return database


@pytest.fixture
def bench(nursery: Nursery, receiver_database: str, tmp_path: Path) -> Bench:
    """A database, receivers to be started on it, and the sender's ledger."""
    return Bench(nursery, receiver_database, tmp_path, Ledger(tmp_path / "ledger"))
