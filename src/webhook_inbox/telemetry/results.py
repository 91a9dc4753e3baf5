"""Log what a delivery did to each of its events: one record for each, at the level that it deserves."""

from __future__ import annotations

import json

from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome
from webhook_inbox.telemetry.events import (
    EVENT_CONFLICTING,
    EVENT_DEAD,
    EVENT_QUARANTINED,
    EVENT_SETTLED,
    REQUEST_FAILED,
)


def log_result(endpoint: str, result: EventResult, *, dead_is_told: bool) -> None:
    """
    Log *result*, with its reason where somebody has to look at it.

    Args:
        dead_is_told: Whether whoever ran the event has logged its death already.
    """
    event, said = EVENT_SETTLED, str(result.outcome)
    if result.conflicting:
        event = EVENT_CONFLICTING
    elif result.outcome is Outcome.QUARANTINED:
        event, said = EVENT_QUARANTINED, result.reason
    elif result.outcome is Outcome.DEAD and not dead_is_told:
        event, said = EVENT_DEAD, result.reason
    elif result.unhandled_type:
        said = f"{result.outcome}, no handler for {json.dumps(result.unhandled_type)}"
    if not event.kept:
        return
    event.log(endpoint, json.dumps(result.event_id), said, outcome=result.outcome)


def log_defect(endpoint: str, error: BaseException) -> None:
    """Log what nobody has foreseen, by its kind and where it was raised, without what it says (P-QUIET)."""
    failure = describe(error)
    REQUEST_FAILED.log(endpoint, failure, "\n  ".join(failure.frames))
