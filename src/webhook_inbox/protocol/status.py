"""Count what is not settled: what waits, what failed, and what needs a person."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from webhook_inbox.model.states import State
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.steps import All, Begin, One, Plan, Rollback
from webhook_inbox.sql.statements import Statements

STATEMENT_SECONDS_MAX = 30
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """
    Count everything that is unsettled in one schema.

    Attributes:
        endpoints: Those with unsettled events, by name.
        outbox_unpublished: Messages that no relay has sent yet.
        outbox_oldest_seconds: Since the oldest of them was written; None where there is none.
        reviews_open: What handlers asked a person to look at.
    """

    endpoints: tuple[EndpointBacklog, ...]
    outbox_unpublished: int
    outbox_oldest_seconds: float | None
    reviews_open: int

    def count(self, *states: State) -> int:
        """Add up the events in *states*."""
        return sum(endpoint.count(*states) for endpoint in self.endpoints)

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
    limit = STATEMENT_SECONDS_MAX
    yield Begin(sql.begin, {"handler_ms": limit * 1000, "wait_ms": limit * 1000}, seconds_max=limit)
    rows = yield All(sql.status_backlog)
    outbox = yield One(sql.status_outbox)
    yield Rollback()
    return Backlog(
        endpoints=tuple(_by_endpoint(rows)),
        outbox_unpublished=outbox[0],
        outbox_oldest_seconds=outbox[1],
        reviews_open=outbox[2],
    )


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
