"""
Recognise Zendesk: HMAC-SHA256 of ``timestamp`` and body in base64, the time in ISO 8601.

    event webhooks      the body is Zendesk's: ``type`` begins with ``zen:event-type:``, ``id`` is the event's
    trigger webhooks    the body is the customer's, of any form: the type is ``trigger``, the id the invocation's header
"""

from __future__ import annotations

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.identity import Places, Reader, name_event
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.source import Reading, Unreadable

_EVENT_TYPES = "zen:event-type:"
_INVOCATION = "x-zendesk-webhook-invocation-id"
_READER = Reader(("type",), ("id",), ("time",))
_EVENT = Places()
_TRIGGER = Places(event_id=f"header:{_INVOCATION}")


class Zendesk(Provider):
    """
    Believe what Zendesk signed with one of *secrets*.

    Args:
        secrets: The webhook's signing secret; several while one is being rolled; or a callable asked per request.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future.
            Zendesk states none, nor whether a retry is signed with a time of its own.

    Raises:
        ConfigurationError: No secret, or a tolerance that bounds nothing.
    """

    provider = "zendesk"
    redelivers = False
    signed_id = False
    scheme = scheme_of(
        header="X-Zendesk-Webhook-Signature",
        encoding="base64",
        signed="{timestamp}{body}",
        timestamp="header:X-Zendesk-Webhook-Signature-Timestamp",
        timestamp_unit="iso",
        tolerance_seconds=3_600,
    )
    facts = Facts(
        title="Zendesk",
        signature=Fact(
            "`X-Zendesk-Webhook-Signature: BASE64`, HMAC-SHA256 of timestamp and body, nothing between",
            DIRECTORY,
        ),
        secret=Fact("text, one for each webhook; while a webhook is being made, a published one", DIRECTORY),
        event_id=Fact(
            "event webhooks: the body's `id`; trigger webhooks: header `X-Zendesk-Webhook-Invocation-Id`, whether a "
            "retry repeats it is not confirmed",
            "third party",
        ),
        event_type=Fact(
            "event webhooks: the body's `type`; trigger webhooks have none: `trigger`", DIRECTORY
        ),
        window=Fact("none is stated, `X-Zendesk-Webhook-Signature-Timestamp` in ISO 8601", DIRECTORY),
        answer=Fact("2xx within 12 s", DIRECTORY, 12),
        retries=Fact(
            "409 3 times; 429 and 503 with a Retry-After under 60 s; timeouts 5 times; other 5xx never",
            DIRECTORY,
        ),
        order=Fact("none; best effort, with duplicates and gaps", DIRECTORY),
        past_events=Fact("an activity log in the pages; an API is not confirmed"),
        weaknesses=(
            "Most failures are not sent again: use queued or hybrid mode.",
            "70 % errors, or 1,000 within 5 minutes, stop all deliveries for a while.",
            "A trigger webhook whose body is no JSON still counts; its payload is what your template makes it.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, tolerance_seconds: float = 3_600) -> None:
        super().__init__(secrets)
        self.scheme = self.scheme.within(tolerance_seconds, setting=self.setting("tolerance_seconds"))

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of the body: Zendesk's own, or the invocation of a trigger."""
        values = _READER.read(delivery.body)
        event_type, event_id, created = (None, None, None) if isinstance(values, Unreadable) else values
        if isinstance(event_type, str) and event_type.startswith(_EVENT_TYPES):
            return (name_event(_EVENT, event_id=event_id, event_type=event_type, created=created),)
        sent = delivery.headers.all(_INVOCATION)
        invocation = sent[0] if len(sent) == 1 else None
        return (name_event(_TRIGGER, event_id=invocation, event_type="trigger"),)
