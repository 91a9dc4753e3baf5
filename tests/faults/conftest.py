"""Give the fault tests their nursery, their seed, and a tally of what was done to the receiver."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.app import TABLES
from tests.faults.bench import Bench
from tests.faults.ledger import Ledger
from tests.faults.server import Nursery

#: How often the receiver is killed at each fault point.
KILLS = int(os.environ.get("WEBHOOK_INBOX_TEST_KILLS", "5"))
SEED = int(os.environ.get("WEBHOOK_INBOX_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
_TALLY = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.stash[_TALLY] = Counter()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was done; the seed repeats it (WEBHOOK_INBOX_TEST_SEED)."""
    if tally := config.stash[_TALLY]:
        done = ", ".join(f"{what} {count}" for what, count in sorted(tally.items()))
        terminalreporter.write_line(f"faults done (seed {SEED}): {done}")


@pytest.fixture
def tally(pytestconfig: pytest.Config) -> Counter[str]:
    """What was done so far, to be added to."""
    return pytestconfig.stash[_TALLY]


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Chance that the run's seed and the test's name decide, whatever ran before."""
    print(f"seed {SEED}")  # noqa: T201 - pytest shows it where the test fails
    return random.Random(f"{SEED} {request.node.nodeid}")


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Starts receivers in milliseconds."""
    started = Nursery(lanes=4, log=tmp_path_factory.mktemp("nursery") / "log")
    try:
        yield started
    finally:
        started.close()


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
