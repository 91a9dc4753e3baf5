"""See what handlers asked a person to look at, and close it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from webhook_inbox.model.instants import instant
from webhook_inbox.protocol.migrate import check_schema
from webhook_inbox.protocol.operate import Operator, operating
from webhook_inbox.protocol.status import reading
from webhook_inbox.protocol.steps import All, Commit, Plan, Rollback, Row
from webhook_inbox.sql.statements import Statements


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRecord:
    """
    Hold one review.

    Attributes:
        id: Its number.
        row: The row of its event.
        summary, details: As the handler wrote them.
        resolved_at: When somebody closed it; None while it is open.
        resolved_by, resolution: Who did, and what came of it.
    """

    id: int
    row: int
    endpoint: str
    event_id: str
    summary: str
    details: Any
    created_at: datetime
    resolved_at: datetime | None
    resolved_by: str
    resolution: str


def list_reviews(
    schema: str,
    *,
    review_id: int = 0,
    only_open: bool = True,
    endpoint: str = "",
    after: int = 0,
    limit: int = 1000,
) -> Plan[tuple[ReviewRecord, ...]]:
    """
    List reviews, oldest first.

    Args:
        review_id: Only this one; 0: any.
        endpoint: Only of this endpoint; empty: of any.
        after: The review that the page before ended with.

    Raises:
        SchemaVersionError: As ``check_schema``.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield reading(sql)
    asked = {"review_id": review_id, "open": only_open, "endpoint": endpoint, "after": after, "limit": limit}
    rows: list[Row] = yield All(sql.list_reviews, asked)
    yield Rollback()
    return tuple(_review(row) for row in rows)


def resolve_reviews(ids: Sequence[int], by: Operator, schema: str) -> Plan[frozenset[int]]:
    """
    Close the reviews of *ids* that are open; who did it is kept, with what came of it.

    Returns:
        Those that this call has closed; somebody else was first with the others, or there are none of that number.

    Raises:
        SchemaVersionError: As ``check_schema``.
    """
    yield from check_schema(schema)
    sql = Statements.of(schema)
    yield operating(sql)
    rows: list[Row] = yield All(
        sql.resolve_reviews, {"reviews": list(ids), "actor": by.name, "reason": by.reason}
    )
    yield Commit()
    return frozenset(row[0] for row in rows)


def _review(row: Row) -> ReviewRecord:
    number, event, endpoint, event_id, summary, details, created_at, resolved_at, resolved_by, resolution = (
        row
    )
    return ReviewRecord(
        id=number,
        row=event,
        endpoint=endpoint,
        event_id=event_id,
        summary=summary,
        details=json.loads(details),
        created_at=instant(created_at),
        resolved_at=None if resolved_at is None else instant(resolved_at),
        resolved_by=resolved_by,
        resolution=resolution,
    )
