"""
Run several claimed events in one transaction: a savepoint each, or all of them by one handler.

    BEGIN
      settle_set                   locks and marks all; no row back: not ours, or locked by somebody (P-FENCE)
      SAVEPOINT, the handlers      one that fails takes itself back, and nothing else (P-FLOW)
      ...
      seal_effect                  whoever came to nothing loses its mark
    COMMIT                         all that was done, at once (P-ONCE)

A transaction that is shared holds what each of its events has locked until its end, and so it waits for nobody.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from webhook_inbox.errors import (
    ConflictError,
    HandlerError,
    HandlerNotYetError,
    HandlerTimeoutError,
    KeyBusyError,
    TransactionEndedError,
)
from webhook_inbox.model.claim import Claim
from webhook_inbox.model.failure import describe
from webhook_inbox.model.steering import NotYet
from webhook_inbox.protocol.handlers import Handler
from webhook_inbox.protocol.process import Processing, RunOutcome, Work, drop_body, run_work, turn
from webhook_inbox.protocol.steps import All, Plan, Release, RollbackTo, Row, Run, Savepoint, Step, Together
from webhook_inbox.protocol.work import HandlerWork, Seal, commit_effect, not_yet

# A batch commits what it has after this long, so that a slow event does not hold its mates' effects back.
BATCH_SECONDS_MAX = 1.0
# ... and whoever waits for a lock that somebody else has keeps all that the batch has locked from others meanwhile. So
# an event waits for hardly more than a moment and is left for a later batch; where several have been, the rest is too.
BATCH_WAIT_SECONDS = 0.002
BUSY_EVENTS_MAX = 5
# A patient batch goes on waiting, for somebody whose own batch may wait for one of ours: so not for long, and the event
# is run by itself. Far below deadlock_timeout, which else would pass before either goes on.
PATIENT_WAIT_SECONDS = 0.05
# What its mates may have brought upon an event, and does not meet it by itself: a temporary table, a cursor or another
# object of theirs that lives until the end of the transaction.
_OF_MATES = frozenset({"42P07", "42710", "42P03"})
_LOCKED = "55P03"


def process_batch(
    batch: Sequence[Work], to: Processing, *, patient: bool = True
) -> Plan[tuple[RunOutcome | HandlerError, ...]]:
    """
    Run several claimed events in one transaction, a savepoint each; at least one of them has a handler.

    Args:
        patient: Whether an event may wait for somebody else's lock until it is sure to have to run by itself.

    Returns:
        One entry per event, in order: its outcome, or what its handler met. ``busy`` where it would have waited for
        somebody else's lock, or came after several that would: it is to run in a patient batch. ``not_run`` where the
        time for a batch was up before its turn, or where it must run by itself: it has no handler or one that steered,
        it has waited for a lock in vain, or its claim is no longer ours.

    Raises:
        TransactionEndedError: A handler ended the transaction; nothing of the batch is applied.
        HandlerTimeoutError: A handler overran; nothing of the batch is applied.
        StoreError: As ``process``; nothing of the batch is applied, or its fate is unknown.

    Promises: P-FENCE, P-ONCE, P-FLOW.
    """
    longest, locked = (
        (PATIENT_WAIT_SECONDS, RunOutcome.NOT_RUN) if patient else (BATCH_WAIT_SECONDS, RunOutcome.BUSY)
    )
    to = replace(to, wait_seconds=min(to.wait_seconds, longest))
    transactions = yield from _take_all([work.claim for work in batch if work.handlers], to)
    ends_at, busy = time.monotonic() + BATCH_SECONDS_MAX, 0
    outcomes: dict[int, RunOutcome | HandlerError] = {}
    before: tuple[Step, ...] = ()
    for work in batch:
        if work.claim.id not in transactions or (outcomes and time.monotonic() > ends_at):
            continue
        if busy == BUSY_EVENTS_MAX:
            outcomes[work.claim.id] = locked
            continue
        met, before = yield from _process_within(work, before, to, locked)
        outcomes[work.claim.id] = met
        busy += met is RunOutcome.BUSY
    seal = _sealing(transactions, outcomes, batch[0].claim)
    handlers = [handler for work in batch for handler in work.handlers]
    yield from commit_effect(seal, handlers, to.sql, before=before)
    return tuple(outcomes.get(work.claim.id, RunOutcome.NOT_RUN) for work in batch)


def process_set(handler: Handler, claims: Sequence[Claim], to: Processing) -> Plan[tuple[RunOutcome, ...]]:
    """
    Hand several claimed events of one type to a set-based handler at once, in one transaction.

    Returns:
        ``processed``; ``not_run`` for those that are to run by themselves, since somebody has locked their row or has
        the claim by now: the handler has not seen these.

    Raises:
        HandlerError: The handler failed; nothing is applied, and each event is to run by itself.
        StoreError: As ``process``.

    Promises: P-FENCE, P-ONCE.
    """
    to = replace(to, wait_seconds=min(to.wait_seconds, PATIENT_WAIT_SECONDS))
    transactions = yield from _take_all(claims, to)
    held = [claim for claim in claims if claim.id in transactions]
    if held:
        if turns := [step for claim in held for step in turn(claim, to)]:
            yield Together(tuple(turns))
        events = {claim.event.key: (claim.event, claim.id) for claim in held}
        work = HandlerWork(handler, ([claim.event for claim in held],), events, to.sql)
        steering = yield Run(handler.name, work, to.handler_seconds_max)
        if steering is not None:
            raise HandlerNotYetError("the events of a set run one by one", retry_in_seconds=0.001)
        for claim in held:
            yield from drop_body(Work(claim, (handler,)), to)
    done = dict.fromkeys(transactions, RunOutcome.PROCESSED)
    yield from commit_effect(_sealing(transactions, done, claims[0]), (handler,), to.sql)
    return tuple(done.get(claim.id, RunOutcome.NOT_RUN) for claim in claims)


def _take_all(claims: Sequence[Claim], to: Processing) -> Plan[dict[int, str]]:
    """Begin a transaction and mark all of *claims* that can be; give the transaction's id for each that is."""
    params = {
        "ids": [claim.id for claim in claims],
        "tokens": [claim.token for claim in claims],
        "worker_id": claims[0].worker_id,
        "lock_ms": to.wait_ms,
    }
    rows: list[Row]
    _, rows = yield Together((to.begin, All(to.sql.settle_set, params)))
    return {row[0]: row[1] for row in rows}


