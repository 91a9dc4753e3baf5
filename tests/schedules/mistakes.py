"""
Make, one by one, the mistakes that the promises exclude: our own plans with one clause or one step amiss.

Where a mistake is a clause, it is taken out of a copy of the statement, which the plan then runs; where it is the order
of the steps, the plan is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.schedules import limits, outbox
from tests.schedules.stage import (
    BOOK,
    PROCESSING,
    SQL,
    TO,
    Connection,
    Ran,
    booked,
    check_events,
    claiming as claiming_well,
    clear,
    recorded,
    run,
    taking_over,
    worker,
)
from tests.schedules.upkeep import RETENTION, late_duplicate
from webhook_inbox.errors import InboxError
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol.lease import Wanted, claim
from webhook_inbox.protocol.process import RunOutcome, Work, process
from webhook_inbox.protocol.prune import Position, prune_step
from webhook_inbox.protocol.prune_spans import EVERYTHING
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.relay import claim_messages, route_messages
from webhook_inbox.protocol.steps import Commit, One, Plan, Rollback
from webhook_inbox.protocol.work import Seal, Subject, run_handlers
from webhook_inbox.sql.statements import Statement, Statements
from webhook_inbox.testing.schedules import Ending, Fault, Scenario

FENCE = " AND claims = %(token)s::integer AND worker_id = %(worker_id)s"
LOOK = Statement(
    "look_at_claimed",
    "SELECT 1 FROM webhooks.inbox WHERE id = %(id)s AND claims = %(token)s AND worker_id = %(worker_id)s "
    "AND state = 'leased'",
    ("id", "token", "worker_id"),
)
MARK = Statement(
    "mark_by_id",
    "UPDATE webhooks.inbox SET state = 'processed', processed_at = clock_timestamp(), worker_id = NULL, "
    "effect_transaction = pg_current_xact_id() WHERE id = %(id)s RETURNING pg_current_xact_id()::text",
    ("id",),
)


@dataclass(frozen=True)
class Mistake:
    """
    A scenario with a mistake in it.

    Attributes:
        shows: The promise that it breaks.
        faults: Without which it does not show.
    """

    scenario: Scenario
    shows: str
    faults: frozenset[Fault] = frozenset()


def _mistake(
    plans: Callable[[Connection], Sequence[Plan[Any]]],
    shows: str,
    *faults: Fault,
    check: Callable[[Connection, Sequence[Ending]], Any] = check_events,
) -> Mistake:
    def prepare(conn: Connection) -> Sequence[Plan[Any]]:
        clear(conn)
        return plans(conn)

    def checked(conn: Connection, endings: Sequence[Ending]) -> None:
        check(conn, endings)

    return Mistake(Scenario(prepare=prepare, check=checked), shows, frozenset(faults))


def _without(name: str, *clauses: tuple[str, str]) -> Statements:
    """Our statements, but one of them with other text in place of each of *clauses*."""
    statement: Statement = getattr(SQL, name)
    text = statement.text
    for clause, other in clauses:
        assert clause in text, f"{name} does not say {clause!r} any more"
        text = text.replace(clause, other)
    # Prepared statements are told apart by their text; the name is for the story.
    return replace(SQL, **{name: replace(statement, text=text)})


def _book(held: Claim) -> Plan[None]:
    yield from run_handlers(
        Subject(event=held.event, inbox_id=held.id, handlers=BOOK), seconds_max=30.0, sql=SQL
    )


def _against_takeover(mistaken: Callable[[Claim], Plan[Ran]]) -> Callable[[Connection], Sequence[Plan[Any]]]:
    def plans(conn: Connection) -> Sequence[Plan[Any]]:
        recorded(conn, "evt_1")
        holder = worker(conn)
        (held,) = run(conn, claiming_well(holder))
        return [mistaken(held), taking_over(holder, worker(conn))]

    return plans


def no_row_lock(held: Claim) -> Plan[Ran]:
    """Look whether the claim is ours without locking its row, and mark it by its id in the end."""
    yield PROCESSING.begin
    if (yield One(LOOK, held.fence)) is None:
        yield Rollback()
        return Ran(held, RunOutcome.LEASE_LOST)
    yield from _book(held)
    marked = yield One(MARK, {"id": held.id})
    yield Seal(transaction=marked[0], events=[held.id]).step(SQL)
    yield Commit()
    return Ran(held, RunOutcome.PROCESSED)


def no_token(held: Claim) -> Plan[Ran]:
    """Settle whatever is leased under that id."""
    to = replace(PROCESSING, sql=_without("settle_claimed", (FENCE, "")))
    return Ran(held, (yield from process(Work(held, BOOK), to)))


def commit_first(held: Claim) -> Plan[Ran]:
    """Mark the event processed, commit, and only then run the handler."""
    yield PROCESSING.begin
    settle = {**held.fence, "state": State.PROCESSED, "last_error": None}
    marked = yield One(SQL.settle_claimed, settle)
    if marked is None:
        yield Rollback()
        return Ran(held, RunOutcome.LEASE_LOST)
    yield Seal(transaction=marked[0], events=[held.id]).step(SQL)
    yield Commit()
    yield PROCESSING.begin
    yield from _book(held)
    yield Commit()
    return Ran(held, RunOutcome.PROCESSED)


def count_after(worker_id: WorkerId) -> Plan[Ran]:
    """Count the attempt with the mark, and not with the claim."""
    not_counted = _without("claim_events", ("attempts = attempts + 1, ", ""))
    (held,) = yield from claim(
        [Wanted(endpoint="billing", limit=1, hold_seconds=1e9)], worker_id, not_counted
    )
    counted = _without("settle_claimed", ("SET state =", "SET attempts = attempts + 1, state ="))
    return Ran(held, (yield from process(Work(held, BOOK), replace(PROCESSING, sql=counted))))


def any_error_is_a_duplicate() -> Plan[EventResult]:
    """Answer "duplicate" to whatever the insert meets."""
    try:
        return (yield from record_one(booked(), TO))
    except InboxError:
        return EventResult(outcome=Outcome.DUPLICATE, event_id="evt_1", state=State.PROCESSED)


def mark_after() -> Plan[EventResult]:
    """Look for the event, have its effect, and record it in another transaction."""
    yield TO.begin
    known = yield One(SQL.find_event, booked().arrival.key.columns)
    yield Rollback()
    if known is None:
        yield TO.begin
        event = booked().arrival.event(received_at=None, attempt=1)
        yield from run_handlers(Subject(event=event, inbox_id=1, handlers=BOOK), seconds_max=30.0, sql=SQL)
        yield Commit()
        yield from record_one(booked(), TO)
    return EventResult(outcome=Outcome.PROCESSED, event_id="evt_1", state=State.PROCESSED)


def forget_early() -> Plan[Any]:
    """Take the age of a key from when its event came, whenever it was processed."""
    early = _without(
        "prune_events",
        ("greatest(looked.received_at, looked.processed_at)", "looked.received_at"),
        ("AND (i.processed_at IS NULL OR i.processed_at < (SELECT max(before) FROM policy))", ""),
    )
    return (yield from prune_step(RETENTION, Position(stage="events", spans=EVERYTHING), early))


def _forgotten_early(conn: Connection) -> Sequence[Plan[Any]]:
    late_duplicate(conn)
    return [forget_early(), record_one(booked(), TO)]


def _settled_without_token(conn: Connection) -> Sequence[Plan[Any]]:
    conn.execute(outbox.WRITE.encode())
    run(conn, route_messages(outbox.ROUTING, outbox.TO))
    first, second = outbox.relay(conn), outbox.relay(conn)
    claims = run(conn, claim_messages(outbox.OUTLET, 10, first, outbox.TO))
    fence = "AND s.claims = given.token\n  AND s.worker_id = %(worker_id)s "
    to = replace(outbox.TO, sql=_without("settle_sent", (fence, "")))
    return [outbox.settling(claims, to), outbox.taking_over(first, second)]


def _limit_not_locked(conn: Connection) -> Sequence[Plan[Any]]:
    return limits.claims(conn, _without("lock_limit", (" FOR NO KEY UPDATE SKIP LOCKED", "")))


def _counting_after(conn: Connection) -> Sequence[Plan[Any]]:
    recorded(conn, "evt_1")
    return [count_after(worker(conn))]


MISTAKES: dict[str, Mistake] = {
    "the row is not locked": _mistake(_against_takeover(no_row_lock), "P-ONCE"),
    "the token is not checked": _mistake(_against_takeover(no_token), "P-FENCE"),
    "the commit comes before the handler": _mistake(_against_takeover(commit_first), "P-ONCE", Fault.CRASH),
    "the attempt is counted afterwards": _mistake(_counting_after, "P-COUNT", Fault.CRASH),
    "any error of the insert is a duplicate": _mistake(
        lambda _: [any_error_is_a_duplicate()], "P-DUP", Fault.CUT
    ),
    "the event is recorded after its effect": _mistake(lambda _: [mark_after(), mark_after()], "P-ONCE"),
    "the key is forgotten early": _mistake(_forgotten_early, "P-ONCE"),
    "the limit is not locked": _mistake(_limit_not_locked, "a limit of 1", check=limits.one_at_once),
    "a message is settled without its token": _mistake(_settled_without_token, "P-FENCE", check=outbox.check),
}
