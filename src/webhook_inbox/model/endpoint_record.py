"""Say what the database knows of an endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from webhook_inbox.model.instants import instant
from webhook_inbox.model.limit import Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRecord:
    """
    Hold what the database knows of one endpoint.

    Attributes:
        provider: Of the events that came to it; empty where none has.
        paused_at: Since when its events are not claimed; None where they are.
        paused_by: Who paused it.
        limit: What all workers together keep to.
        limited_at: Since when; None where it is not limited.
        limited_by: Who limited it.
    """

    name: str
    provider: str
    paused_at: datetime | None = None
    paused_by: str = ""
    limit: Limit = field(default_factory=Limit)
    limited_at: datetime | None = None
    limited_by: str = ""

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Make one of a row of ``list_endpoints``."""
        name, provider, paused_at, paused_by, limited_at, limited_by, *limit = row
        concurrency, rate_events, rate_seconds = limit
        return cls(
            name=name,
            provider=provider,
            paused_at=None if paused_at is None else instant(paused_at),
            paused_by=paused_by or "",
            limit=Limit(concurrency=concurrency, rate_events=rate_events, rate_seconds=rate_seconds),
            limited_at=None if limited_at is None else instant(limited_at),
            limited_by=limited_by or "",
        )
