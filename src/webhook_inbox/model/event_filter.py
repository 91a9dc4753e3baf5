"""Say which events an operator means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from webhook_inbox.model.states import State


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """
    Hold what is asked of an event; all of it must be true of it, and what is empty asks nothing.

    Attributes:
        rows: Row ids; any of them.
        states: Any of them.
        endpoint: Its name.
        event_type: A type, or ``invoice.*`` for every type that begins so.
        event_id: The provider's.
        error: A part of what the last run met, in any letter case.
        since: Received then or later: a time, or how long ago on the server's clock.
        until: ... and before then.
        kept: Only those whose bytes are kept.
        identified: Only those in which an event was found.
    """

    rows: tuple[int, ...] = ()
    states: tuple[State, ...] = ()
    endpoint: str = ""
    event_type: str = ""
    event_id: str = ""
    error: str = ""
    since: datetime | timedelta | None = None
    until: datetime | timedelta | None = None
    kept: bool = False
    identified: bool = False
