"""Bring events through a layout's statements as receiver and worker send them, on one connection, without handlers."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import psycopg

from benchmarks.harness.errors import InvariantError
from benchmarks.harness.events import EVENT_TYPE, event_body, event_id, signature
from benchmarks.storage.layouts import OURS, Layout

RECORDED_TOGETHER = 32  # what a receiver gathers from as many connections
CLAIMED_TOGETHER = 50
#: Events that are there before a worker comes to them: as many as fill both kinds of batch.
GATHERED = 800
Session: TypeAlias = psycopg.Connection[tuple[Any, ...]]
_TEXTS = {
    "provider": "stripe",
    "endpoint": "stripe",
    "account": "",
    "environment": "live",
    "event_type": EVENT_TYPE,
}
_NULLS = ("created_at", "kept", "last_error", "order_key")
_SIGNED_AT = 1_790_000_000
_WAIT_MS = 5_000
_HANDLER_MS = 60_000
_LOCK_MS = 50


@dataclass(slots=True)
class Driver:
    """
    Hold a session that receives and works off.

    Attributes:
        worker: The incarnation that claims.
        seconds: How long each kind of transaction took, commits included: ``record``, ``claim``, ``settle``.
        wal_bytes: What each of them wrote to the write-ahead log.
    """

    session: Session
    layout: Layout
    worker: int
    seconds: dict[str, float] = field(default_factory=lambda: {"record": 0.0, "claim": 0.0, "settle": 0.0})
    wal_bytes: dict[str, int] = field(default_factory=lambda: {"record": 0, "claim": 0, "settle": 0})

    def cycle(self, first: int, count: int) -> None:
        """Receive *count* events, from number *first* on, and work them off; ``GATHERED`` at a time."""
        for start in range(first, first + count, GATHERED):
            born = self.record(start, GATHERED)
            if self.layout.settle:
                self._work_off(GATHERED, born)

    def record(self, first: int, count: int) -> list[int]:
        """Record *count* events, from number *first* on; give their ids."""
        batches = [
            self.arrivals(range(start, start + RECORDED_TOGETHER))
            for start in range(first, first + count, RECORDED_TOGETHER)
        ]
        born: list[int] = []
        with self._charged("record"):
            for batch in batches:
                with self.session.transaction():
                    rows = self.session.execute(self.layout.record.encode(), batch)
                    born += [row[0] for row in rows] if rows.description else []
        return born

    def claim(self, due_since: int = 0) -> list[tuple[int, int]]:
        """Claim, and give id and token of each event."""
        with self.session.transaction():
            rows = self.session.execute(self.layout.claim.encode(), self.wanted(due_since)).fetchall()
        return [(row[0], row[1]) for row in rows]

    def wanted(self, due_since: int = 0) -> dict[str, object]:
        """Give the parameters of a claim; *due_since* in microseconds since 1970."""
        asked = {"endpoints": ["stripe"], "limits": [CLAIMED_TOGETHER], "hold_seconds": [0.0]}
        more = {"due_since": [due_since], "solitary": [True], "limited": False}
        return {**asked, **more, "worker_id": self.worker}

    def settle(self, claims: Sequence[tuple[int, int]]) -> None:
        """Settle what was claimed, as a transaction with no handler in it: begin, mark, seal, commit."""
        with self.session.transaction():
            transaction = self.mark(claims)
            events = [event for event, _ in claims]
            seal = {"transaction": transaction, "events": events, "undone": [], "worker_id": self.worker}
            self.session.execute(OURS.seal_effect.text.encode(), seal)

    def mark(self, claims: Sequence[tuple[int, int]]) -> str:
        """Mark what was claimed processed, in the transaction that is open; give its id."""
        ids, tokens = map(list, zip(*claims, strict=True))
        given = {"ids": ids, "tokens": tokens, "worker_id": self.worker, "lock_ms": _LOCK_MS}
        self.session.execute(OURS.begin.text.encode(), {"handler_ms": _HANDLER_MS, "wait_ms": _WAIT_MS})
        marked = self.session.execute(self.layout.settle.encode(), given).fetchall()
        if len(marked) != len(ids):
            raise InvariantError(f"{len(ids)} events were claimed, and {len(marked)} were marked")
        return str(marked[0][1])

    def arrivals(self, numbers: Sequence[int]) -> dict[str, object]:
        """Give the parameters that record events of these numbers."""
        bodies = [event_body(each) for each in numbers]
        columns: dict[str, list[object]] = {name: [text] * len(numbers) for name, text in _TEXTS.items()}
        columns |= {
            "event_id": [event_id(each) for each in numbers],
            "state": ["waiting"] * len(numbers),
            "origin": ["delivery"] * len(numbers),
            "secret_label": ["a"] * len(numbers),
            "body_sha256": [hashlib.sha256(each).digest() for each in bodies],
            "body_bytes": [len(each) for each in bodies],
            "body": [*bodies],
            "headers": [
                json.dumps({"stripe-signature": signature(each, _SIGNED_AT).decode()}) for each in bodies
            ],
        }
        nothing = [None] * len(numbers)
        return {**columns, **dict.fromkeys(_NULLS, nothing), "wait_ms": _WAIT_MS, "worker_id": self.worker}

    def _work_off(self, count: int, born: list[int]) -> None:
        for start in range(0, count, CLAIMED_TOGETHER):
            claims = [(each, 1) for each in born[start : start + CLAIMED_TOGETHER]]
            if self.layout.claim:
                with self._charged("claim"):
                    claims = self.claim()
            if len(claims) != CLAIMED_TOGETHER:
                raise InvariantError(f"{CLAIMED_TOGETHER} events were due, and {len(claims)} were claimed")
            with self._charged("settle"):
                self.settle(claims)

    @contextmanager
    def _charged(self, kind: str) -> Iterator[None]:
        wal, began = self._wal(), time.perf_counter()
        yield
        self.seconds[kind] += time.perf_counter() - began
        self.wal_bytes[kind] += self._wal() - wal

    def _wal(self) -> int:
        with self.session.transaction():
            row = self.session.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
        return 0 if row is None else int(row[0])


@contextmanager
def driving(dsn: str, layout: Layout) -> Iterator[Driver]:
    """
    Yield a driver whose statements are prepared at their first use, as the product's are.

    No sequential scans: layouts are compared, not what the planner makes of statistics from when a queue was empty.
    """
    options = "-c enable_seqscan=off"
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0, options=options) as session:
        row = session.execute(
            OURS.register_worker.text.encode(), {"name": "benchmark", "lease_seconds": 3_600.0}
        ).fetchone()
        yield Driver(session, layout, 0 if row is None else int(row[0]))
