"""
Record events for the worker: group commit.

    BEGIN
      record_events     one multi-row insert, rows sorted by key; what does not come back is a duplicate (P-DUP)
      find_event        for each duplicate: what became of the first copy (P-STATE)
    COMMIT              every caller is answered after it (P-ACK)

A batch is an accident of timing, so nothing in it may depend on its mates: a key that is in flight elsewhere,
or a row that cannot be stored, makes the batch fall apart into single rows, each of which meets its own fate
(P-FLOW).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from webhook_inbox.errors import InboxError
from webhook_inbox.model.arrival import Arrival
from webhook_inbox.model.claim import Claim, Token, WorkerId
from webhook_inbox.model.event import EventKey
from webhook_inbox.model.instants import instant
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol.lease import ClaimsUnknownError
from webhook_inbox.protocol.record import duplicate_of
from webhook_inbox.protocol.recording import Recording, record_params, settled_result
from webhook_inbox.protocol.steps import All, Commit, One, Plan, Rollback, Row, Together

# A batch waits this long for a key that is in flight elsewhere; then each row waits for itself.
BATCH_WAIT_SECONDS = 0.2


def enqueue(
    arrivals: Sequence[Arrival], to: Recording, *, revive: frozenset[str] = frozenset()
) -> Plan[tuple[EventResult, ...]]:
    """
    Record *arrivals* in one transaction, each once.

    Args:
        arrivals: At least one; a key may occur twice, then the second is a duplicate of the first.
        revive: Endpoints whose dead events run again when their provider sends them again.

    Returns:
        One result per arrival, in their order, all committed.

    Raises:
        KeyBusyError: One key is in flight elsewhere for longer than ``to.wait_seconds``; nothing is stored.
        StoreError: Nothing is stored, or the commit's fate is unknown.

    Promises: P-ACK, P-DUP, P-STATE.
    """
    first_of = {arrival.key: arrival for arrival in reversed(arrivals)}
    firsts = [arrival for arrival in arrivals if first_of[arrival.key] is arrival]  # in order of arrival
    rows: list[Row]
    _, rows, _ = yield Together((to.begin, All(to.sql.record_events, record_columns(firsts, to)), Commit()))
    new = {_key(row) for row in rows}
    known = [arrival for arrival in arrivals if not (arrival.key in new and first_of[arrival.key] is arrival)]
    duplicates = iter((yield from _duplicates(known, to, revive)) if known else ())
    return tuple(
        _recorded(arrival) if arrival.key in new and first_of[arrival.key] is arrival else next(duplicates)
        for arrival in arrivals
    )


def is_known(arrival: Arrival, to: Recording) -> Plan[bool]:
    """Take a plain look for the first copy: a hint that saves work, never a verdict (P-DUP)."""
    yield to.begin
    first = yield One(to.sql.find_event, arrival.key.columns)
    yield Rollback()
    return first is not None


def record_leased(
    arrival: Arrival, worker_id: WorkerId, to: Recording, *, revive: bool = False
) -> Plan[Claim | EventResult]:
    """
    Record one event born claimed by *worker_id*: attempt 1 counted, token 1, committed before any work (P-COUNT).

    Returns:
        The claim, to be processed at once; or what became of the first copy; or that the event waits for a worker,
        since the lease of *worker_id* has ended, or the endpoint is paused or limited.

    Raises:
        ClaimsUnknownError: It may be recorded and claimed; it comes back when *worker_id* is ended.
        StoreError: Nothing is stored.

    Promises: P-ACK, P-DUP, P-COUNT, P-STATE.
    """
    yield to.begin
    params = {**record_params(arrival, effect=False), "wait_ms": to.wait_ms, "worker_id": worker_id}
    recorded = yield One(to.sql.record_leased, params)
    if recorded is None:
        result = yield from _duplicate(arrival, to, frozenset({arrival.key.endpoint} if revive else ()))
        yield Commit()
        return result
    try:
        yield Commit()
    except InboxError as error:
        raise ClaimsUnknownError(str(error)) from error
    if not recorded[2]:
        return _recorded(arrival)
    return Claim(
        id=recorded[0],
        token=Token(1),
        worker_id=worker_id,
        event=arrival.event(received_at=instant(recorded[1]), attempt=1),
        crashes=0,
        solitary=False,
        order_key=None,
    )


def _duplicates(
    arrivals: Sequence[Arrival], to: Recording, revive: frozenset[str]
) -> Plan[list[EventResult]]:
    yield to.begin
    results = []
    for arrival in arrivals:
        results.append((yield from _duplicate(arrival, to, revive)))
    yield Commit()
    return results


def _duplicate(arrival: Arrival, to: Recording, revive: frozenset[str]) -> Plan[EventResult]:
    result = yield from duplicate_of(arrival, to)
    if result.state is not State.DEAD or arrival.key.endpoint not in revive:
        return result
    revived = yield One(to.sql.revive_dead, arrival.key.columns)
    if revived is None:
        return result
    return replace(result, outcome=Outcome.QUEUED, state=State.RETRYING, reason="revived")


def _recorded(arrival: Arrival) -> EventResult:
    return settled_result(arrival, arrival.settled or State.WAITING)


def record_columns(arrivals: Sequence[Arrival], to: Recording) -> dict[str, object]:
    """Give the parameters of ``record_events``; no two of *arrivals* have one key."""
    return {
        "wait_ms": to.wait_ms,
        "provider": [arrival.key.provider for arrival in arrivals],
        "endpoint": [arrival.key.endpoint for arrival in arrivals],
        "account": [arrival.key.account for arrival in arrivals],
        "environment": [arrival.key.environment for arrival in arrivals],
        "event_id": [arrival.key.event_id for arrival in arrivals],
        "event_type": [arrival.event_type for arrival in arrivals],
        "state": [str(arrival.settled or State.WAITING) for arrival in arrivals],
        "origin": [str(arrival.origin) for arrival in arrivals],
        "created_at": [arrival.created_at for arrival in arrivals],
        "secret_label": [arrival.secret_label for arrival in arrivals],
        "body_sha256": [arrival.digest for arrival in arrivals],
        "body_bytes": [len(arrival.body) for arrival in arrivals],
        "kept": [arrival.kept for arrival in arrivals],
        "last_error": [arrival.reason or None for arrival in arrivals],
        "order_key": [arrival.order_key for arrival in arrivals],
        "body": [arrival.body for arrival in arrivals],
        "headers": [arrival.headers_json for arrival in arrivals],
    }


def _key(row: Row) -> EventKey:
    return EventKey(provider=row[0], endpoint=row[1], account=row[2], environment=row[3], event_id=row[4])
