"""
Forget what is old enough: payloads first, whole days of them where nothing else keeps one, and keys much later.

    1. a day's partition of bodies, once every endpoint's ``payload_days`` are over: dropped, survivors moved first
    2. bodies of settled events, one by one, where endpoints keep them for different times
    3. settled events themselves, once their ``key_days`` are over: a redelivery is a new event from then on
    4. counters of more than a week ago

What is waiting, leased, retrying, dead or quarantined keeps its row and its bytes, and so does what a person was asked
to look at and has not (P-KEEP); so does all that belongs to an endpoint which is not named here. Each step is a short
transaction, and whatever interrupts it, the next walk goes on. Ages are the server's (P-CLOCK).

An operator's walk looks through all there is; a worker's hourly one through what has come of age since the last, see
``prune_spans``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from webhook_inbox.errors import KeyBusyError
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.prune_spans import (
    EVERYTHING,
    Due,
    Span,
    among_events,
    note_dues,
    read_dues,
    spans_of,
)
from webhook_inbox.protocol.steps import All, Begin, Commit, One, Plan, Rollback, Row
from webhook_inbox.sql.statements import Statements

BATCH_ROWS = 1000
# More than these are copied one by one, so that nobody waits for the lock that dropping a day takes.
SURVIVORS_MAX = 1000
_STEP_SECONDS_MAX = 30
_WAIT_MS = 200


@dataclass(frozen=True, slots=True)
class Retention:
    """Say how long one endpoint keeps payloads and keys, in days."""

    endpoint: str
    payload_days: float
    key_days: float

    @classmethod
    def of(cls, plan: EndpointPlan) -> Self:
        """Give what the settings of *plan* say."""
        return cls(plan.name, plan.settings.payload_days, plan.settings.key_days)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """
    Count what was forgotten, or would be.

    Attributes:
        days: Partitions of bodies that were dropped whole; their bodies are not counted.
        bodies: Payloads, with their headers.
        events: Events, with all that belongs to them.
    """

    days: tuple[str, ...] = ()
    bodies: int = 0
    events: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        """Add up."""
        return Pruned(
            days=self.days + other.days, bodies=self.bodies + other.bodies, events=self.events + other.events
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """
    Say where a walk has come to.

    Attributes:
        stage: ``days``, ``bodies``, ``events``, ``counters``, or ``done``.
        spans: What of the stage is still to be looked through; None: what has come of age since the last walk, which
            is to be asked for.
        dues: What is written down as looked through when the stage is; empty: nothing.
    """

    stage: str = "days"
    spans: tuple[Span, ...] | None = None
    dues: tuple[Due, ...] = ()

    @property
    def span(self) -> Span:
        """Give the first of the spans."""
        return (self.spans or EVERYTHING)[0]

    def behind(self, at: int, row: int) -> Position:
        """Give the place behind a body or an event within the first of the spans."""
        return replace(self, spans=(replace(self.span, at=at, row=row), *(self.spans or ())[1:]))

    def behind_span(self) -> Position:
        """Give the place behind the first of the spans."""
        return replace(self, spans=(self.spans or ())[1:])


def prune(retentions: Sequence[Retention], schema: str, *, dry_run: bool = False) -> Plan[Pruned]:
    """
    Forget everything that is old enough, of all there is.

    Args:
        retentions: One for each endpoint that anything of may be forgotten.
        dry_run: Only count; whole days are counted by their bodies.

    Raises:
        SchemaVersionError: As ``check_schema``.
        StoreError: What was forgotten before stays so.

    Promises: P-KEEP, P-CLOCK.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    done, position = Pruned(), Position(stage="bodies" if dry_run else "days", spans=EVERYTHING)
    while position.stage != "done":
        step, position = yield from prune_step(retentions, position, sql, dry_run=dry_run)
        done += step
    return done


def prune_step(
    retentions: Sequence[Retention], position: Position, sql: Statements, *, dry_run: bool = False
) -> Plan[tuple[Pruned, Position]]:
    """Forget a few, in one transaction; give how many, and where to go on."""
    if not retentions:
        return Pruned(), replace(position, stage="done")
    match position.stage:
        case "days":
            return (yield from _drop_day(retentions, position, sql))
        case "counters":
            return (yield from _counters(sql))
        case _:
            return (yield from _look_through(retentions, position, sql, dry_run=dry_run))


