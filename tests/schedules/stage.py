"""
Put events, messages, workers and operators on a stage for the schedule explorer, and check the promises afterwards.

Everything that a check looks at is in the tables or in how the plans ended: nothing is taken from a schedule's story.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg.rows import dict_row

from tests.fixtures.arrivals import SCHEMA, arrival, item, recording
from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.errors import InboxError
from webhook_inbox.model.claim import Claim, Retry, WorkerId
from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.enqueue import enqueue
from webhook_inbox.protocol.handlers import Handler, Handlers
from webhook_inbox.protocol.lease import Wanted, bookkeeping, claim, reap, register
from webhook_inbox.protocol.process import Processing, RunOutcome, Work, fail, process
from webhook_inbox.protocol.recording import Item
from webhook_inbox.protocol.steps import Commit, One, Plan
from webhook_inbox.sql.statements import Statement, Statements
from webhook_inbox.testing.schedules import Ending

Connection = psycopg.Connection[Any]
T = TypeVar("T")
SQL = Statements.of(SCHEMA)
# No unique key: a second effect shows. With its transaction: an effect that is not of its mark's shows, too.
TABLES = """
    CREATE TABLE effects (
        id bigint GENERATED ALWAYS AS IDENTITY, event_id text NOT NULL, transaction xid8 DEFAULT pg_current_xact_id())
"""
TO = recording()
PROCESSING = Processing(
    sql=SQL,
    wait_seconds=5.0,
    handler_seconds_max=30.0,
    retry=Retry(backoff_seconds_max=3600.0, retry_seconds_max=3600.0, attempts_max=0),
    worker="worker",
)
_EXPIRE = Statement(
    "expire_lease",
    f"UPDATE {SCHEMA}.workers SET lease_ends_at = clock_timestamp() - interval '1 s' WHERE id = %(worker_id)s",
    ("worker_id",),
)
handlers = Handlers()


@handlers.on("*")
def book(tx: Any, event: Any) -> None:
    """Have an effect, and tell of it."""
    tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
    tx.emit("Booked", {"event": event.id})


BOOK: tuple[Handler, ...] = handlers.matching("invoice.paid")


@dataclass(frozen=True)
class Ran:
    """What a run of a claim came to; the token tells whose it was."""

    claim: Claim
    outcome: RunOutcome


def run(conn: Connection, plan: Plan[T]) -> T:
    """Run a plan to its end, as a part of the preparation."""
    return PsycopgRunner(conn).run(plan)


def clear(conn: Connection) -> None:
    """Empty every table."""
    conn.execute(SQL.empty_tables.text.encode())
    conn.execute("DELETE FROM effects")


def booked(event_id: str = "evt_1") -> Item:
    """An event whose handler books it."""
    return item(*BOOK, event_id=event_id)


def recorded(conn: Connection, *event_ids: str, **given: Any) -> None:
    """Record events for a worker."""
    run(conn, enqueue([arrival(each, **given) for each in event_ids], TO))


def worker(conn: Connection) -> WorkerId:
    """Register a worker."""
    return run(conn, register("worker", 120.0, SQL))


def claiming(worker_id: WorkerId, limit: int = 10) -> Plan[tuple[Claim, ...]]:
    """Claim what is due."""
    return claim([Wanted(endpoint="billing", limit=limit, hold_seconds=1e9)], worker_id, SQL)


def processing(claims: Sequence[Claim]) -> Plan[list[Ran]]:
    """Run each of *claims*, and record where that fails, as a worker does."""
    ran = []
    for each in claims:
        try:
            outcome = yield from process(Work(each, BOOK), PROCESSING)
        except InboxError as error:
            outcome = yield from failing(each, error)
        ran.append(Ran(each, outcome))
    return ran


def failing(held: Claim, error: InboxError) -> Plan[RunOutcome]:
    """Record that a run failed."""
    outcome = yield from fail(
        held,
        describe(error),
        shown="it failed",
        seconds=0.1,
        retry_in_seconds=0.0,
        costs_attempt=True,
        to=PROCESSING,
    )
    return outcome


def working(worker_id: WorkerId, limit: int = 10) -> Plan[list[Ran]]:
    """Claim what is due, and run it."""
    claims = yield from claiming(worker_id, limit)
    return (yield from processing(claims))


def expiring(worker_id: WorkerId) -> Plan[None]:
    """Let a lease end, and take back what it held."""
    yield bookkeeping(SQL)
    yield One(_EXPIRE, {"worker_id": worker_id})
    yield Commit()
    yield from reap(3, SQL)


def taking_over(from_worker: WorkerId, worker_id: WorkerId) -> Plan[list[Ran]]:
    """Let a lease end, and run what it held under another."""
    yield from expiring(from_worker)
    return (yield from working(worker_id))


def rows(conn: Connection, query: str) -> list[dict[str, Any]]:
    """Ask the database."""
    with conn.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.encode()).fetchall()


EVENTS = """
    SELECT i.*, e.effects, e.own, (SELECT count(*) FROM webhooks.outbox o WHERE o.inbox_id = i.id) AS messages
    FROM webhooks.inbox i, LATERAL (
        SELECT count(*) AS effects, count(*) FILTER (WHERE transaction = i.effect_transaction) AS own
        FROM effects WHERE effects.event_id = i.event_id
    ) e
"""


def check_events(conn: Connection, endings: Sequence[Ending]) -> dict[str, dict[str, Any]]:
    """Check all that must hold of events whatever happened; their rows by id."""
    events = {row["event_id"]: row for row in rows(conn, EVENTS)}
    strays = rows(
        conn, "SELECT event_id FROM effects WHERE event_id NOT IN (SELECT event_id FROM webhooks.inbox)"
    )
    assert not strays, "P-ONCE: an effect without its event"
    for row in events.values():
        once = int(row["state"] == "processed")
        assert row["effects"] == row["messages"] == once, (
            f"P-ONCE: {row['state']} with {row['effects']} effects"
        )
        assert row["own"] == row["effects"], "P-ONCE: the effect is of another transaction than the mark"
        assert row["attempts"] + _free(conn, row["id"]) >= row["claims"], (
            "P-COUNT: a claim that was not counted"
        )
    for ending in endings:
        for value in _flat(ending.value):
            if isinstance(value, EventResult):
                _check_result(value, events.get(value.event_id))
            elif isinstance(value, Ran):
                _check_ran(value, events[value.claim.event.id])
    return events


def _free(conn: Connection, inbox_id: int) -> int:
    """How many runs of an event cost no attempt."""
    query = (
        f"SELECT FROM webhooks.attempts WHERE inbox_id = {inbox_id} AND outcome IN ('not_yet', 'interrupted')"
    )
    return len(rows(conn, query))


def _flat(value: Any) -> list[Any]:
    return [each for part in value for each in _flat(part)] if isinstance(value, list | tuple) else [value]


def _check_result(result: EventResult, row: dict[str, Any] | None) -> None:
    if result.outcome is Outcome.UNAVAILABLE:
        return
    assert row is not None, f"P-ACK, P-DUP: answered {result.outcome}, and there is no such event"
    if result.outcome is Outcome.PROCESSED or result.state == "processed":
        assert row["state"] == "processed", f"P-STATE: said to be processed, and is {row['state']}"


def _check_ran(ran: Ran, row: dict[str, Any]) -> None:
    if ran.outcome is RunOutcome.PROCESSED:
        assert row["claims"] == ran.claim.token, "P-FENCE: committed by who had lost the claim"
        assert row["state"] == "processed", f"P-ACK: said to be processed, and is {row['state']}"
