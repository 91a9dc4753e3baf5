"""
Claim events, hold them by a lease, and return what the dead have left behind.

States of an event, and who moves it:

    waiting ──claim──► leased ──process──► processed | ignored | dead
       ▲                 │ │
       │                 │ └──fail──► retrying ──claim──► leased          (P-COUNT: each claim counts first)
       └────give_back────┘
                         └──return_expired──► retrying, alone | dead     (the worker died under it)

*Who holds what.* A lease is one row in ``workers`` per incarnation of a worker process; events name the
incarnation and the fencing token of their claim. The heartbeat touches that one row on a connection and a
thread of its own, so no handler's lock, blocked loop or exhausted pool can stop it.

*Which clock.* The server's, always (P-CLOCK). A worker also keeps, on its own monotonic clock, when the last
renewal that succeeded
was *begun*: it trusts its lease from there for ``lease_seconds``, never from the answer.

*Who loses.* A claim is lost when somebody has raised the token, or when the reaper has taken the event back.
The loser finds no row at ``settle_claimed`` and rolls back (P-FENCE). A worker that is
stopped inside a transaction keeps its row lock, so nobody takes its event over until the server's idle limit
ends that session; then its transaction cannot commit.

*Explained deaths.* Where the server itself was restarted since the worker's last heartbeat, or the worker has said
that the incarnation ends, the expiry says nothing about the event: it costs neither an attempt nor a crash. A worker
that was cut off for longer than its lease says so when it comes back, and blames nobody else before the others have
had the time to do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from webhook_inbox.errors import InboxError, StoreUnavailableError
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.states import State
from webhook_inbox.protocol.steps import All, Begin, Commit, One, Plan, Rollback, Row, Together
from webhook_inbox.sql.migrations import PARTITION_DAYS_AHEAD
from webhook_inbox.sql.statements import Statements

REAP_LIMIT = 500
FORGET_AFTER_SECONDS = 3600.0
# Our own short transactions: none of them waits for a handler.
_BOOKKEEPING_SECONDS = 10
_WAIT_MS = 5_000
_PARTITION_WAIT_MS = 200


class ClaimsUnknownError(StoreUnavailableError):
    """Say that events may have been claimed that nobody in this process knows of: its incarnation must end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """
    Ask for the due events of one endpoint.

    Attributes:
        endpoint: Its name.
        limit: How many at most.
        hold_seconds: How long a dead event holds the later ones of its order key.
        due_since: Only what was due at that time or later, in microseconds since 1970; None: everything that is due.
        solitary: Whether also events that run alone.
    """

    endpoint: str
    limit: int
    hold_seconds: float
    due_since: int | None = None
    solitary: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """Tell of an event that was taken back from a worker whose lease had ended."""

    endpoint: str
    event_id: str
    state: State
    worker: str


def register(
    name: str, lease_seconds: float, sql: Statements, *, instead_of: WorkerId | None = None
) -> Plan[WorkerId]:
    """
    Register a new incarnation; its lease runs from now.

    Args:
        instead_of: One that this process held before, ended with it: what it still holds is nobody's crash (P-COUNT).
    """
    yield bookkeeping(sql)
    if instead_of is not None:
        yield One(sql.end_worker, {"worker_id": instead_of})
    row = yield One(sql.register_worker, {"name": name, "lease_seconds": lease_seconds})
    yield Commit()
    return WorkerId(row[0])


def renew(worker_id: WorkerId, lease_seconds: float, sql: Statements) -> Plan[bool]:
    """Renew the lease of an incarnation; False where it is gone."""
    yield bookkeeping(sql)
    row = yield One(sql.renew_lease, {"worker_id": worker_id, "lease_seconds": lease_seconds})
    yield Commit()
    return row is not None


def end(worker_id: WorkerId, sql: Statements) -> Plan[None]:
    """Give up a lease at once."""
    yield bookkeeping(sql)
    yield One(sql.end_worker, {"worker_id": worker_id})
    yield Commit()


def claim(wanted: Sequence[Wanted], worker_id: WorkerId, sql: Statements) -> Plan[tuple[Claim, ...]]:
    """
    Claim due events, oldest due first; each token one above the event's last, each attempt counted and
    committed (P-COUNT). Endpoints that are paused or limited are passed by; see ``protocol/limits.py``.

    Returns:
        At most the sum of the limits, in (endpoint, available_at, id) order.

    Raises:
        ClaimsUnknownError: Events may be claimed; they come back when *worker_id* is ended.
        StoreUnavailableError: Nothing is claimed.

    Concurrency: Any number of workers; rows that another holds are skipped, not waited for.
    """
    _, rows = yield Together((bookkeeping(sql), claiming(wanted, worker_id, sql)))
    return (yield from committed(rows, worker_id))


