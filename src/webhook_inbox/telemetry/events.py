"""Name every log event once: its level, its text, and what an operator does about it."""

from __future__ import annotations

import logging

from webhook_inbox.telemetry.log_event import LogEvent

REQUEST_REFUSED = LogEvent(
    name="request_refused",
    level=logging.INFO,
    text="endpoint %(endpoint)s refused a request: %(reason)s",
    meaning=(
        "Headers, encoding, framing or the body's speed were outside the limits; nothing was stored. "
        "From a real provider: raise the limit that the reason names."
    ),
)
DELIVERY_TOO_LARGE = LogEvent(
    name="delivery_too_large",
    level=logging.WARNING,
    text=(
        "endpoint %(endpoint)s refused a body of %(body_bytes)s bytes, over its %(body_bytes_max)s "
        "(setting body_bytes_max); %(delivery_id)s"
    ),
    meaning=(
        "A body over the endpoint's limit; nothing was stored. If your provider sent it, raise ``body_bytes_max`` "
        "and have the delivery sent again, by the id in the line."
    ),
)
BODY_CONSUMED = LogEvent(
    name="body_consumed",
    level=logging.ERROR,
    text="endpoint %(endpoint)s: %(error)s",
    meaning=(
        "A middleware or the framework has read the request's body before the inbox; the sender heard 503. "
        "Mount the inbox outside of that middleware."
    ),
)
REQUEST_FAILED = LogEvent(
    name="request_failed",
    level=logging.ERROR,
    text="endpoint %(endpoint)s: unexpected %(error)s\n  %(frames)s",
    meaning="A defect, of ours or of code that the user gave us; the sender heard 503. Report the frames.",
)
ANSWER_UNSENT = LogEvent(
    name="answer_unsent",
    level=logging.ERROR,
    text="endpoint %(endpoint)s: the answer could not be sent: %(error)s\n  %(frames)s",
    meaning="The HTTP server refused the answer; the event is settled, and the provider's resend hears of it.",
)

BODY_SPLIT = LogEvent(
    name="body_split",
    level=logging.WARNING,
    text="endpoint %(endpoint)s: the %(events)s events of one body go one by one: %(code)s: %(error)s",
    meaning=(
        "A handler took the transaction of the whole body with it; the event it failed for is set aside next, with "
        "a line of its own."
    ),
)
SET_SPLIT = LogEvent(
    name="set_split",
    level=logging.WARNING,
    text="endpoint %(endpoint)s: a set of %(events)s events goes in halves: %(code)s: %(error)s",
    meaning=(
        "A set-based handler failed for the whole list; it runs again in halves, down to the event it fails for. Where "
        "it fails for none of them alone, it cannot take several: does it say which event a message belongs to?"
    ),
)
DELIVERY_REJECTED = LogEvent(
    name="delivery_rejected",
    level=logging.INFO,
    text="endpoint %(endpoint)s refused a delivery: %(reason)s",
    meaning=(
        "Not believed: no valid signature; nothing was stored. From your provider: compare the endpoint's secret, and "
        "look for a proxy that changes bodies."
    ),
)
EVENT_IN_FLIGHT = LogEvent(
    name="event_in_flight",
    level=logging.WARNING,
    text="%(where)s: the first copy is still in flight after %(seconds)ss",
    meaning=(
        "Another copy of the event was being handled longer than ``duplicate_wait_seconds``; the sender heard 503 and "
        "sends again."
    ),
)
EVENT_SET_ASIDE = LogEvent(
    name="event_set_aside",
    level=logging.ERROR,
    text="endpoint %(endpoint)s: event %(event_id)s waits: %(reason)s",
    meaning=(
        "The handler failed for one event of a body; it is recorded as waiting and has had no effect, the others of "
        "the body are settled. The sender heard 200 and does not send it again."
    ),
)
EVENT_SETTLED = LogEvent(
    name="event_settled",
    level=logging.INFO,
    text="endpoint %(endpoint)s: event %(event_id)s: %(became)s",
    meaning="What one delivery did to one event: the attribute ``outcome`` is ``processed``, ``duplicate`` or another.",
)
TYPE_REFUSED = LogEvent(
    name="type_refused",
    level=logging.WARNING,
    text="endpoint %(endpoint)s refused type %(event_type)s: no handler",
    meaning='No handler for this type, and the endpoint says ``unhandled="refuse"``; the sender heard 503.',
)
NOT_YET = LogEvent(
    name="not_yet",
    level=logging.INFO,
    text="%(where)s: the handler asked to come again in %(retry_in_seconds)ss",
    meaning="The handler raised ``NotYet``: rolled back, 503 with ``Retry-After``.",
)
HANDLER_FAILED = LogEvent(
    name="handler_failed",
    level=logging.ERROR,
    text="%(where)s: %(code)s: %(error)s\n  %(frames)s",
    meaning="The handler raised: rolled back, 500; the redelivery is the retry. ``on_error`` has the exception.",
)
DELIVERY_FAILED = LogEvent(
    name="delivery_failed",
    level=logging.ERROR,
    text="%(where)s: %(code)s: %(error)s",
    meaning="The database or the set-up did not serve the delivery; the code says which. The sender heard 5xx.",
)
HOOK_FAILED = LogEvent(
    name="hook_failed",
    level=logging.ERROR,
    text="endpoint %(endpoint)s: a hook failed: %(error)s",
    meaning="A function given to ``on_error`` or ``on_dead`` raised; the delivery's answer is not touched by it.",
)

