"""
Describe one event on its way into the inbox: everything that the receive plan needs to know and nothing it must
compute.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime

from webhook_inbox.model.event import Event, EventKey
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.states import Origin, State

# A handler's reason is shown on terminals and in logs; the story belongs into a review.
REASON_CHARS_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """
    Hold one event that is about to be recorded.

    Attributes:
        key: Its identity.
        event_type: Literally as sent; empty where the body could not be identified.
        body: The exact bytes of this event.
        headers: As delivered, without those that carry credentials (P-QUIET).
        created_at: The provider's time, or None.
        secret_label: Which secret verified it.
        origin: By which way it came.
        settled: The state to record at once where no handler will run; None where one will.
        reason: Why it is settled so; kept as ``last_error``.
        unhandled: Whether it is settled only because this release has no handler for its type.
        attempts: Runs of its handlers that count.
        kept: Fields of the payload to keep beside the digest, as JSON text; None: none.
        keep_body: Whether the bytes are stored when the event is processed.
        signed_id: Whether the signature covers the event id.
        order_key: What it shares with the events that it must not overtake; None: nothing.
    """

    key: EventKey
    event_type: str
    body: bytes
    headers: Headers
    created_at: datetime | None = None
    secret_label: str = ""
    origin: Origin = Origin.DELIVERY
    settled: State | None = None
    reason: str = ""
    unhandled: bool = False
    attempts: int = 0
    kept: str | None = None
    keep_body: bool = True
    signed_id: bool = True
    order_key: str | None = None

    @property
    def digest(self) -> bytes:
        """Give the SHA-256 of the body."""
        return hashlib.sha256(self.body).digest()

    def under_digest(self) -> Arrival:
        """Give this arrival with its digest in place of an event id: the same unusable bytes are kept once."""
        return replace(self, key=replace(self.key, event_id=f"sha256:{self.digest.hex()}"))

    @property
    def headers_json(self) -> str:
        """Give the headers as a JSON array of [name, value] that jsonb accepts whatever the sender put in."""
        clean = [[storable(name), storable(value)] for name, value in self.headers.pairs]
        return json.dumps(clean, ensure_ascii=False)

    def event(self, *, received_at: datetime | None, attempt: int) -> Event:
        """Make the event that handlers receive."""
        return Event(
            provider=self.key.provider,
            endpoint=self.key.endpoint,
            id=self.key.event_id,
            type=self.event_type,
            account=self.key.account,
            environment=self.key.environment,
            body=self.body,
            headers=self.headers,
            created_at=self.created_at,
            received_at=received_at,
            attempt=attempt,
            origin=self.origin,
        )


def storable(text: str) -> str:
    """Replace what PostgreSQL's text refuses (NUL, lone surrogates), in what is evidence and not identity."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def kept_reason(given: object) -> str:
    """Give *given*, whatever a handler or a destination said, as it is kept: storable, not longer than it is shown."""
    return storable(str(given))[:REASON_CHARS_MAX]
