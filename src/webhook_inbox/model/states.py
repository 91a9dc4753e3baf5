"""Name the states of an event and the outcomes of a delivery; the words are the same in SQL, CLI, logs and docs."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """
    Say where an event stands.

        (delivery) ──► waiting ──► leased ──► processed
                          ▲          │  └───► ignored
                          │          ▼
                          └────── retrying ──► dead            quarantined: authentic, but cannot be identified or read

    Inline endpoints go from nothing to ``processed``, ``ignored`` or ``dead`` in one transaction.
    """

    WAITING = "waiting"
    LEASED = "leased"
    RETRYING = "retrying"
    PROCESSED = "processed"
    IGNORED = "ignored"
    DEAD = "dead"
    QUARANTINED = "quarantined"


class Outcome(StrEnum):
    """Say what one delivery, or one event of it, came to; the first seven answer 2xx."""

    PROCESSED = "processed"
    QUEUED = "queued"
    DUPLICATE = "duplicate"
    IGNORED = "ignored"
    DEAD = "dead"
    QUARANTINED = "quarantined"
    HANDSHAKE = "handshake"
    REJECTED = "rejected"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"


class Origin(StrEnum):
    """Say by which way an event came in; one that was imported reaches no handler: an older receiver processed it."""

    DELIVERY = "delivery"
    RECONCILE = "reconcile"
    REPLAY = "replay"
    IMPORT = "import"
