"""
Remember how far a list of past events has been walked, so that one process at a time does it, and another goes on.

A walk goes from the newest event to *since*. Where it begins is never taken from where the last one ended: an event may
show late, and a delivery that was still being tried may have failed since. So it reaches back over an overlap, and the
unique key tells what is known (P-DUP). The row's cursor only says where a walk that was interrupted goes on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from webhook_inbox.model.instants import instant
from webhook_inbox.model.reconciled import Tally, WalkRecord
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.operate import operating
from webhook_inbox.protocol.status import reading
from webhook_inbox.protocol.steps import All, Commit, One, Plan, Rollback
from webhook_inbox.sources.listing import Listing
from webhook_inbox.sql.statements import Statements

# Until another process may take over from one that says nothing; each page, and each part of one, renews it.
HELD_SECONDS = 120.0
# A cursor is the provider's: where it was written down longer ago, it may be none any more.
RESUMED_HOURS_MAX = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """
    Say how far back to go.

    Attributes:
        seconds: As an operator has said; None: an overlap behind the last walk.
        scheduled: Whether nobody has asked: then not to before the first such walk. What was sent before this inbox
            was there, another receiver may have dealt with.
    """

    seconds: float | None = None
    scheduled: bool = False

    def since(
        self, now: datetime, made_at: datetime, complete_at: datetime | None, listing: Listing
    ) -> tuple[datetime, float]:
        """Give from when on to ask, and how many seconds of what should be asked for the list does not reach."""
        overlap = timedelta(seconds=min(listing.overlap_seconds, listing.window_seconds))
        reach = now - timedelta(seconds=listing.window_seconds)
        if self.seconds is not None:
            needed = wanted = now - timedelta(seconds=self.seconds)
        else:
            needed = complete_at or (made_at if self.scheduled else now)
            wanted = max(needed - overlap, made_at) if self.scheduled else needed - overlap
        return max(wanted, reach), max(0.0, (reach - needed).total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """
    Hold where a walk is.

    Attributes:
        endpoint, account: Whose list it is.
        holder: Who walks.
        began_at, since: Events between these are meant; on the server's clock (P-CLOCK).
        out_of_reach_seconds: As ``Walked`` has it.
        cursor: The page to ask for next; empty: the first.
        tally: What was found on the pages before.
    """

    endpoint: str
    account: str
    holder: str
    began_at: datetime
    since: datetime
    out_of_reach_seconds: float = 0.0
    cursor: str = ""
    tally: Tally = field(default_factory=Tally)

    def turned(self, cursor: str, found: Tally) -> Walk:
        """Give the walk after a page."""
        return replace(self, cursor=cursor, tally=self.tally + found)


def begin_walk(
    endpoint: str,
    account: str,
    *,
    holder: str,
    span: Span,
    listing: Listing,
    sql: Statements,
    dry_run: bool = False,
) -> Plan[Walk | None]:
    """
    Begin a walk, or go on with one that was interrupted and reaches as far back; None: another process is at it.

    Args:
        dry_run: Begin one that nobody hears of.
    """
    yield operating(sql)
    row = yield One(
        sql.hold_reconcile,
        {"endpoint": endpoint, "account": account, "holder": holder, "seconds": HELD_SECONDS},
    )
    if row is None:
        yield Rollback()
        return None
    now, made_at, began_at, since, complete_at, noted_at, cursor, *counts = _times(row)
    asked, beyond = span.since(now, made_at, complete_at, listing)
    walk = Walk(
        endpoint=endpoint,
        account=account,
        holder=holder,
        began_at=now,
        since=asked,
        out_of_reach_seconds=beyond,
    )
    fresh = noted_at is not None and now - noted_at < timedelta(hours=RESUMED_HOURS_MAX)
    if cursor and not dry_run and fresh and since <= asked:
        walk = replace(walk, began_at=began_at, since=since, cursor=cursor, tally=Tally(*counts))
    if dry_run:
        yield Rollback()
        return walk
    yield One(sql.note_reconcile, _params(walk, seconds=HELD_SECONDS))
    yield Commit()
    return walk


def note_walk(walk: Walk, sql: Statements) -> Plan[bool]:
    """Write down where *walk* is, and hold it on; False: another process has taken it over."""
    return (yield from _noted(_params(walk, seconds=HELD_SECONDS), sql))


def end_walk(walk: Walk, sql: Statements, *, error: str = "", complete: bool) -> Plan[bool]:
    """
    Write down what came of *walk*, and let others walk.

    Args:
        error: Why it did not come to its end; then the next one goes on at its cursor, if it has one.
        complete: Whether everything that it was to find is here now.
    """
    ended = {"ended": True, "last_error": error, "complete_at": walk.began_at if complete else None}
    return (yield from _noted(_params(walk, seconds=0.0) | ended, sql))


def list_walks(schema: str) -> Plan[tuple[WalkRecord, ...]]:
    """
    List what is known of every list, by endpoint and account.

    Raises:
        SchemaVersionError: As ``check_schema``.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield reading(sql)
    rows = yield All(sql.list_reconciles)
    yield Rollback()
    return tuple(map(WalkRecord.of, rows))


def _noted(params: dict[str, object], sql: Statements) -> Plan[bool]:
    yield operating(sql)
    row = yield One(sql.note_reconcile, params)
    yield Commit()
    return row is not None


def _params(walk: Walk, *, seconds: float) -> dict[str, object]:
    return {
        "endpoint": walk.endpoint,
        "account": walk.account,
        "holder": walk.holder,
        "seconds": seconds,
        "began_at": walk.began_at,
        "since": walk.since,
        "cursor": walk.cursor,
        **asdict(walk.tally),
        "complete_at": None,
        "ended": False,
        "last_error": "",
    }


def _times(row: tuple[Any, ...]) -> list[Any]:
    return [*(None if each is None else instant(each) for each in row[:6]), *row[6:]]
