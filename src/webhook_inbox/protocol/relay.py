"""
Relay the outbox: route, claim, settle, as plans. What is sent in between is sent while no transaction is open (P-OUT).

States of a message on its way to one destination, a row of ``sends``:

    (outbox) ──route──► waiting ──claim──► leased ──settle──► sent | dead
                           ▲                │ │
                           │                │ └──settle──► retrying ──claim──► leased   (P-COUNT: claims count)
                           └──not tried─────┘
                                            └──return──► retrying | dead                (the relay died while sending)

*Whose it is.* As with events: a lease is one row in ``workers`` per incarnation of a relay, renewed by its heartbeat;
a send names the incarnation and the fencing token of its claim. Whoever has lost either settles nothing (P-FENCE).

*Nothing is passed over.* A message is found by its state, never by a position that was reached: one whose transaction
commits late is routed and claimed late.

*Order.* Where a destination asks for it, the messages of one aggregate have an order key. Only the head of a key can be
claimed, and only while none of the key is leased. Relays take turns to route, which they do in the order of writing,
and to claim for an ordered destination: so none sees a later message of a key before an earlier one that was committed.

*In doubt is unsent.* A relay that dies between the destination's confirmation and ``settle`` has the message sent
again, under the same id. There is no third way: the two sides share no transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from webhook_inbox.errors import InboxError
from webhook_inbox.model.arrival import kept_reason
from webhook_inbox.model.claim import Retry, Token, WorkerId
from webhook_inbox.model.instants import instant
from webhook_inbox.model.message import NOT_TRIED, Failed, Message, SendState, Sent, Verdict
from webhook_inbox.model.routing import Outlet, Routing
from webhook_inbox.model.steering import RETRY_IN_SECONDS_MAX
from webhook_inbox.protocol.lease import ClaimsUnknownError, bookkeeping
from webhook_inbox.protocol.outbox import sendable
from webhook_inbox.protocol.steps import All, Commit, One, Plan, Rollback, Row, Step, Together
from webhook_inbox.sql.statements import Statements

ROUTE_LIMIT = 1_000
RETURN_LIMIT = 500
PRUNE_LIMIT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaying:
    """
    Hold what every plan of a relay needs.

    Attributes:
        sql: The statements, rendered for *schema*.
        schema: Where the tables are.
        retry: How failures are retried.
    """

    sql: Statements
    schema: str
    retry: Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """
    Hold one claimed message.

    Attributes:
        message: What the destination is handed; its attempt is counted already (P-COUNT).
        token: The fencing token: what settles this send names it (P-FENCE).
        worker_id: The incarnation that holds the lease.
    """

    message: Message
    token: Token
    worker_id: WorkerId


@dataclass(frozen=True, slots=True)
class Settled:
    """
    Tell what became of a claimed message.

    Attributes:
        claimed: The message, with its claim.
        verdict: What the destination said.
        state: Where it stands now; None where the claim was no longer ours.
    """

    claimed: Claimed
    verdict: Verdict
    state: SendState | None


def route_messages(routing: Routing, to: Relaying) -> Plan[dict[str, int]]:
    """
    Say of messages that are new where they go, in the order in which they were written, at most ``ROUTE_LIMIT``.

    Returns:
        How many were routed to each destination; under ``""``, how many no route names.
    """
    params = {
        "patterns": [rule.pattern for rule in routing.rules],
        "targets": [rule.to for rule in routing.rules],
        "destinations": [outlet.name for outlet in routing.outlets],
        "ordered": [outlet.ordered for outlet in routing.outlets],
        "limit": ROUTE_LIMIT,
    }
    rows: list[Row]
    _, _, rows = yield Together((bookkeeping(to.sql), _turn(to), All(to.sql.route_messages, params)))
    yield Commit() if rows else Rollback()
    return dict(rows)


def reroute_messages(routing: Routing, to: Relaying) -> Plan[dict[str, int]]:
    """
    Have messages routed again that no route named, where one does now.

    Returns:
        How many wait for each destination that is not there: of another release, or of one that was renamed.
    """
    names = [outlet.name for outlet in routing.outlets]
    yield bookkeeping(to.sql)
    yield One(
        to.sql.reroute_messages, {"patterns": [rule.pattern for rule in routing.rules], "destinations": names}
    )
    rows = yield All(to.sql.stranded_sends, {"destinations": names})
    yield Commit()
    return dict(rows)


def claim_messages(
    outlet: Outlet, limit: int, worker_id: WorkerId, to: Relaying, *, trial: bool = False
) -> Plan[tuple[Claimed, ...]]:
    """
    Claim due messages of *outlet*, oldest due first; each attempt counted and committed before the send (P-COUNT).

    Args:
        trial: One alone, and not the oldest: that which was tried the least often.

    Returns:
        At most *limit*, in the order in which they were written; of an ordered outlet, one of a key.

    Raises:
        ClaimsUnknownError: Messages may be claimed; they come back when *worker_id* is ended.
        StoreUnavailableError: Nothing is claimed.
    """
    params = {
        "destination": outlet.name,
        "worker_id": worker_id,
        "holding": outlet.dead_message == "hold",
    }
    turn: tuple[Step, ...] = (_turn(to, outlet.name),) if outlet.ordered else ()
    due = All(to.sql.claim_trial, params) if trial else All(to.sql.claim_messages, {**params, "limit": limit})
    *_, rows = yield Together((bookkeeping(to.sql), *turn, due))
    if not rows:
        yield Rollback()
        return ()
    try:
        yield Commit()
    except InboxError as error:
        raise ClaimsUnknownError(str(error)) from error
    return tuple(_claimed(row, outlet.name, worker_id) for row in rows)


def settle_messages(
    outlet: Outlet, verdicts: Sequence[tuple[Claimed, Verdict]], to: Relaying, *, takes_others: bool = False
) -> Plan[tuple[Settled, ...]]:
    """
    Record what came of sending, where the claims are still ours (P-FENCE): only a confirmed send is marked (P-OUT).

    Args:
        verdicts: All of one incarnation.
        takes_others: Whether the destination confirms other messages: then one that it asks to wait each time is dead
            after ``retry_seconds_max``, too. Without that, no message dies of an outage.

    Returns:
        One each, in their order.
    """
    sent = [claimed for claimed, verdict in verdicts if isinstance(verdict, Sent)]
    unsent = [(claimed, verdict) for claimed, verdict in verdicts if isinstance(verdict, Failed)]
    states: dict[str, SendState] = {}
    yield bookkeeping(to.sql)
    if sent:
        states |= yield from _mark_sent(outlet, sent, to)
    if unsent:
        states |= yield from _mark_unsent(outlet, unsent, to, takes_others=takes_others)
    yield Commit()
    return tuple(
        Settled(claimed, verdict, states.get(str(claimed.message.id))) for claimed, verdict in verdicts
    )


def return_messages(to: Relaying, *, blaming: bool = True) -> Plan[tuple[Row, ...]]:
    """
    Take back the messages of relays whose lease has ended.

    Args:
        blaming: Whether to take from those, too, who did not say that they end; see ``lease.reap``.

    Returns:
        (destination, message id, state, relay) of each.
    """
    params = {
        "limit": RETURN_LIMIT,
        "blaming": blaming,
        "retry_seconds_max": to.retry.retry_seconds_max,
        "backoff_seconds_max": to.retry.backoff_seconds_max,
    }
    yield bookkeeping(to.sql)
    rows: list[Row] = yield All(to.sql.return_sends, params)
    yield Commit()
    return tuple(rows)


def prune_outbox(seconds: float, to: Relaying) -> Plan[int]:
    """Delete what was published longer than *seconds* ago, at most ``PRUNE_LIMIT``; give its number (P-KEEP)."""
    yield bookkeeping(to.sql)
    row = yield One(to.sql.prune_outbox, {"seconds": seconds, "limit": PRUNE_LIMIT})
    yield Commit()
    return int(row[0])


def measure_lag(routing: Routing, to: Relaying) -> Plan[dict[str, float]]:
    """Say for how many seconds the oldest due message of each destination has been due; changes nothing."""
    yield bookkeeping(to.sql)
    rows = yield All(to.sql.outbox_lag, {"destinations": [outlet.name for outlet in routing.outlets]})
    yield Rollback()
    return dict(rows)


def count_stuck(to: Relaying) -> Plan[dict[SendState, int]]:
    """Count the messages that nothing sends by itself, by state; changes nothing."""
    yield bookkeeping(to.sql)
    dead, unrouted = yield One(to.sql.stuck_messages)
    yield Rollback()
    return {SendState.DEAD: dead, SendState.UNROUTED: unrouted}


def _mark_sent(outlet: Outlet, sent: Sequence[Claimed], to: Relaying) -> Plan[dict[str, SendState]]:
    ids = [str(each.message.id) for each in sent]
    fence = {"destination": outlet.name, "ids": ids, "tokens": _tokens(sent), "worker_id": sent[0].worker_id}
    _, rows, _ = yield Together(
        (
            All(to.sql.lock_messages, {"ids": ids}),
            All(to.sql.settle_sent, fence),
            One(to.sql.publish_messages, {"ids": ids}),
        )
    )
    return {row[0]: SendState.SENT for row in rows}


def _mark_unsent(
    outlet: Outlet, unsent: Sequence[tuple[Claimed, Failed]], to: Relaying, *, takes_others: bool
) -> Plan[dict[str, SendState]]:
    claims = [claimed for claimed, _ in unsent]
    failures = [failed for _, failed in unsent]
    counted = [each.permanent or not each.stop for each in failures]
    params = {
        "destination": outlet.name,
        "ids": [str(each.message.id) for each in claims],
        "tokens": _tokens(claims),
        "worker_id": claims[0].worker_id,
        "reasons": [kept_reason(each.reason) for each in failures],
        "retry_in_seconds": [_delay(claimed, failed, to.retry) for claimed, failed in unsent],
        "permanent": [each.permanent for each in failures],
        "counted": counted,
        "timed": [
            blamed or (takes_others and each is not NOT_TRIED)
            for blamed, each in zip(counted, failures, strict=True)
        ],
        "retry_seconds_max": to.retry.retry_seconds_max,
        "attempts_max": to.retry.attempts_max,
    }
    rows = yield All(to.sql.settle_unsent, params)
    return {row[0]: SendState(row[1]) for row in rows}


def _delay(claimed: Claimed, failed: Failed, retry: Retry) -> float:
    if failed.permanent:
        return 0.0
    if failed.retry_in_seconds is not None:  # a destination may be anybody's: NaN is neither
        return failed.retry_in_seconds if 0 <= failed.retry_in_seconds <= RETRY_IN_SECONDS_MAX else 0.0
    return 0.0 if failed.stop else retry.delay(claimed.message.attempt)


def _tokens(claims: Iterable[Claimed]) -> list[int]:
    return [each.token for each in claims]


def _claimed(row: Row, destination: str, worker_id: WorkerId) -> Claimed:
    message = Message(
        id=UUID(row[0]),
        destination=destination,
        attempt=row[2],
        event_type=row[3],
        aggregate_type=row[4],
        aggregate_id=row[5],
        payload=row[6].encode(),
        headers=sendable(row[7]),
        created_at=instant(row[8]),
    )
    return Claimed(message=message, token=Token(row[1]), worker_id=worker_id)


def _turn(to: Relaying, destination: str = "") -> One:
    return One(to.sql.lock_outbox, {"what": f"{to.schema} {destination}"})
