"""Hold handlers of ``test.gate`` where they stand, for as long as the test wants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.faults.app import GATE_KEY

_WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"


@contextmanager
def gate_closed(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """Let no handler through while the block runs."""
    with psycopg.connect(dsn, autocommit=True) as keeper:
        keeper.execute("SELECT pg_advisory_lock(%s)", (GATE_KEY,))
        yield keeper


def waiting_at_the_gate(keeper: psycopg.Connection[Any]) -> int:
    """How many handlers stand there."""
    row = keeper.execute(_WAITING, (GATE_KEY,)).fetchone()
    assert row is not None
    return int(row[0])
