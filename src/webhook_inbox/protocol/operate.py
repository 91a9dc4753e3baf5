"""
Do what an operator says with recorded events: run them again, or never.

    retry     dead, retrying, waiting               ──► retrying, due now
    replay    ignored (processed, if it is meant)   ──► waiting, due now
    discard   dead, quarantined, retrying, waiting  ──► ignored

Each batch is one transaction: the rows are locked as a worker locks the one it runs, their states are looked at under
that lock, and who did it stands in ``audit`` when it commits. So of two operators at once, or of an operator and a
worker, one comes first and the other finds another state and is told. Whatever was changed is meant no more by the same
filter, so a run that is interrupted goes on where it is started again.

A delivery in which no event was found is never run: it stands under the digest of its bytes, so whatever is in it would
have its effect once more when it comes under its own id. It is read again, see ``reread``.

A bounded rate is no waiting: each event is due that much later than the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.event_record import EventRecord
from webhook_inbox.model.states import Origin, State
from webhook_inbox.protocol.look import filter_params, records_of
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.status import STATEMENT_SECONDS_MAX
from webhook_inbox.protocol.steps import All, Begin, Commit, Plan, Rollback, Row
from webhook_inbox.sql.statements import Statements

BATCH_EVENTS = 500
# What can be done with an event that cannot be run as it was said.
_INSTEAD = {
    State.WAITING: "events retry has it run now",
    State.RETRYING: "events retry has it run now",
    State.DEAD: "events retry runs it again",
    State.IGNORED: "events replay runs it",
    State.QUARANTINED: "events replay reads it again",
    State.PROCESSED: "a second run has its effect once more. If that is meant: events replay --force --reason",
}
_WAIT_MS = 5_000


@dataclass(frozen=True, slots=True)
class Operator:
    """Name who acts, and why; both are kept."""

    name: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """
    Say what an operator may do, and with which events.

    Attributes:
        name: As in the audit.
        states: In one of which an event must be.
        to: In which it is then; one that is waiting and is to run stays waiting.
        runs: Whether it is to run, for which its bytes must be kept.
        origin: What handlers are told of how it came; None: as before.
        rereads: Whether quarantined ones are read again, which is another plan's business.
    """

    name: str
    states: tuple[State, ...]
    to: State
    runs: bool
    origin: Origin | None = None
    rereads: bool = False

    def told(self, by: Operator) -> str:
        """Give what is told of an event from now on; empty: what was."""
        return "" if self.runs else ": ".join(filter(None, (f"discarded by {by.name}", by.reason)))


RETRY = Action(name="retry", states=(State.DEAD, State.RETRYING, State.WAITING), to=State.RETRYING, runs=True)
REPLAY = Action(
    name="replay", states=(State.IGNORED,), to=State.WAITING, runs=True, origin=Origin.REPLAY, rereads=True
)
REPLAY_PROCESSED = replace(REPLAY, states=(State.IGNORED, State.PROCESSED))
DISCARD = Action(
    name="discard",
    states=(State.DEAD, State.QUARANTINED, State.RETRYING, State.WAITING),
    to=State.IGNORED,
    runs=False,
)


@dataclass(frozen=True, slots=True)
class Left:
    """Say why an event that was meant was left as it is."""

    event: EventRecord
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Operated:
    """
    Say what came of an action.

    Attributes:
        changed: How many events.
        left: Those that were meant and are as they were.
    """

    changed: int = 0
    left: tuple[Left, ...] = ()


def operate(
    action: Action,
    meant: EventFilter,
    by: Operator,
    schema: str,
    *,
    every_seconds: float = 0.0,
    progress: Callable[[int], None] = lambda _: None,
) -> Plan[Operated]:
    """
    Do *action* with each event that *meant* means, oldest first, ``BATCH_EVENTS`` in a transaction.

    Args:
        meant: An event that it means and that is in none of the action's states is left, and told of.
        every_seconds: How much later than the one before each is due; 0: all at once.
        progress: Told after each commit how many were changed so far.

    Raises:
        StoreError: Batches that were committed stay so; the same call goes on.

    Concurrency: Any number of operators and workers.
    Promises: P-FENCE, P-KEEP.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    # Whoever means dead ones does not mean those that somebody else has just had run again.
    states = tuple(each for each in action.states if each in (meant.states or action.states))
    action = replace(action, states=states)
    yield operating(sql)
    params = yield from filter_params(meant, sql)
    changed, left = 0, list[Left]()
    while rows := (yield All(sql.list_oldest_events, {**params, "limit": BATCH_EVENTS})):
        events = records_of(rows)
        done = yield from change(
            action,
            [each for each in events if each.identified or not action.runs],
            by,
            sql,
            first_due_seconds=changed * every_seconds,
            every_seconds=every_seconds,
            last_error=action.told(by),
        )
        left += yield from _left(action, [each.row for each in events if each.row not in done], sql)
        yield Commit()
        changed += len(done)
        progress(changed)
        params["first_row"] = events[-1].row + 1
        yield operating(sql)
    yield Rollback()
    return Operated(changed=changed, left=tuple(left))


