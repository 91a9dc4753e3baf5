"""
Name every log event once: its level, its text, and what an operator does about it.

Records go to the standard library's logger ``webhook_inbox``; each carries its event's name as the attribute
``event``, so that a filter or a JSON formatter need not read the text. No text has a place for a payload, a secret or
a signature (P-QUIET).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

_log = logging.getLogger("webhook_inbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """
    Describe one kind of log record.

    Attributes:
        name: Stable; what alerts are written against.
        level: Of ``logging``.
        text: With ``%s`` places.
        meaning: What happened, and what to do about it.
    """

    name: str
    level: int
    text: str
    meaning: str

    @property
    def kept(self) -> bool:
        """Say whether anybody keeps records of this level; what goes into one need not be made otherwise."""
        return _log.isEnabledFor(self.level)

    def log(self, *values: object, **facts: str) -> None:
        """Write one record with *values* in the places of the text, and *facts* as attributes of their own."""
        if self.kept:
            _log.log(self.level, self.text, *values, extra={"event": self.name, **facts})


REQUEST_REFUSED = LogEvent(
    name="request_refused",
    level=logging.INFO,
    text="endpoint %s refused a request: %s",
    meaning=(
        "Headers, encoding, framing or the body's speed were outside the limits; nothing was stored. "
        "From a real provider: raise the limit that the reason names."
    ),
)
DELIVERY_TOO_LARGE = LogEvent(
    name="delivery_too_large",
    level=logging.WARNING,
    text="endpoint %s refused a body of %s bytes, over its %s (setting body_bytes_max); %s",
    meaning=(
        "A body over the endpoint's limit; nothing was stored. If your provider sent it, raise ``body_bytes_max`` "
        "and have the delivery sent again, by the id in the line."
    ),
)
BODY_CONSUMED = LogEvent(
    name="body_consumed",
    level=logging.ERROR,
    text="endpoint %s: %s",
    meaning=(
        "A middleware or the framework has read the request's body before the inbox; the sender heard 503. "
        "Mount the inbox outside of that middleware."
    ),
)
REQUEST_FAILED = LogEvent(
    name="request_failed",
    level=logging.ERROR,
    text="endpoint %s: unexpected %s\n  %s",
    meaning="A defect, of ours or of code that the user gave us; the sender heard 503. Report the frames.",
)
ANSWER_UNSENT = LogEvent(
    name="answer_unsent",
    level=logging.ERROR,
    text="endpoint %s: the answer could not be sent: %s\n  %s",
    meaning="The HTTP server refused the answer; the event is settled, and the provider's resend hears of it.",
)

BODY_SPLIT = LogEvent(
    name="body_split",
    level=logging.WARNING,
    text="endpoint %s: the %s events of one body go one by one: %s: %s",
    meaning=(
        "A handler took the transaction of the whole body with it; the event it failed for is set aside next, with "
        "a line of its own."
    ),
)
SET_SPLIT = LogEvent(
    name="set_split",
    level=logging.WARNING,
    text="endpoint %s: a set of %s events goes in halves: %s: %s",
    meaning=(
        "A set-based handler failed for the whole list; it runs again in halves, down to the event it fails for. Where "
        "it fails for none of them alone, it cannot take several: does it say which event a message belongs to?"
    ),
)
DELIVERY_REJECTED = LogEvent(
    name="delivery_rejected",
    level=logging.INFO,
    text="endpoint %s refused a delivery: %s",
    meaning=(
        "Not believed: no valid signature; nothing was stored. From your provider: compare the endpoint's secret, and "
        "look for a proxy that changes bodies."
    ),
)
EVENT_IN_FLIGHT = LogEvent(
    name="event_in_flight",
    level=logging.WARNING,
    text="%s: the first copy is still in flight after %ss",
    meaning=(
        "Another copy of the event was being handled longer than ``duplicate_wait_seconds``; the sender heard 503 and "
        "sends again."
    ),
)
EVENT_SET_ASIDE = LogEvent(
    name="event_set_aside",
    level=logging.ERROR,
    text="endpoint %s: event %s waits: %s",
    meaning=(
        "The handler failed for one event of a body; it is recorded as waiting and has had no effect, the others of "
        "the body are settled. The sender heard 200 and does not send it again."
    ),
)
EVENT_SETTLED = LogEvent(
    name="event_settled",
    level=logging.INFO,
    text="endpoint %s: event %s: %s",
    meaning=(
        "What one delivery did to one event, for instance ``processed`` or ``duplicate``. The record has attributes: "
        "``endpoint``, ``event_id``, ``outcome``."
    ),
)
TYPE_REFUSED = LogEvent(
    name="type_refused",
    level=logging.WARNING,
    text="endpoint %s refused type %s: no handler",
    meaning='No handler for this type, and the endpoint says ``unhandled="refuse"``; the sender heard 503.',
)
NOT_YET = LogEvent(
    name="not_yet",
    level=logging.INFO,
    text="%s: the handler asked to come again in %ss",
    meaning="The handler raised ``NotYet``: rolled back, 503 with ``Retry-After``.",
)
HANDLER_FAILED = LogEvent(
    name="handler_failed",
    level=logging.ERROR,
    text="%s: %s: %s\n  %s",
    meaning="The handler raised: rolled back, 500; the redelivery is the retry. ``on_error`` has the exception.",
)
DELIVERY_FAILED = LogEvent(
    name="delivery_failed",
    level=logging.ERROR,
    text="%s: %s: %s",
    meaning="The database or the set-up did not serve the delivery; the code says which. The sender heard 5xx.",
)
HOOK_FAILED = LogEvent(
    name="hook_failed",
    level=logging.ERROR,
    text="endpoint %s: a hook failed: %s",
    meaning="A function given to ``on_error`` or ``on_dead`` raised; the delivery's answer is not touched by it.",
)

RUN_FAILED = LogEvent(
    name="run_failed",
    level=logging.ERROR,
    text="%s: %s: %s; it is %s\n  %s",
    meaning=(
        "A handler failed on a recorded event; its writes are rolled back, the attempt is in ``attempts``. The text "
        "says when it runs again."
    ),
)
EVENT_RUN = LogEvent(
    name="event_run",
    level=logging.INFO,
    text="endpoint %s: event %s: %s (attempt %s)",
    meaning=(
        "A run settled a recorded event: ``processed`` or ``ignored``. The record has attributes: ``endpoint``, "
        "``event_id``, ``outcome``."
    ),
)
CLAIM_LOST = LogEvent(
    name="claim_lost",
    level=logging.WARNING,
    text="endpoint %s: lost the claim on event %s (token %s); its effect is rolled back",
    meaning="Another worker took the event over: this one was stopped or cut off for longer than ``lease_seconds``.",
)
EVENT_DEAD = LogEvent(
    name="event_dead",
    level=logging.ERROR,
    text="endpoint %s: event %s is dead: %s",
    meaning=(
        "Given up by its handler, or failed for ``retry_hours``: it runs again only when an operator says so. The "
        "reason is the event's ``last_error``."
    ),
)
EVENT_QUARANTINED = LogEvent(
    name="event_quarantined",
    level=logging.WARNING,
    text="endpoint %s: a delivery is quarantined as %s: %s",
    meaning=(
        "Authentic, but it cannot be read or identified; its bytes are kept under that id, and no handler has seen it. "
        "The reason is the row's ``last_error``."
    ),
)
CLAIM_EXPIRED = LogEvent(
    name="claim_expired",
    level=logging.WARNING,
    text="endpoint %s: the claim of %s on event %s expired; it is %s now",
    meaning="A worker died, or was told to stop, with the event in hand; it was taken back.",
)
CLAIMS_GIVEN_BACK = LogEvent(
    name="claims_given_back",
    level=logging.WARNING,
    text="endpoint %s: %s; %s events are given back",
    meaning=(
        "A run ended without a verdict: the database was away, somebody has locked the row, or a defect, which has a "
        "line of its own; the text says which. Nothing is applied, no attempt is counted."
    ),
)
CLAIM_KEPT = LogEvent(
    name="claim_kept",
    level=logging.INFO,
    text="worker %s: a claim could not be given back yet: %s",
    meaning="Its event waits until that is done, which is tried every second, or until the lease ends.",
)
RUN_UNEXPECTED = LogEvent(
    name="run_unexpected",
    level=logging.ERROR,
    text="endpoint %s: a run ended unexpectedly: %s",
    meaning="A defect of ours; the events are given back. Report the exception's type and place.",
)
WORKER_ENDED = LogEvent(
    name="worker_ended",
    level=logging.ERROR,
    text="worker %s: ended unexpectedly: %s",
    meaning="No handler runs in this process any more; deliveries are still recorded. Restart it, report the text.",
)
WORKER_WAITS = LogEvent(
    name="worker_waits",
    level=logging.WARNING,
    text="worker %s: %s; looking again in %ss",
    meaning="The database did not serve the worker; it goes on trying by itself.",
)
LEASE_NOT_RENEWED = LogEvent(
    name="lease_not_renewed",
    level=logging.WARNING,
    text="worker %s: the lease could not be renewed: %s",
    meaning="The heartbeat did not reach the database; past ``lease_seconds`` other workers take over.",
)
LEASE_GONE = LogEvent(
    name="lease_gone",
    level=logging.ERROR,
    text="worker %s: its lease had ended and was forgotten",
    meaning="The worker was out of touch for long; it registers anew, its old claims are no longer its own.",
)
LEASE_LEFT = LogEvent(
    name="lease_left",
    level=logging.INFO,
    text="worker %s: %s; what it held returns when the lease ends",
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
    text="an on_commit hook of a handler's failed: %s; the transaction is committed, the other hooks run",
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
    text="listener: no notifications (%s); polling goes on",
    meaning="Notifications do not arrive (a pooler, an outage): events wait for the next look, and none is lost.",
)

ORDER_KEY_FAILED = LogEvent(
    name="order_key_failed",
    level=logging.ERROR,
    text="endpoint %s: event %s is recorded without order: %s",
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
    DELIVERY_FAILED,
    DELIVERY_REJECTED,
    DELIVERY_TOO_LARGE,
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
    NOT_YET,
    ORDER_KEY_FAILED,
    OWN_SESSION_REFUSED,
    REQUEST_FAILED,
    REQUEST_REFUSED,
    RUN_FAILED,
    RUN_UNEXPECTED,
    SET_SPLIT,
    TYPE_REFUSED,
    WORKER_ENDED,
    WORKER_WAITS,
)
