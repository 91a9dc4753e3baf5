"""Recognise Calendly: HMAC-SHA256 of ``t.body``; it sends no id of the event, so its bytes are the id."""

from __future__ import annotations

from webhook_inbox.model.secret import SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of


class Calendly(Provider):
    """
    Believe what Calendly signed with one of *secrets*.

    Args:
        secrets: The subscription's signing key; several while one is being rolled; or a callable asked per request.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future.

    Raises:
        ConfigurationError: No secret, or a tolerance that bounds nothing.
    """

    provider = "calendly"
    scheme = scheme_of(
        header="Calendly-Webhook-Signature",
        separator=",",
        prefix="v1=",
        signed="{timestamp}.{body}",
        timestamp="part:t",
        tolerance_seconds=180,
    )
    naming = naming_of(event_id="digest", event_type="$.event", created="$.created_at")
    facts = Facts(
        title="Calendly",
        signature=Fact("`Calendly-Webhook-Signature: t=UNIX,v1=HEX`, HMAC-SHA256 of `t.body`", DIRECTORY),
        secret=Fact(
            "the subscription's signing key; optional with a personal token: then nothing is signed",
            DIRECTORY,
        ),
        event_id=Fact(
            "none is known; the payload has the invitee's `uri`. The bytes of the body are the id", DIRECTORY
        ),
        event_type=Fact("the body's `event`", DIRECTORY),
        window=Fact("180 s in Calendly's sample code", DIRECTORY, 180),
        answer=Fact("2xx within 15 s, 10 s to connect", DIRECTORY, 15),
        retries=Fact("growing pauses for 24 h, then the subscription is disabled", DIRECTORY, 24 * 3_600),
        past_events=Fact("not sent again", DIRECTORY),
        list_api=False,
        weaknesses=(
            "No id is sent: should a retry change a byte of the body, it is another event.",
            "A reschedule is two events, invitee.canceled with `rescheduled` true and invitee.created.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, tolerance_seconds: float = 180) -> None:
        super().__init__(secrets)
        self.scheme = self.scheme.within(tolerance_seconds, setting=self.setting("tolerance_seconds"))
