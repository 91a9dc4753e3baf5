"""Describe one event: the fact that the provider tells, under the provider's own identity for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from webhook_inbox.model.form import payload_of
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.states import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKey:
    """
    Identify an event; the unique key of ``inbox`` has exactly these columns, in this order (P-DUP).

    Attributes:
        provider: Kind of sender, for instance ``stripe``.
        endpoint: The endpoint's name; two endpoints may legitimately see one id.
        account: The connected account or tenant, where the signature covers it; else empty.
        environment: ``live``, ``test``, or empty where the provider does not say.
        event_id: 1 to 255 characters, case and white space significant.
    """

    provider: str
    endpoint: str
    account: str
    environment: str
    event_id: str

    @property
    def columns(self) -> dict[str, str]:
        """Give the key as statement parameters."""
        return {
            "provider": self.provider,
            "endpoint": self.endpoint,
            "account": self.account,
            "environment": self.environment,
            "event_id": self.event_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """
    Hand one authentic event to a handler.

    Only a verified delivery, a reconciled copy or a replay makes one.

    Attributes:
        id: The provider's id of the event; the same on every redelivery.
        type: The provider's name of what happened, literally.
        body: The exact bytes of this event; of a batched body, the event's own slice.
        headers: As delivered, without those that carry credentials; where deliveries are traced, ``traceparent`` is the
            delivery's own.
        created_at: When the provider says it happened (aware, UTC), or None.
        received_at: When the database recorded the first copy (aware, server clock), or None before it has.
        attempt: This run's number, from 1.
    """

    provider: str
    endpoint: str
    id: str
    type: str
    account: str = ""
    environment: str = ""
    body: bytes = field(repr=False)
    headers: Headers = field(default_factory=Headers, repr=False)
    created_at: datetime | None = None
    received_at: datetime | None = None
    attempt: int = 1
    origin: Origin = Origin.DELIVERY
    _parsed: list[Any] = field(default_factory=list, repr=False, compare=False, init=False)

    @property
    def key(self) -> EventKey:
        """Give the identity under which the event is deduplicated."""
        return EventKey(
            provider=self.provider,
            endpoint=self.endpoint,
            account=self.account,
            environment=self.environment,
            event_id=self.id,
        )

    @property
    def payload(self) -> Any:  # noqa: ANN401 - JSON of a shape that only the provider knows
        """
        Parse the body as JSON on first use; later uses return the same object.

        Of a form it is the JSON in the member ``payload``, or an object of the form's members.

        Raises:
            PayloadError: The bytes are no readable JSON.
        """
        if not self._parsed:
            self._parsed.append(payload_of(self.headers, self.body))
        return self._parsed[0]

    def idempotency_key(self, purpose: str) -> str:
        """
        Give a key for one call to another API: ``webhook:<event id>:<purpose>``, the same on every run of this event.

        Args:
            purpose: Names the call within the handler, for instance ``update-customer-metadata``.
        """
        return f"webhook:{self.id}:{purpose}"