def _sealing(transactions: Mapping[int, str], outcomes: Mapping[int, object], claim: Claim) -> Seal | None:
    """Seal what was processed; what was not stays with the worker of *claim*."""
    if not transactions:
        return None
    done = {each for each in transactions if outcomes.get(each) is RunOutcome.PROCESSED}
    return Seal(
        transaction=next(iter(transactions.values())),
        events=sorted(done),
        undone=sorted(transactions.keys() - done),
        worker_id=claim.worker_id,
    )


def _process_within(
    work: Work, before: tuple[Step, ...], to: Processing, locked: RunOutcome
) -> Plan[tuple[RunOutcome | HandlerError, tuple[Step, ...]]]:
    """
    Run one of a batch, after the steps *before*; give its outcome, *locked* where it would have waited for somebody
    else's lock, and the steps that come before the next.
    """
    met: RunOutcome | HandlerError = RunOutcome.NOT_RUN
    try:
        yield Together((*before, Savepoint(), *turn(work.claim, to)))
        steering, _ = yield from run_work(work, to)
        if steering is None:
            yield from drop_body(work, to)
            return RunOutcome.PROCESSED, (Release(),)
        if isinstance(steering, NotYet):
            met = not_yet(steering)
    except KeyBusyError:
        met = locked  # somebody runs an event of its order key
    except ConflictError:
        pass
    except (TransactionEndedError, HandlerTimeoutError):
        raise  # the transaction, or its session, may be gone: each of the batch gets one of its own
    except HandlerError as error:
        met = _met(error, locked)
    yield RollbackTo()
    return met, ()


def _met(error: HandlerError, locked: RunOutcome) -> RunOutcome | HandlerError:
    sqlstate = describe(error).sqlstate
    if sqlstate == _LOCKED:
        return locked
    return RunOutcome.NOT_RUN if sqlstate in _OF_MATES else error
