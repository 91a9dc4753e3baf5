"""
Keep to what an operator allows of an endpoint, over all workers: so many events under way at once, so many in a time.

*Where it stands.* In ``endpoints``, beside the pause. A claim passes by every endpoint that is paused or limited, so a
limit holds from the next claim of every worker on, also of one that has not heard of it; who has, claims within it.
What has no limit is claimed as if there were none anywhere.

*One at a time.* A claim within a limit locks it, and then measures what it leaves by a statement of its own: one that
began before the lock was had would not see what the last holder has claimed. Who finds it locked does not wait, since
whoever holds it may be stuck, but asks again soon: no other endpoint is held up by it (P-FLOW).

*Under way* is what is leased. Nothing else is written down when a place is taken, so nothing is left behind by who
dies: a place is free when its event is settled, given back, or taken back from a worker whose lease has ended by the
server's clock (P-CLOCK). Not before: until then a worker that only stood still may go on, and is counted. One that has
lost the database, and its event, may still be at it; it cannot commit (P-FENCE).

*In a time.* A bucket that fills evenly, up to one second's worth, at least one event; spent in the transaction that
claims. What is given back unrun is not put back: the rate is never more than was said.

*Held back* is what is not claimed: it costs no attempt (P-COUNT), and waits where it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from webhook_inbox.errors import InboxError
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.limit import Limit
from webhook_inbox.protocol import lease
from webhook_inbox.protocol.lease import ClaimsUnknownError, Wanted, bookkeeping, claiming, committed
from webhook_inbox.protocol.operate import Operator
from webhook_inbox.protocol.steps import All, Commit, One, Plan, Rollback, Together
from webhook_inbox.sql.statements import Statements

# Far longer than a claim takes, and far shorter than anybody waits for.
LOCKED_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Claimed:
    """
    Hold what was claimed, and what was found of limits.

    Attributes:
        claims: As ``lease.claim`` gives them, of all endpoints.
        waits: Of each endpoint that has a limit, after how many seconds it is worth asking for again: 0 where the limit
            holds nothing back, ``inf`` where one of its events must end first.
    """

    claims: tuple[Claim, ...] = ()
    waits: Mapping[str, float] = field(default_factory=dict)


def claim(
    wanted: Sequence[Wanted],
    limited: Collection[str],
    worker_id: WorkerId,
    sql: Statements,
    *,
    looking: bool,
) -> Plan[Claimed]:
    """
    Claim due events as ``lease.claim`` does, and those of endpoints with a limit within it, each in a transaction of
    its own.

    Args:
        limited: The endpoints that are known to have one; whether they still do is seen.
        looking: Whether to look which others have one, in the round trip that claims.

    Raises:
        ClaimsUnknownError: Events may be claimed; they come back when *worker_id* is ended.
        StoreError: Nothing is claimed.

    Promises: P-COUNT, P-FLOW, P-CLOCK.
    """
    free = [each for each in wanted if each.endpoint not in limited]
    claims: tuple[Claim, ...] = ()
    found: Collection[str] = ()
    if free:
        claims, found = yield from _claim_free(free, worker_id, sql, looking=looking)
    waits: dict[str, float] = {}
    for each in wanted:
        if each.endpoint in limited or each.endpoint in found:
            try:
                more, wait = yield from claim_within(each, worker_id, sql)
            except InboxError as error:
                if claims:
                    raise ClaimsUnknownError(str(error)) from error
                raise
            claims += more
            if wait is not None:
                waits[each.endpoint] = wait
    return Claimed(claims, waits)


def _claim_free(
    wanted: Sequence[Wanted], worker_id: WorkerId, sql: Statements, *, looking: bool
) -> Plan[tuple[tuple[Claim, ...], Collection[str]]]:
    """Claim what has no limit; with *looking*, give the names of those that do have one."""
    if not looking:
        return (yield from lease.claim(wanted, worker_id, sql)), ()
    names = [each.endpoint for each in wanted]
    _, rows, limits = yield Together(
        (bookkeeping(sql), claiming(wanted, worker_id, sql), All(sql.measure_limits, {"endpoints": names}))
    )
    return (yield from committed(rows, worker_id)), [row[0] for row in limits]


def claim_within(
    wanted: Wanted, worker_id: WorkerId, sql: Statements
) -> Plan[tuple[tuple[Claim, ...], float | None]]:
    """
    Claim the due events of one endpoint within its limit.

    Returns:
        The claims; and after how many seconds it is worth asking again, see ``Claimed``; None where it has no limit any
        more, or is paused: then nothing is claimed.

    Raises:
        ClaimsUnknownError, StoreError: As ``claim``.
    """
    name = wanted.endpoint
    _, locked, limits = yield Together(
        (
            bookkeeping(sql),
            One(sql.lock_limit, {"name": name}),
            All(sql.measure_limits, {"endpoints": [name]}),
        )
    )
    allowed, seconds, due = limits[0][1:] if limits else (0, 0.0, False)
    if not (locked and due and allowed):
        yield Rollback()
        if not (limits and due):
            return (), 0.0 if limits else None
        return (), (seconds or math.inf) if locked else LOCKED_SECONDS
    within = replace(wanted, limit=min(wanted.limit, allowed))
    rows = yield claiming([within], worker_id, sql, limited=True)
    spent = (yield One(sql.spend_rate, {"name": name, "begun": len(rows)})) if rows else None
    claims = yield from committed(rows, worker_id)
    if spent:
        return claims, spent[0]
    return claims, math.inf if len(claims) == allowed else 0.0


def limit_endpoint(endpoint: str, limit: Limit, by: Operator, schema: str) -> Plan[bool]:
    """
    Limit *endpoint* to *limit*, from the next claim of every worker on, whatever it was limited to before; one that
    bounds nothing lifts it. Who did it, and why, is kept.

    Returns:
        False where that is so already.
    """
    sql = Statements.of(schema)
    yield bookkeeping(sql)
    params = {
        "name": endpoint,
        "concurrency": limit.concurrency,
        "rate_events": limit.rate_events,
        "rate_seconds": limit.rate_seconds,
        "by": by.name,
        "reason": by.reason,
    }
    row = yield One(sql.limit_endpoint, params)
    yield One(sql.forget_endpoint, {"name": endpoint})
    yield Commit()
    return row is not None
