"""
Process claimed events: the worker's transactions, as plans.

    claim                          claim count and attempt raised, committed before any work (P-COUNT)
    BEGIN
      lock_order_key               only where the endpoint asked for order: one event of a key at a time
      settle_claimed               locks and marks; no row back: the claim is no longer ours (P-FENCE)
      the handlers                 the user's tables, tx.emit, tx.review
      seal_effect                  fails where a handler ended the transaction it was given
    COMMIT                         refused by the server unless sealed; believed only by its tag (P-ONCE)

A failure rolls back and raises; ``fail`` then records it in a transaction of its own, guarded by the token,
so that the history survives the rollback and a worker that was overtaken changes nothing. How several events share
one transaction is in ``batch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from webhook_inbox.model.arrival import kept_reason
from webhook_inbox.model.claim import Claim, Retry
from webhook_inbox.model.failure import Failure
from webhook_inbox.model.states import State
from webhook_inbox.model.steering import GiveUp, NotYet, Steering
from webhook_inbox.protocol.bounds import handling, lock_ms
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.steps import (
    All,
    Begin,
    Commit,
    One,
    Plan,
    Rollback,
    Row,
    Together,
)
from webhook_inbox.protocol.tx import Review, review_params
from webhook_inbox.protocol.work import Seal, Subject, commit_effect, not_yet, run_handlers
from webhook_inbox.sql.statements import Statements


class RunOutcome(StrEnum):
    """Say what one run of a claimed event came to."""

    PROCESSED = "processed"
    IGNORED = "ignored"
    DEAD = "dead"
    RETRYING = "retrying"
    LEASE_LOST = "lease_lost"
    NOT_RUN = "not_run"
    BUSY = "busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """
    Hold what every process plan of one endpoint needs.

    Attributes:
        sql: The statements, rendered for the inbox's schema.
        wait_seconds: How long to wait for somebody else's lock on an event.
        handler_seconds_max: How long one handler may take.
        retry: How failures are retried.
        worker: The worker's name, for the history.
        keep_body: Whether the bytes stay once the event is processed.
    """

    sql: Statements
    wait_seconds: float
    handler_seconds_max: float
    retry: Retry
    worker: str
    keep_body: bool = True

    @property
    def wait_ms(self) -> int:
        """Give the lock timeout."""
        return lock_ms(self.wait_seconds)

    @property
    def begin(self) -> Begin:
        """Give the step that opens a transaction under these limits."""
        return handling(
            self.sql, handler_seconds_max=self.handler_seconds_max, wait_seconds=self.wait_seconds
        )


@dataclass(frozen=True, slots=True)
class Work:
    """Pair a claim with the handlers that will run for it, and what their prepare stages gave."""

    claim: Claim
    handlers: tuple[Handler, ...]
    prepared: tuple[Any, ...] = ()


def process(work: Work, to: Processing) -> Plan[RunOutcome]:
    """
    Run the handlers of one claimed event and settle it, in one transaction.

    Returns:
        ``processed``, ``ignored`` or ``dead`` once that is committed; ``lease_lost`` where the claim is no
        longer ours: nothing is applied.

    Raises:
        HandlerError: The handler did not finish; everything is rolled back, the claim is still ours.
        StoreError: The database did not do it, or the commit's fate is unknown.

    Promises: P-FENCE, P-ONCE.
    """
    state = State.PROCESSED if work.handlers else State.IGNORED
    reason = None if work.handlers else f"no handler for {work.claim.event.type}"
    settle = _settle(work.claim, state, reason, to)
    _, marked, *_ = yield Together((to.begin, settle, *turn(work.claim, to)))
    if marked is None:
        yield Rollback()
        return RunOutcome.LEASE_LOST
    steering, reviews = yield from run_work(work, to)
    if isinstance(steering, NotYet):
        raise not_yet(steering)
    if steering is None:
        yield from drop_body(work, to)
        seal = Seal(transaction=marked[0], events=[work.claim.id]) if work.handlers else None
        yield from commit_effect(seal, work.handlers, to.sql)
        return RunOutcome(state)
    yield Rollback()
    return (yield from settle_steered(work, steering, reviews, to))


def fail(
    claim: Claim,
    failure: Failure,
    *,
    shown: str,
    seconds: float,
    retry_in_seconds: float,
    costs_attempt: bool,
    to: Processing,
) -> Plan[RunOutcome]:
    """
    Record that a run failed, and when the event is due again; keep the run in the history.

    Args:
        failure: What may be shown of the exception, for the history.
        shown: What is kept with the event.
        seconds: How long the run took.
        retry_in_seconds: When the event is due again.
        costs_attempt: Whether the attempt counts.

    Returns:
        ``retrying`` or ``dead``; ``lease_lost`` where the claim is no longer ours: nothing is changed.

    Promises: P-FENCE, P-CLOCK.
    """
    yield to.begin
    failed = yield One(
        to.sql.fail_claimed,
        {
            **claim.fence,
            "retry_in_seconds": retry_in_seconds,
            "retry_seconds_max": to.retry.retry_seconds_max,
            "attempts_max": to.retry.attempts_max,
            "costs_attempt": costs_attempt,
            "last_error": shown,
        },
    )
    if failed is None:
        yield Rollback()
        return RunOutcome.LEASE_LOST
    yield One(
        to.sql.insert_attempt, _attempt(claim, failure, seconds, "failed" if costs_attempt else "not_yet", to)
    )
    yield Commit()
    return RunOutcome(failed[0])


def give_back(
    claims: Sequence[Claim], to: Processing, *, retry_in_seconds: float = 0.0
) -> Plan[frozenset[int]]:
    """
    Give claims of one incarnation back unrun, without cost.

    Returns:
        The rows that are still held because somebody has locked them; try these again.

    Promises: P-COUNT, P-FENCE, P-FLOW.
    """
    yield to.begin
    rows: list[Row] = yield All(
        to.sql.give_back_claimed,
        {
            "ids": [claim.id for claim in claims],
            "tokens": [claim.token for claim in claims],
            "worker_id": claims[0].worker_id,
            "retry_in_seconds": retry_in_seconds,
        },
    )
    yield Commit()
    return frozenset(row[0] for row in rows)


def turn(claim: Claim, to: Processing) -> tuple[One, ...]:
    """Give the step that waits for the turn of *claim* where its events are ordered."""
    if claim.order_key is None:
        return ()
    key = {"endpoint": claim.event.endpoint, "order_key": claim.order_key, "wait_ms": to.wait_ms}
    return (One(to.sql.lock_order_key, key),)


def _settle(claim: Claim, state: State, reason: str | None, to: Processing) -> One:
    return One(to.sql.settle_claimed, {**claim.fence, "state": state, "last_error": reason})


def run_work(work: Work, to: Processing) -> Plan[tuple[Steering | None, tuple[Review, ...]]]:
    """Run the handlers of *work*; see ``run_handlers``."""
    claim = work.claim
    subject = Subject(event=claim.event, inbox_id=claim.id, handlers=work.handlers, prepared=work.prepared)
    return (yield from run_handlers(subject, seconds_max=to.handler_seconds_max, sql=to.sql))


def drop_body(work: Work, to: Processing) -> Plan[None]:
    """Let the bytes of an event that is processed go where they are not to be kept."""
    if work.handlers and not to.keep_body:
        yield One(to.sql.drop_body, {"id": work.claim.id, "received_at": work.claim.event.received_at})


def settle_steered(
    work: Work, steering: Steering, reviews: tuple[Review, ...], to: Processing
) -> Plan[RunOutcome]:
    """Record a handler's verdict without its writes, in a transaction of its own and under the token once more."""
    state = State.DEAD if isinstance(steering, GiveUp) else State.IGNORED
    settle = _settle(work.claim, state, kept_reason(steering.reason), to)
    if (yield Together((to.begin, settle)))[-1] is None:
        yield Rollback()
        return RunOutcome.LEASE_LOST
    for review in reviews:
        yield One(to.sql.insert_review, review_params(review, work.claim.event, work.claim.id))
    yield Commit()
    return RunOutcome(state)


def _attempt(
    claim: Claim, failure: Failure, seconds: float, outcome: str, to: Processing
) -> dict[str, object]:
    return {
        "inbox_id": claim.id,
        "attempt": claim.event.attempt,
        "claim": claim.token,
        "worker": to.worker,
        "seconds": seconds,
        "outcome": outcome,
        "error_type": failure.type,
        "sqlstate": failure.sqlstate,
        "error": str(failure),
        "traceback": "\n".join(failure.frames),
    }
