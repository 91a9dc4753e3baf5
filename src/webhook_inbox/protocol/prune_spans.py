"""
Remember how far forgetting has come, so that a walk costs what has come of age since the last, however much is kept.

    keeps 7 days     ────────────────────────────|====|─────── now
    keeps 90 days    ────|====|─────────────────────────────── now
                          looked through; nothing between is, and nothing before

What could not go when it came of age (it was dead then, or a person was to look at it; its effect came late) is found
when all there is is looked through, once in ``COMPLETE_HOURS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from webhook_inbox.protocol.steps import All, One, Plan
from webhook_inbox.sql.statements import Statements

COMPLETE_HOURS = 24
_OVERLAP_HOURS = 1


@dataclass(frozen=True, slots=True)
class Due:
    """
    Say what of one endpoint is to be looked through.

    Attributes:
        endpoint: Its name.
        since, until: When it was received, in microseconds since 1970; from 0 on: all there is.
    """

    endpoint: str
    since: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """
    Say what is still to be looked through, of whatever endpoint.

    Attributes:
        at, row: Behind which body, received then (microseconds since 1970) as that row, or behind which event.
        until: Received before; None: as young as any may go.
    """

    at: int = 0
    row: int = 0
    until: int | None = None


EVERYTHING = (Span(),)


def spans_of(dues: Sequence[Due]) -> tuple[Span, ...]:
    """Give the fewest spans in which all of *dues* lie, oldest first."""
    found: list[Span] = []
    for due in sorted(dues, key=lambda each: each.since):
        end = found[-1].until if found else None
        if due.since >= due.until:
            continue
        if end is not None and due.since <= end:
            found[-1] = replace(found[-1], until=max(end, due.until))
        else:
            found.append(Span(at=due.since, until=due.until))
    return tuple(found)


def read_dues(
    endpoints: Sequence[str], days: Sequence[float], stage: str, sql: Statements
) -> Plan[tuple[Due, ...]]:
    """
    Give what is to be looked through, in an open transaction.

    Args:
        endpoints, days: Of equal length: how many days each keeps it.
        stage: ``bodies`` or ``events``.
    """
    rows = yield All(
        sql.list_prunes,
        {
            "endpoints": list(endpoints),
            "days": list(days),
            "stage": stage,
            "complete_hours": COMPLETE_HOURS,
            "overlap_hours": _OVERLAP_HOURS,
        },
    )
    return tuple(Due(*row) for row in rows)


def among_events(spans: Sequence[Span], sql: Statements) -> Plan[tuple[Span, ...]]:
    """Give *spans* with the rows behind which they begin, in an open transaction; events lie in order of arrival."""
    found = []
    for span in spans:
        row = 0
        if span.at:
            _, row = yield One(sql.find_row_at, {"at": span.at, "ago": False})
        found.append(replace(span, row=max(0, row - 1)))
    return tuple(found)


def note_dues(dues: Sequence[Due], stage: str, sql: Statements) -> Plan[None]:
    """Write down that all of *dues* was looked through, in an open transaction."""
    yield All(
        sql.note_prunes,
        {
            "endpoints": [due.endpoint for due in dues],
            "untils": [due.until for due in dues],
            "complete": [due.since == 0 for due in dues],
            "stage": stage,
        },
    )
