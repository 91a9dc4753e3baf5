"""Hold what a fault test works with: a database, receivers to be started on it, and the sender's ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.faults.app import Setup
from tests.faults.invariants import await_no_transaction, check_expected, check_ledger
from tests.faults.ledger import Ledger
from tests.faults.paths import Expected
from tests.faults.sender import ANSWER_SECONDS_MAX, Sender
from tests.faults.server import Nursery, Server


@dataclass(frozen=True, slots=True)
class Bench:
    """
    Hold one test's database, receivers and ledger.

    Attributes:
        dsn: A database with our schema and the receiver's tables.
        room: A folder of the test's own.
        ledger: Outside PostgreSQL.
    """

    nursery: Nursery
    dsn: str
    room: Path
    ledger: Ledger

    @contextmanager
    def servers(
        self, count: int = 1, *, dsn: str = "", record: bool = False, **settings: Any
    ) -> Iterator[list[Server]]:
        """
        Start receivers, each with fault points and a witness of its own, and end them.

        Args:
            dsn: Where they find the database, if not at ``self.dsn``.
            record: Whether they remember the points they pass.
            settings: Of their inboxes.
        """
        servers = self.nursery.servers[:count]
        try:
            for number, server in enumerate(servers):
                witness = str(self.room / f"witness-{number}")
                server.start(Setup(dsn or self.dsn, witness, record, settings))
            yield servers
        finally:
            for server in servers:
                server.close()

    def sender(self, server: Server, *, answer_seconds_max: float = ANSWER_SECONDS_MAX) -> Sender:
        """A sender to *server* that notes what it hears in the ledger."""
        return Sender(server.address, self.ledger, answer_seconds_max)

    def check(self, expected: Iterable[Expected], *, refused: frozenset[int] = frozenset()) -> None:
        """Check every invariant; see ``invariants``."""
        with psycopg.connect(self.dsn) as connection:
            await_no_transaction(connection)
            wrong = check_expected(connection, expected)
            wrong += check_ledger(connection, self.ledger, refused=refused)
        assert not wrong, f"{len(wrong)} wrong: {json.dumps(wrong[:12], indent=1)}"
