"""
Check by SQL, and against the sender's own ledger, what must be true after every fault.

I1  what was acknowledged is in the inbox, byte for byte      I2  each effect is there as often as it should be
I3  nothing is left half done: no transaction, no open row    I6  an outbox row for each effect, and none without
I7  honest answers: 5xx while in doubt, never 4xx; 503 says when to come again
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

from tests.faults.ledger import Ledger
from tests.faults.paths import PARTS, Expected
from tests.fixtures.programs import eventually

#: What the receiver's sessions are called.
APPLICATION = "webhook-inbox"
_OPEN = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = %s AND datname = current_database() AND xact_start IS NOT NULL
"""
_KEPT = """
SELECT sha256(body) FROM webhooks.events WHERE body IS NOT NULL UNION SELECT sha256(body) FROM webhooks.conflicts
"""


def check_expected(connection: psycopg.Connection[Any], expected: Iterable[Expected]) -> list[str]:
    """Give a sentence for each thing that is not as it should be: rows, bytes, effects, outbox, reviews, evidence."""
    inbox = _grouped(connection, "SELECT event_id, state, body, body_sha256 FROM webhooks.events")
    effects = _grouped(connection, "SELECT event_id, part FROM effects")
    outbox = _grouped(connection, "SELECT payload ->> 'event', aggregate_id FROM webhooks.outbox")
    reviews = _grouped(connection, "SELECT event_id, summary FROM webhooks.reviews")
    evidence = _grouped(
        connection,
        "SELECT i.event_id, c.body FROM webhooks.conflicts c JOIN webhooks.inbox i ON i.id = c.inbox_id",
    )
    wrong: list[str] = []

    def compare(event_id: str, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            wrong.append(f"{event_id}: {what} {found!r}, not {wanted!r}")

    for event in expected:
        rows = inbox.pop(event.event_id, [])
        compare(event.event_id, "states", [row[0] for row in rows], [event.state] if event.state else [])
        if rows and event.state:
            compare(event.event_id, "body", rows[0][1], event.body if event.kept else None)
            compare(event.event_id, "digest", rows[0][2], hashlib.sha256(event.body).digest())
        parts = sorted(part for (part,) in effects.pop(event.event_id, []))
        compare(event.event_id, "effects", parts, sorted(PARTS * event.applied))
        compare(event.event_id, "outbox rows", len(outbox.pop(event.event_id, [])), event.applied)
        compare(event.event_id, "reviews", len(reviews.pop(event.event_id, [])), event.reviews)
        compare(
            event.event_id,
            "evidence",
            [bytes(b) for (b,) in evidence.pop(event.event_id, [])],
            list(event.evidence),
        )
    for what, left in (
        ("event", inbox),
        ("effect", effects),
        ("outbox row", outbox),
        ("review", reviews),
        ("evidence", evidence),
    ):
        wrong += [f"{event_id}: {what} that nobody expects" for event_id in left]
    return wrong


def check_ledger(
    connection: psycopg.Connection[Any], ledger: Ledger, *, refused: frozenset[int] = frozenset()
) -> list[str]:
    """
    Give a sentence for each acknowledged body that is not kept as it was sent, and for each dishonest answer.

    Args:
        refused: The 4xx that a letter of the ledger deserves. Of a batched body each event is kept by itself:
            ``check_expected`` compares those.
    """
    kept = {bytes(digest).hex() for (digest,) in connection.execute(_KEPT)}
    wrong = []
    for entry in ledger.entries:
        accepted = entry.status in range(200, 300)
        if accepted and not entry.path.startswith("/batch-") and entry.sha256 not in kept:
            wrong.append(f"{entry.event}: acknowledged, and lost")
        if not (accepted or entry.status in {None, 500, 503} | refused):
            wrong.append(f"{entry.event}: answered {entry.status} in doubt")
        if entry.status == 503 and not entry.retry_after.isdecimal():
            wrong.append(f"{entry.event}: 503 does not say when to come again")
    return wrong


def await_no_transaction(connection: psycopg.Connection[Any]) -> None:
    """Wait until no session of the receiver's is inside a transaction; one that stays there is a failure (I3)."""

    def none_open() -> bool:
        connection.rollback()  # within a transaction, pg_stat_activity shows again what it showed at first
        return connection.execute(_OPEN, (APPLICATION,)).fetchone() == (0,)

    eventually(none_open, what="no session of the receiver's is inside a transaction", seconds=10)


def one_row(connection: psycopg.Connection[Any], statement: str, *params: object) -> Any:
    """The only row of *statement*."""
    rows = connection.execute(statement, params).fetchall()
    assert len(rows) == 1, rows
    return rows[0]


def until(condition: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    """Wait for *condition*."""
    eventually(condition, what=what, seconds=seconds)


def _grouped(connection: psycopg.Connection[Any], statement: str) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for event_id, *rest in connection.execute(statement):
        found.setdefault(event_id, []).append(tuple(rest))
    return found