def _drop_day(
    retentions: Sequence[Retention], position: Position, sql: Statements
) -> Plan[tuple[Pruned, Position]]:
    """Drop one day; where an endpoint is unknown, or somebody is in the way, leave them to be forgotten one by one."""
    following = replace(position, stage="bodies")
    kept = {each.endpoint for each in retentions}
    days = max(each.payload_days for each in retentions)
    yield _pruning(sql)
    rows: list[Row] = yield All(sql.list_endpoints)
    if any(provider and name not in kept for name, provider, *_ in rows):
        yield Rollback()
        return Pruned(), following
    try:
        (dropped,) = yield One(sql.drop_day, {"days": days, "survivors_max": SURVIVORS_MAX})
    except KeyBusyError:
        yield Rollback()
        return Pruned(), following
    yield Commit()
    return (Pruned(days=(dropped,)), position) if dropped else (Pruned(), following)


def _look_through(
    retentions: Sequence[Retention], position: Position, sql: Statements, *, dry_run: bool
) -> Plan[tuple[Pruned, Position]]:
    if position.spans is None:
        return (yield from _ask(retentions, position, sql))
    if not position.spans:
        return (yield from _end(position, sql, dry_run=dry_run))
    step = _bodies if position.stage == "bodies" else _events
    return (yield from step(retentions, position, sql, dry_run=dry_run))


def _ask(
    retentions: Sequence[Retention], position: Position, sql: Statements
) -> Plan[tuple[Pruned, Position]]:
    endpoints = [each.endpoint for each in retentions]
    yield _pruning(sql)
    dues = yield from read_dues(endpoints, _days(retentions, position.stage), position.stage, sql)
    spans = spans_of(dues)
    if position.stage == "events":
        spans = yield from among_events(spans, sql)
    yield Commit()
    return Pruned(), replace(position, spans=spans, dues=dues)


def _end(position: Position, sql: Statements, *, dry_run: bool) -> Plan[tuple[Pruned, Position]]:
    following = {"bodies": "events", "events": "done" if dry_run else "counters"}[position.stage]
    if not position.dues:
        return Pruned(), Position(stage=following, spans=EVERYTHING)
    yield _pruning(sql)
    yield from note_dues(position.dues, position.stage, sql)
    yield Commit()
    return Pruned(), Position(stage=following)


def _bodies(
    retentions: Sequence[Retention], position: Position, sql: Statements, *, dry_run: bool
) -> Plan[tuple[Pruned, Position]]:
    params = {
        **_policy(retentions, position.stage, dry_run=dry_run),
        "after_at": position.span.at,
        "after_row": position.span.row,
        "until": position.span.until,
    }
    yield _pruning(sql)
    number, looked, at, row = yield One(sql.prune_bodies, params)
    yield Commit()
    full = looked == BATCH_ROWS
    return Pruned(bodies=number), position.behind(at, row) if full else position.behind_span()


def _events(
    retentions: Sequence[Retention], position: Position, sql: Statements, *, dry_run: bool
) -> Plan[tuple[Pruned, Position]]:
    params = {
        **_policy(retentions, position.stage, dry_run=dry_run),
        "after_row": position.span.row,
        "until": position.span.until,
    }
    yield _pruning(sql)
    number, old, row = yield One(sql.prune_events, params)
    yield Commit()
    # Rows follow the order of arrival: where a whole batch is too young, so is everything behind it.
    return Pruned(events=number), position.behind(0, row) if old else position.behind_span()


def _counters(sql: Statements) -> Plan[tuple[Pruned, Position]]:
    yield _pruning(sql)
    yield One(sql.forget_counters)
    yield Commit()
    return Pruned(), Position(stage="done")


def _policy(retentions: Sequence[Retention], stage: str, *, dry_run: bool) -> dict[str, object]:
    endpoints = [each.endpoint for each in retentions]
    return {
        "endpoints": endpoints,
        "days": _days(retentions, stage),
        "limit": BATCH_ROWS,
        "dry_run": dry_run,
    }


def _days(retentions: Sequence[Retention], stage: str) -> list[float]:
    return [each.payload_days if stage == "bodies" else each.key_days for each in retentions]


def _pruning(sql: Statements) -> Begin:
    """Open a transaction that waits for nobody."""
    limit = _STEP_SECONDS_MAX
    return Begin(sql.begin, {"handler_ms": limit * 1000, "wait_ms": _WAIT_MS}, seconds_max=limit)
