"""
Run claimed events to their settlement: prepare, process, and record what failed, as one flow for workers and
hybrid requests.

Each event ends in exactly one way, and each way is said by a ``RunOutcome``. Only a lost database leaves a
claim as it is: then the flow raises, the caller gives the claim back when it can, and the lease sees to the
rest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from webhook_inbox.errors import (
    HandlerError,
    HandlerNotYetError,
    InboxError,
    KeyBusyError,
    StoreError,
    StoreUnavailableError,
)
from webhook_inbox.model.arrival import kept_reason
from webhook_inbox.model.claim import Claim, Retry
from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet, Steering
from webhook_inbox.protocol.batch import process_batch, process_set
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.flow import Flow, Transact, prepare, transact
from webhook_inbox.protocol.handlers import Handler, Kind
from webhook_inbox.protocol.process import (
    Processing,
    RunOutcome,
    Work,
    fail,
    process,
    settle_steered,
)
from webhook_inbox.protocol.work import not_yet
from webhook_inbox.sql.statements import Statements
from webhook_inbox.telemetry import events

_BUSY_RETRY_SECONDS = 1.0
_NEWER_RELEASE_SECONDS = 30.0
_SHORTAGE_SECONDS = 30.0
# Insufficient resources: disk, memory, connections. Source: PostgreSQL manual, "PostgreSQL Error Codes".
_SHORTAGE_CLASS = "53"
_GIVEN_UP = "its handler gave it up; last_error has the reason"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """
    Hold what the runs of one process share.

    Attributes:
        sql: The statements, rendered for the inbox's schema.
        worker: The process's name, for the history.
        report: Called once with (endpoint name, exception) for each exception that made a run fail.
        dead: Called once with (endpoint name, result) for each event that died.
    """

    sql: Statements
    worker: str
    report: Callable[[str, BaseException], None]
    dead: Callable[[str, EventResult], None]

    def processing(self, endpoint: EndpointPlan) -> Processing:
        """Give what the process plans of *endpoint* need."""
        settings = endpoint.settings
        return Processing(
            sql=self.sql,
            wait_seconds=settings.duplicate_wait_seconds,
            handler_seconds_max=settings.handler_seconds_max,
            retry=Retry.of(settings),
            worker=self.worker,
            keep_body=endpoint.keep == "body",
        )


def run_claims(
    endpoint: EndpointPlan, claims: Sequence[Claim], running: Running, *, patient: bool = True
) -> Flow[tuple[RunOutcome, ...]]:
    """
    Run *claims* of one endpoint: together where they can be, one by one where they must.

    Args:
        patient: Whether those that wait for somebody else's lock are run all the same.

    Returns:
        One outcome per claim, in order; ``busy``, where this is not *patient*: it is still to be run.

    Raises:
        StoreUnavailableError: The database was lost; claims that are not settled are still held by their lease.

    Promises: P-FENCE, P-ONCE, P-FLOW, P-COUNT.
    """
    if len(claims) == 1 or any(claim.solitary for claim in claims):
        outcomes = []
        for claim in claims:
            outcomes.append((yield from run_claim(endpoint, claim, running)))
        return tuple(outcomes)
    if handler := _set_handler(endpoint, claims):
        return (yield from _run_set(endpoint, handler, claims, running))
    return (yield from _run_batch(endpoint, claims, running, patient=patient))


def run_claim(endpoint: EndpointPlan, claim: Claim, running: Running) -> Flow[RunOutcome]:
    """Run one claim by itself; see ``run_claims``."""
    to = running.processing(endpoint)
    started, reason = time.monotonic(), _GIVEN_UP
    try:
        work = yield from _prepared(endpoint, claim)
        if isinstance(work, NotYet):
            raise not_yet(work)
        if isinstance(work, Ignore | GiveUp):
            steering = work
            reason = kept_reason(work.reason)
            outcome = yield from transact(lambda: settle_steered(Work(claim, ()), steering, (), to), None)
        else:
            outcome = yield from transact(lambda: process(work, to), _kind(work.handlers))
    except StoreUnavailableError:
        raise
    except (HandlerError, StoreError) as error:
        return (yield from fail_claim(endpoint, claim, error, time.monotonic() - started, running))
    return _told(endpoint, claim, outcome, running, reason)


def _run_batch(
    endpoint: EndpointPlan, claims: Sequence[Claim], running: Running, *, patient: bool
) -> Flow[tuple[RunOutcome, ...]]:
    works = []
    for claim in claims:
        handlers = endpoint.handlers.matching(claim.event.type)
        if any(handler.prepare for handler in handlers) or (not handlers and endpoint.unhandled == "refuse"):
            return (yield from _one_by_one(endpoint, claims, running))
        works.append(Work(claim, handlers))
    kinds = {_kind(work.handlers) for work in works} - {None}
    if len(kinds) != 1:
        return (yield from _one_by_one(endpoint, claims, running))
    to = running.processing(endpoint)
    started = time.monotonic()
    try:
        met = yield Transact(lambda: process_batch(works, to, patient=patient), next(iter(kinds)))
    except StoreUnavailableError:
        raise
    except InboxError:
        # One of them spoiled the transaction for all, or the server chose it as a victim: each gets one of its own.
        return (yield from _one_by_one(endpoint, claims, running))
    outcomes = []
    for claim, outcome in zip(claims, met, strict=True):
        match outcome:
            case RunOutcome.NOT_RUN:
                outcomes.append((yield from run_claim(endpoint, claim, running)))
            case RunOutcome():
                outcomes.append(_told(endpoint, claim, outcome, running))
            case _:
                outcomes.append(
                    (yield from fail_claim(endpoint, claim, outcome, time.monotonic() - started, running))
                )
    return tuple(outcomes)


def _run_set(
    endpoint: EndpointPlan, handler: Handler, claims: Sequence[Claim], running: Running
) -> Flow[tuple[RunOutcome, ...]]:
    """Run a set, and one that fails in halves, so that what fails in it is found in a few runs and not in as many."""
    if len(claims) == 1:
        return ((yield from run_claim(endpoint, claims[0], running)),)
    to = running.processing(endpoint)
    try:
        outcomes = yield Transact(lambda: process_set(handler, claims, to), handler.kind)
    except StoreUnavailableError:
        raise
    except InboxError as error:
        failure = describe(error)
        events.SET_SPLIT.log(endpoint.name, len(claims), error.code, failure)
        middle = len(claims) // 2
        first = yield from _run_set(endpoint, handler, claims[:middle], running)
        return first + (yield from _run_set(endpoint, handler, claims[middle:], running))
    told = []
    for claim, outcome in zip(claims, outcomes, strict=True):
        if outcome is RunOutcome.NOT_RUN:
            told.append((yield from run_claim(endpoint, claim, running)))
        else:
            told.append(_told(endpoint, claim, outcome, running))
    return tuple(told)


def _one_by_one(
    endpoint: EndpointPlan, claims: Sequence[Claim], running: Running
) -> Flow[tuple[RunOutcome, ...]]:
    outcomes = []
    for claim in claims:
        outcomes.append((yield from run_claim(endpoint, claim, running)))
    return tuple(outcomes)


def _prepared(endpoint: EndpointPlan, claim: Claim) -> Flow[Work | Steering]:
    handlers = endpoint.handlers.matching(claim.event.type)
    if not handlers and endpoint.unhandled == "refuse":
        # Recorded by a newer release, which has a handler for it: this one must not swallow it.
        return NotYet(
            f"no handler for {claim.event.type} in this release", retry_in_seconds=_NEWER_RELEASE_SECONDS
        )
    prepared = yield from prepare(handlers, claim.event, endpoint.settings.handler_seconds_max)
    return Work(claim, handlers, prepared) if isinstance(prepared, tuple) else prepared


def fail_claim(
    endpoint: EndpointPlan, claim: Claim, error: InboxError, seconds: float, running: Running
) -> Flow[RunOutcome]:
    """Record that a run of *claim* failed after *seconds*, tell of it, and say what became of the event."""
    failure, shown = describe(error), _shown(error)
    free = _free_retry_seconds(error)
    to = running.processing(endpoint)
    again = to.retry.delay(claim.event.attempt) if free is None else free
    outcome: RunOutcome = yield from transact(
        lambda: fail(
            claim,
            failure,
            shown=shown,
            seconds=seconds,
            retry_in_seconds=again,
            costs_attempt=free is None,
            to=to,
        ),
        None,
    )
    if free is None:
        became = f"{outcome} in {again:.1f} s" if outcome is RunOutcome.RETRYING else outcome
        event = claim.event
        about = (endpoint.name, json.dumps(event.id), event.attempt)
        events.RUN_FAILED.log(*about, error.code, failure, became, "\n  ".join(failure.frames))
        running.report(endpoint.name, error.__cause__ or error)
    return _told(endpoint, claim, outcome, running, shown)


def _shown(error: InboxError) -> str:
    """Give what is kept with the event: a handler's own reason to wait, else what may be shown of the exception."""
    return kept_reason(error) if isinstance(error, HandlerNotYetError) else str(describe(error))