RUN_FAILED = LogEvent(
    name="run_failed",
    level=logging.ERROR,
    text=(
        "endpoint %(endpoint)s, event %(event_id)s, attempt %(attempt)s: %(code)s: %(error)s; it is %(became)s\n"
        "  %(frames)s"
    ),
    meaning=(
        "A handler failed on a recorded event; its writes are rolled back, the attempt is in ``attempts``. The text "
        "says when it runs again."
    ),
)
EVENT_RUN = LogEvent(
    name="event_run",
    level=logging.INFO,
    text="endpoint %(endpoint)s: event %(event_id)s: %(outcome)s (attempt %(attempt)s)",
    meaning="A run settled a recorded event: ``processed`` or ``ignored``.",
)
CLAIM_LOST = LogEvent(
    name="claim_lost",
    level=logging.WARNING,
    text="endpoint %(endpoint)s: lost the claim on event %(event_id)s (token %(token)s); its effect is rolled back",
    meaning="Another worker took the event over: this one was stopped or cut off for longer than ``lease_seconds``.",
)
EVENT_DEAD = LogEvent(
    name="event_dead",
    level=logging.ERROR,
    text="endpoint %(endpoint)s: event %(event_id)s is dead: %(reason)s",
    meaning=(
        "Given up by its handler, or failed for ``retry_hours``: it runs again only when an operator says so. The "
        "reason is the event's ``last_error``."
    ),
)
EVENT_CONFLICTING = LogEvent(
    name="event_conflicting",
    level=logging.WARNING,
    text="endpoint %(endpoint)s: event %(event_id)s: %(outcome)s, with another body than before",
    meaning=(
        "The signature does not cover the id, so the provider or somebody who holds one of its deliveries sent another "
        "body under it. It had no effect; it is kept in ``conflicts``, and the first body stays."
    ),
)
EVENT_QUARANTINED = LogEvent(
    name="event_quarantined",
    level=logging.WARNING,
    text="endpoint %(endpoint)s: a delivery is quarantined as %(event_id)s: %(reason)s",
    meaning=(
        "Authentic, but it cannot be read or identified; its bytes are kept under that id, and no handler has seen it. "
        "The reason is the row's ``last_error``."
    ),
)
CLAIM_EXPIRED = LogEvent(
    name="claim_expired",
    level=logging.WARNING,
    text="endpoint %(endpoint)s: the claim of %(worker)s on event %(event_id)s expired; it is %(state)s now",
    meaning="A worker died, or was told to stop, with the event in hand; it was taken back.",
)
CLAIMS_GIVEN_BACK = LogEvent(
    name="claims_given_back",
    level=logging.WARNING,
    text="endpoint %(endpoint)s: %(error)s; %(events)s events are given back",
    meaning=(
        "A run ended without a verdict: the database was away, somebody has locked the row, or a defect, which has a "
        "line of its own; the text says which. Nothing is applied, no attempt is counted."
    ),
)
CLAIM_KEPT = LogEvent(
    name="claim_kept",
    level=logging.INFO,
    text="worker %(worker)s: a claim could not be given back yet: %(error)s",
    meaning="Its event waits until that is done, which is tried every second, or until the lease ends.",
)
RUN_UNEXPECTED = LogEvent(
    name="run_unexpected",
    level=logging.ERROR,
    text="endpoint %(endpoint)s: a run ended unexpectedly: %(error)s",
    meaning="A defect of ours; the events are given back. Report the exception's type and place.",
)
PRUNED = LogEvent(
    name="pruned",
    level=logging.INFO,
    text="forgot %(days)s days of payloads, %(payloads)s payloads and %(events)s events that were old",
    meaning="The worker's hourly walk; how old is said by ``payload_days`` and ``key_days``.",
)
PRUNE_FAILED = LogEvent(
    name="prune_failed",
    level=logging.WARNING,
    text="forgetting what is old: %(error)s; trying again in an hour",
    meaning="The tables grow meanwhile; nothing else depends on it.",
)
COUNTS_KEPT = LogEvent(
    name="counts_kept",
    level=logging.INFO,
    text="what leaves no row could not be counted yet: %(error)s; trying again in a minute",
    meaning="Duplicates, refusals and failures stay in this process's memory until then; ``status`` tells of fewer.",
)
SPAN_LOST = LogEvent(
    name="span_lost",
    level=logging.WARNING,
    text="the app's OpenTelemetry has failed: %(error)s; the span is lost",
    meaning="The delivery, run or send itself is as it would be. Look at the sampler or span processor that it names.",
)
WORKER_ENDED = LogEvent(
    name="worker_ended",
    level=logging.ERROR,
    text="worker %(worker)s: ended unexpectedly: %(error)s",
    meaning="No handler runs in this process any more; deliveries are still recorded. Restart it, report the text.",
)
WORKER_WAITS = LogEvent(
    name="worker_waits",
    level=logging.WARNING,
    text="worker %(worker)s: %(error)s; looking again in %(seconds)ss",
    meaning="The database did not serve the worker; it goes on trying by itself.",
)
NO_WORKER = LogEvent(
    name="no_worker",
    level=logging.WARNING,
    text=(
        "events wait in schema %(schema)s and no worker is running: start `webhook-inbox worker APP`, "
        "or give running(worker=True)"
    ),
    meaning=(
        "Five seconds after this process had recorded its first queued event, no worker had a lease; told once. The "
        "handlers run as soon as one has. A relay counts as one here."
    ),
)
NOT_READY = LogEvent(
    name="not_ready",
    level=logging.WARNING,
    text="no delivery can be taken yet: %(error)s",
    meaning="The schema is not there, or of another release; seen when the app started. The text names the command.",
)
VARIABLE_UNKNOWN = LogEvent(
    name="variable_unknown",
    level=logging.WARNING,
    text="the variable %(variable)s is read by nobody; did you mean %(meant)s?",
    meaning="A misspelt setting, or one of another release; what it should have changed has its default.",
)
LEASE_NOT_RENEWED = LogEvent(
    name="lease_not_renewed",
    level=logging.WARNING,
    text="worker %(worker)s: the lease could not be renewed: %(error)s",
    meaning="The heartbeat did not reach the database; past ``lease_seconds`` other workers take over.",
)
LEASE_GONE = LogEvent(
    name="lease_gone",
    level=logging.ERROR,
    text="worker %(worker)s: its lease had ended and was forgotten",
    meaning="The worker was out of touch for long; it registers anew, its old claims are no longer its own.",
)
LEASE_LEFT = LogEvent(
    name="lease_left",
    level=logging.INFO,
    text="worker %(worker)s: %(error)s; what it held returns when the lease ends",
    meaning="The worker stopped while the database was away.",
)
LISTENER = LogEvent(
    name="listener",
    level=logging.DEBUG,
    text="listener: notifications arrive",
    meaning="New events are heard of at once.",
)
LISTENER_AGAIN = LogEvent(
    name="listener_again",
    level=logging.INFO,
    text="listener: notifications arrive again",
    meaning="What ``listener_deaf`` told of is over.",
)
COMMIT_HOOK_FAILED = LogEvent(
    name="commit_hook_failed",
    level=logging.ERROR,
    text="an on_commit hook of a handler's failed: %(error)s; the transaction is committed, the other hooks run",
    meaning="A function that a handler gave to Django's ``on_commit`` raised. It runs after the commit, once at most.",
)

