"""Name an event that an older receiver has processed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessedBefore:
    """
    Name one event as its source does.

    Attributes:
        event_id: The provider's; see ``Identity``.
        event_type: Literally as sent; empty where it is not known.
        account, environment: Parts of its key; empty where the source gives none.
        received_at: When the older receiver had it, aware; None: not known.
    """

    event_id: str
    event_type: str = ""
    account: str = ""
    environment: str = ""
    received_at: datetime | None = None