def operating(sql: Statements) -> Begin:
    """Open a transaction of an operator's: it waits for a row that somebody is changing, but not for long."""
    limit = STATEMENT_SECONDS_MAX
    return Begin(sql.begin, {"handler_ms": limit * 1000, "wait_ms": _WAIT_MS}, seconds_max=limit)


def change(
    action: Action,
    events: Sequence[EventRecord],
    by: Operator,
    sql: Statements,
    *,
    first_due_seconds: float = 0.0,
    every_seconds: float = 0.0,
    last_error: str = "",
) -> Plan[frozenset[int]]:
    """
    Do *action* with *events* in the open transaction.

    Args:
        first_due_seconds: When the first is due, from now on.
        every_seconds: How much later than the one before each is due.
        last_error: What is told of the events from now on; empty: what was.

    Returns:
        The rows that are changed.
    """
    locked: list[Row] = yield All(
        sql.lock_events,
        {
            "rows": [each.row for each in events],
            "from_states": [str(state) for state in action.states],
        },
    )
    rows: list[Row] = yield All(
        sql.operate_events,
        {
            "rows": [row[0] for row in locked],
            "to_state": str(action.to),
            "with_body": action.runs,
            "origin": str(action.origin or ""),
            "last_error": last_error,
            "first_due_seconds": first_due_seconds,
            "every_seconds": every_seconds,
            "actor": by.name,
            "action": action.name,
            "reason": by.reason,
        },
    )
    return frozenset(row[0] for row in rows)


def _left(action: Action, rows: Sequence[int], sql: Statements) -> Plan[Iterator[Left]]:
    """Look once more at what was not changed: somebody else may have been first."""
    if not rows:
        return iter(())
    params = yield from filter_params(EventFilter(rows=tuple(rows)), sql)
    found = yield All(sql.list_oldest_events, {**params, "limit": len(rows)})
    return iter([Left(each, why_left(action, each)) for each in records_of(found)])


def held_by(event: EventRecord) -> str:
    """Say who runs a leased event."""
    return f"it is being run by {event.holder or 'a worker that is gone'}; see what comes of it"


def why_left(action: Action, event: EventRecord) -> str:
    """Say why *action* was not done with *event*, and what can be."""
    if event.state is State.LEASED:
        return held_by(event)
    if action.runs and not event.identified:
        return "no event was found in it, so there is nothing to run; events replay reads it again by its id"
    if not action.runs:
        return f"it is {event.state}; there is nothing to discard"
    if event.state in action.states:
        return "its bytes are not kept any more, so there is nothing to run"
    return f"it is {event.state}; {_INSTEAD[event.state]}"
