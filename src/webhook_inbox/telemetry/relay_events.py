"""Name the log events of the relay; see ``events``."""

from __future__ import annotations

import logging

from webhook_inbox.telemetry.log_event import LogEvent

DESTINATION_DOWN = LogEvent(
    name="destination_down",
    level=logging.WARNING,
    text="destination %(destination)s (%(place)s): %(reason)s; nothing is sent there for %(seconds)s s",
    meaning=(
        "It cannot be reached, asks for a pause, or has refused many messages one after another. Its messages wait and "
        "are charged nothing for it; those of other destinations go on. One is tried when the time has passed."
    ),
)
DESTINATION_MISSING = LogEvent(
    name="destination_missing",
    level=logging.WARNING,
    text="destination %(destination)s is not there, and %(messages)s messages wait for it",
    meaning=(
        "They were routed to it by another release, or it was renamed. They are kept: run a relay that has it, or give "
        "one of that name."
    ),
)
DESTINATION_UNCLOSED = LogEvent(
    name="destination_unclosed",
    level=logging.INFO,
    text="destination %(destination)s: could not be closed: %(error)s",
    meaning="Its client failed to end its connection; nothing depends on it.",
)
MESSAGE_DEAD = LogEvent(
    name="message_dead",
    level=logging.ERROR,
    text="destination %(destination)s: message %(message_id)s is dead: %(reason)s",
    meaning=(
        "The destination will never take it, or it has failed for ``retry_hours``. It goes out again only by "
        "``webhook-inbox outbox retry``."
    ),
)
MESSAGE_SENT = LogEvent(
    name="message_sent",
    level=logging.DEBUG,
    text="destination %(destination)s: message %(message_id)s is sent",
    meaning="The destination has confirmed it.",
)
MESSAGES_UNROUTED = LogEvent(
    name="messages_unrouted",
    level=logging.WARNING,
    text="outbox: unrouted messages: %(messages)s; no route names their type, or their destination is not there",
    meaning=(
        "They are kept and not sent: see ``webhook-inbox outbox list --state unrouted``. Add the route or the "
        "destination; the relay routes them when it starts."
    ),
)
RELAY_ENDED = LogEvent(
    name="relay_ended",
    level=logging.ERROR,
    text="relay %(worker)s: ended unexpectedly: %(error)s",
    meaning="No message is sent by this process any more; all are kept. Restart it, report the text.",
)
RELAY_WAITS = LogEvent(
    name="relay_waits",
    level=logging.WARNING,
    text="relay, %(place)s: %(error)s; looking again soon",
    meaning="The database did not serve the relay; it goes on trying by itself.",
)
SEND_EXPIRED = LogEvent(
    name="send_expired",
    level=logging.WARNING,
    text="destination %(destination)s: the claim of %(worker)s on message %(message_id)s expired; it is %(state)s now",
    meaning="A relay died, or was told to stop, while sending; the message goes out again, under the same id.",
)
SEND_FAILED = LogEvent(
    name="send_failed",
    level=logging.WARNING,
    text="destination %(destination)s: message %(message_id)s, attempt %(attempt)s: %(reason)s",
    meaning="It is not known to have arrived, and is sent again after a while, under the same id.",
)
SEND_LOST = LogEvent(
    name="send_lost",
    level=logging.WARNING,
    text=(
        "destination %(destination)s: lost the claim on message %(message_id)s; "
        "what came of sending it is not recorded"
    ),
    meaning="Another relay took it over, so it is sent twice: this one was cut off for longer than ``lease_seconds``.",
)

RELAY_EVENTS = (
    DESTINATION_DOWN,
    DESTINATION_MISSING,
    DESTINATION_UNCLOSED,
    MESSAGE_DEAD,
    MESSAGE_SENT,
    MESSAGES_UNROUTED,
    RELAY_ENDED,
    RELAY_WAITS,
    SEND_EXPIRED,
    SEND_FAILED,
    SEND_LOST,
)
