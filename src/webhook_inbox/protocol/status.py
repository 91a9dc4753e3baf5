"""Count what is not settled: what waits, what failed, and what needs a person."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from webhook_inbox.model.count import Count
from webhook_inbox.model.endpoint_record import EndpointRecord
from webhook_inbox.model.message import SendState
from webhook_inbox.model.reconciled import WalkRecord
from webhook_inbox.model.states import Outcome, State
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.steps import All, Begin, One, Plan, Rollback, Row
from webhook_inbox.sql.statements import Statements

STATEMENT_SECONDS_MAX = 30
# A type that is misspelt in ``on(...)`` shows among the latest events; counting all would not end.
LATEST_EVENTS = 10_000
_UNHANDLED_TYPES_MAX = 10
UNPROCESSED = (State.WAITING, State.LEASED, State.RETRYING)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointBacklog:
    """
    Count the unsettled events of one endpoint.

    Attributes:
        endpoint: Its name.
        counts: By state; a state without events is left out.
        oldest_seconds: Since the oldest unprocessed event was received, on the server's clock; None where none is.
    """

    endpoint: str
    counts: dict[State, int]
    oldest_seconds: float | None

    def count(self, *states: State) -> int:
        """Add up the events in *states*."""
        return sum(self.counts.get(state, 0) for state in states)


@dataclass(frozen=True, slots=True)
class Unhandled:
    """Count the events of one type, at one endpoint, that were ignored because no handler is registered for it."""

    endpoint: str
    event_type: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """
    Count everything that is unsettled in one schema.

    Attributes:
        endpoints: Those with unsettled events, by name.
        outbox_unpublished: Messages that no relay has sent yet.
        outbox_oldest_seconds: Since the oldest of them was written; None where there is none.
        outbox_counts: By state: those that are routed and waiting, retrying, dead, unrouted; one counts at each of its
            destinations.
        reviews_open: What handlers asked a person to look at.
        conflicts: Other bodies that came under a known id, which are kept as evidence.
        unhandled: What was ignored for want of a handler, of the ``LATEST_EVENTS``: the ten types that are most.
        paused: The endpoints whose events are not run, by name.
        limited: Those of whose events all workers together run only so many, by name.
        reconciles: What came of asking providers what never arrived, the latest time of each list.
        last_hour: What has left no row in the last hour, the most first; see ``protocol/counts.py``.
    """

    endpoints: tuple[EndpointBacklog, ...]
    outbox_unpublished: int
    outbox_oldest_seconds: float | None
    outbox_counts: dict[SendState, int]
    reviews_open: int
    conflicts: int
    unhandled: tuple[Unhandled, ...]
    paused: tuple[EndpointRecord, ...]
    limited: tuple[EndpointRecord, ...]
    reconciles: tuple[WalkRecord, ...]
    last_hour: tuple[Count, ...]

    def count(self, *states: State) -> int:
        """Add up the events in *states*."""
        return sum(endpoint.count(*states) for endpoint in self.endpoints)

    def hourly(self, *outcomes: Outcome) -> int:
        """Add up what came to *outcomes* in the last hour."""
        return sum(count.number for count in self.last_hour if count.outcome in outcomes)

    @property
    def unprocessed(self) -> int:
        """Count the events that wait for their effect."""
        return self.count(*UNPROCESSED)

    @property
    def oldest_seconds(self) -> float | None:
        """Give the age of the oldest unprocessed event; None where there is none."""
        return max(
            (each.oldest_seconds for each in self.endpoints if each.oldest_seconds is not None), default=None
        )


def read_backlog(schema: str) -> Plan[Backlog]:
    """
    Read the backlog of *schema*; changes nothing.

    The cost grows with what is unsettled, not with what is processed; it is bounded by ``STATEMENT_SECONDS_MAX``.

    Raises:
        SchemaVersionError: As ``check_schema``.
        StoreUnavailableError: Counting took too long.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield reading(sql)
    rows = yield All(sql.status_backlog)
    outbox = yield One(sql.status_outbox)
    dead, unrouted = yield One(sql.stuck_messages)
    endpoints = [EndpointRecord.of(row) for row in (yield All(sql.list_endpoints))]
    unhandled = yield All(sql.status_unhandled, {"latest": LATEST_EVENTS, "limit": _UNHANDLED_TYPES_MAX})
    reconciles: list[Row] = yield All(sql.list_reconciles)
    counted = yield All(sql.status_counters)
    yield Rollback()
    return Backlog(
        endpoints=tuple(_by_endpoint(rows)),
        outbox_unpublished=outbox[0],
        outbox_oldest_seconds=outbox[1],
        outbox_counts={
            SendState.WAITING: outbox[2],
            SendState.RETRYING: outbox[3],
            SendState.DEAD: dead,
            SendState.UNROUTED: unrouted,
        },
        reviews_open=outbox[4],
        conflicts=outbox[5],
        unhandled=tuple(Unhandled(*row) for row in unhandled),
        paused=tuple(each for each in endpoints if each.paused_at is not None),
        limited=tuple(each for each in endpoints if each.limit.bounds),
        reconciles=tuple(map(WalkRecord.of, reconciles)),
        last_hour=tuple(Count(*row) for row in counted),
    )


def read_endpoints(sql: Statements) -> Plan[tuple[EndpointBacklog, ...]]:
    """Count the unsettled events of each endpoint that has any; changes nothing, and costs as ``read_backlog``."""
    yield reading(sql)
    rows: list[Row] = yield All(sql.status_backlog)
    yield Rollback()
    return tuple(_by_endpoint(rows))


def reading(sql: Statements) -> Begin:
    """Open a transaction that only reads, each statement of it within ``STATEMENT_SECONDS_MAX``."""
    limit = STATEMENT_SECONDS_MAX
    return Begin(sql.begin, {"handler_ms": limit * 1000, "wait_ms": limit * 1000}, seconds_max=limit)


def _by_endpoint(rows: Iterable[tuple[Any, ...]]) -> Iterable[EndpointBacklog]:
    """Gather rows of (endpoint, state, count, seconds), which come sorted."""
    counts: dict[str, dict[State, int]] = {}
    ages: dict[str, list[float]] = {}
    for endpoint, state, count, seconds in rows:
        counts.setdefault(endpoint, {})[State(state)] = count
        ages.setdefault(endpoint, []).extend([seconds] if State(state) in UNPROCESSED else [])
    for endpoint, states in counts.items():
        yield EndpointBacklog(
            endpoint=endpoint, counts=states, oldest_seconds=max(ages[endpoint], default=None)
        )
