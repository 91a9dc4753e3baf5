"""Name the log events of reconciling; see ``telemetry/events.py``."""

from __future__ import annotations

import logging

from webhook_inbox.telemetry.log_event import LogEvent

RECONCILED = LogEvent(
    name="reconciled",
    level=logging.INFO,
    text=(
        "endpoint %(endpoint)s: the provider lists %(seen)s events; "
        "%(recovered)s of them had never arrived, and are here now"
    ),
    meaning="A worker has asked the provider. Where events keep being recovered, look why their deliveries fail.",
)
RECONCILE_FAILED = LogEvent(
    name="reconcile_failed",
    level=logging.WARNING,
    text="endpoint %(endpoint)s: asking the provider what never arrived: %(error)s; trying again",
    meaning="Nothing was lost by it; the next run asks for the same time once more.",
)
RECONCILE_INCOMPLETE = LogEvent(
    name="reconcile_incomplete",
    level=logging.WARNING,
    text=(
        "endpoint %(endpoint)s: %(recovered)s events recovered, %(failed)s failed, "
        "%(out_of_reach)s out of reach: %(error)s"
    ),
    meaning=(
        "Not all that the provider lists is here. What failed is tried again by the next run; what is out of reach is "
        "kept by the provider no more. ``webhook-inbox reconcile`` names the events."
    ),
)

RECONCILE_EVENTS = (RECONCILE_FAILED, RECONCILE_INCOMPLETE, RECONCILED)
