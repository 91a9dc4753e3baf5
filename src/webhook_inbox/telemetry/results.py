"""Log what a delivery did to each of its events: one record for each, at the level that it deserves."""

from __future__ import annotations

import json

from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Outcome
from webhook_inbox.telemetry.events import EVENT_DEAD, EVENT_QUARANTINED, EVENT_SETTLED


def log_result(endpoint: str, result: EventResult, *, dead_is_told: bool) -> None:
    """
    Log *result*, with its reason where somebody has to look at it.

    Args:
        dead_is_told: Whether whoever ran the event has logged its death already.
    """
    event, said = EVENT_SETTLED, str(result.outcome)
    if result.outcome is Outcome.QUARANTINED:
        event, said = EVENT_QUARANTINED, result.reason
    elif result.outcome is Outcome.DEAD and not dead_is_told:
        event, said = EVENT_DEAD, result.reason
    if not event.kept:
        return
    event.log(
        endpoint,
        json.dumps(result.event_id),
        said,
        endpoint=endpoint,
        event_id=result.event_id,
        outcome=result.outcome,
    )