def claiming(wanted: Sequence[Wanted], worker_id: WorkerId, sql: Statements, *, limited: bool = False) -> All:
    """
    Give the step that claims *wanted* in the open transaction.

    Args:
        limited: Whether these are endpoints with a limit that this transaction has locked, and keeps to; else those
            that have one are passed by.
    """
    params = {
        "endpoints": [each.endpoint for each in wanted],
        "limits": [each.limit for each in wanted],
        "hold_seconds": [each.hold_seconds for each in wanted],
        "due_since": [each.due_since or 0 for each in wanted],
        "solitary": [each.solitary for each in wanted],
        "worker_id": worker_id,
        "limited": limited,
    }
    return All(sql.claim_events, params)


def committed(rows: Sequence[Row], worker_id: WorkerId) -> Plan[tuple[Claim, ...]]:
    """
    Commit what ``claiming`` has claimed, and give it.

    Raises:
        ClaimsUnknownError: Events may be claimed; they come back when *worker_id* is ended.
    """
    if not rows:
        yield Rollback()
        return ()
    try:
        yield Commit()
    except InboxError as error:
        raise ClaimsUnknownError(str(error)) from error
    return tuple(Claim.of(row, worker_id) for row in rows)


def reap(crashes_max: int, sql: Statements, *, blaming: bool = True) -> Plan[tuple[Returned, ...]]:
    """
    Take back the events of workers whose lease has ended.

    Args:
        blaming: Whether to take from those, too, who did not say that they end, which counts as a crash. After an
            outage they may only not have come back yet.

    Promises: P-FENCE, P-COUNT, P-CLOCK, P-KEEP.
    """
    yield bookkeeping(sql)
    rows: list[Row] = yield All(
        sql.return_expired, {"crashes_max": crashes_max, "limit": REAP_LIMIT, "blaming": blaming}
    )
    yield All(sql.forget_workers, {"seconds": FORGET_AFTER_SECONDS})
    yield Commit()
    return tuple(
        Returned(endpoint=row[0], event_id=row[1], state=State(row[2]), worker=row[3]) for row in rows
    )


def pause(endpoint: str, by: str, schema: str, *, reason: str = "") -> Plan[bool]:
    """
    Stop claiming the events of *endpoint*, in every worker; receiving goes on. Who did it, and why, is kept.

    Returns:
        False where it was paused already, and still is.
    """
    sql = Statements.of(schema)
    yield bookkeeping(sql)
    row = yield One(sql.pause_endpoint, {"name": endpoint, "by": by, "reason": reason})
    yield Commit()
    return row is not None


def resume(endpoint: str, by: str, schema: str, *, reason: str = "") -> Plan[bool]:
    """Claim the events of *endpoint* again; False where it was not paused. Who did it, and why, is kept."""
    sql = Statements.of(schema)
    yield bookkeeping(sql)
    row = yield One(sql.resume_endpoint, {"name": endpoint, "by": by, "reason": reason})
    yield One(sql.forget_endpoint, {"name": endpoint})
    yield Commit()
    return row is not None


def look(sql: Statements) -> Plan[None]:
    """See whether the database serves us at all."""
    yield bookkeeping(sql)
    yield Rollback()


def make_partitions(sql: Statements) -> Plan[None]:
    """Make the bodies' partitions of the days ahead; until then what has none lies in the default partition."""
    yield Begin(
        sql.begin,
        {"handler_ms": _BOOKKEEPING_SECONDS * 1000, "wait_ms": _PARTITION_WAIT_MS},
        seconds_max=_BOOKKEEPING_SECONDS,
    )
    yield One(sql.make_partitions, {"days_ahead": PARTITION_DAYS_AHEAD})
    yield Commit()


def notify(channel: str, sql: Statements) -> Plan[None]:
    """Wake idle workers; a hint in a transaction of its own."""
    yield Together((bookkeeping(sql), One(sql.notify, {"channel": channel}), Commit()))


def is_worked(sql: Statements, *, besides: str) -> Plan[bool]:
    """Say whether a worker runs in any process but the one called *besides*."""
    yield bookkeeping(sql)
    row: Row = yield One(sql.worker_lives, {"besides": besides})
    yield Rollback()
    return bool(row[0])


def which_database(sql: Statements) -> Plan[Row]:
    """Say which database a session is on, of which start of which server: equal on two sessions where it is one."""
    row: Row = yield Begin(sql.which_database, seconds_max=_BOOKKEEPING_SECONDS)
    yield Rollback()
    return row


def bookkeeping(sql: Statements) -> Begin:
    """Open one of our own short transactions, none of which waits for a handler."""
    return Begin(
        sql.begin,
        {"handler_ms": _BOOKKEEPING_SECONDS * 1000, "wait_ms": _WAIT_MS},
        seconds_max=_BOOKKEEPING_SECONDS,
    )