def _free_retry_seconds(error: InboxError) -> float | None:
    """Give when the event is due again where the run was not its fault; None where the attempt counts."""
    match error:
        case HandlerNotYetError():
            return error.retry_in_seconds
        case KeyBusyError():
            return _BUSY_RETRY_SECONDS  # somebody else holds the row, or runs an event of the same order key
        case StoreUnavailableError() if (error.sqlstate or "").startswith(_SHORTAGE_CLASS):
            return (
                _SHORTAGE_SECONDS  # a full disk still serves whoever only reads: no proof against the event
            )
        case _:
            return None


def _told(
    endpoint: EndpointPlan, claim: Claim, outcome: RunOutcome, running: Running, reason: str = _GIVEN_UP
) -> RunOutcome:
    name, event = endpoint.name, claim.event
    match outcome:
        case RunOutcome.LEASE_LOST:
            events.CLAIM_LOST.log(name, json.dumps(event.id), claim.token)
        case RunOutcome.DEAD:
            told_dead(name, event.id, reason, running)
        case RunOutcome.PROCESSED | RunOutcome.IGNORED:
            events.EVENT_RUN.log(name, json.dumps(event.id), outcome, event.attempt)
        case _:
            pass
    return outcome


def told_dead(endpoint: str, event_id: str, reason: str, running: Running) -> None:
    """Tell of an event that was committed as dead, and why, in the log and to the user's hook."""
    events.EVENT_DEAD.log(endpoint, json.dumps(event_id), reason)
    running.dead(
        endpoint, EventResult(outcome=Outcome.DEAD, event_id=event_id, state=State.DEAD, reason=reason)
    )


def _set_handler(endpoint: EndpointPlan, claims: Sequence[Claim]) -> Handler | None:
    """Give the set-based handler that all *claims* share, if there is one."""
    # Compared, not hashed: a callable object need not be hashable.
    handlers, *others = (endpoint.handlers.matching(claim.event.type) for claim in claims)
    if any(other != handlers for other in others):
        return None
    return handlers[0] if len(handlers) == 1 and handlers[0].batch else None


def _kind(handlers: Sequence[Handler]) -> Kind | None:
    return handlers[0].kind if handlers else None