OWN_SESSION_REFUSED = LogEvent(
    name="own_session_refused",
    level=logging.WARNING,
    text="leases and notifications: the DSN of the database given does not lead to it; they borrow its connections",
    meaning="What the inbox was given connects by more than its DSN says (``connect_args``, a token). Nothing is lost.",
)

LISTENER_DEAF = LogEvent(
    name="listener_deaf",
    level=logging.WARNING,
    text="listener: no notifications (%(error)s); polling goes on",
    meaning="Notifications do not arrive (a pooler, an outage): events wait for the next look, and none is lost.",
)

ORDER_KEY_FAILED = LogEvent(
    name="order_key_failed",
    level=logging.ERROR,
    text="endpoint %(endpoint)s: event %(event_id)s is recorded without order: %(error)s",
    meaning="The function given as ``order_by`` failed on an event; it runs, but may overtake those of its key.",
)

LOG_EVENTS = (
    ANSWER_UNSENT,
    BODY_CONSUMED,
    BODY_SPLIT,
    CLAIM_EXPIRED,
    CLAIM_KEPT,
    CLAIM_LOST,
    CLAIMS_GIVEN_BACK,
    COMMIT_HOOK_FAILED,
    COUNTS_KEPT,
    DELIVERY_FAILED,
    DELIVERY_REJECTED,
    DELIVERY_TOO_LARGE,
    EVENT_CONFLICTING,
    EVENT_DEAD,
    EVENT_IN_FLIGHT,
    EVENT_QUARANTINED,
    EVENT_RUN,
    EVENT_SET_ASIDE,
    EVENT_SETTLED,
    HANDLER_FAILED,
    HOOK_FAILED,
    LEASE_GONE,
    LEASE_LEFT,
    LEASE_NOT_RENEWED,
    LISTENER,
    LISTENER_AGAIN,
    LISTENER_DEAF,
    NO_WORKER,
    NOT_READY,
    NOT_YET,
    ORDER_KEY_FAILED,
    OWN_SESSION_REFUSED,
    PRUNE_FAILED,
    PRUNED,
    REQUEST_FAILED,
    REQUEST_REFUSED,
    RUN_FAILED,
    RUN_UNEXPECTED,
    SET_SPLIT,
    SPAN_LOST,
    TYPE_REFUSED,
    VARIABLE_UNKNOWN,
    WORKER_ENDED,
    WORKER_WAITS,
)
