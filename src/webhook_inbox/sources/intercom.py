"""Recognise Intercom: HMAC-SHA1 of the body with the app's client secret."""

from __future__ import annotations

from dataclasses import replace

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.sources.facts import DIRECTORY, HOOKDECK, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.source import Identity, Reading


class Intercom(Provider):
    """
    Believe what Intercom signed with one of *secrets*.

    A ``ping``, which Intercom sends when a webhook is saved, is recorded as ignored and reaches no handler. The account
    is the app.

    Args:
        secrets: The app's client secret; several while one is being rolled; or a callable asked per request.

    Raises:
        ConfigurationError: No secret.
    """

    provider = "intercom"
    scheme = scheme_of(header="X-Hub-Signature", prefix="sha1=", algorithm="sha1")
    naming = naming_of(event_type="$.topic", account="$.app_id", created="$.first_sent_at")
    facts = Facts(
        title="Intercom",
        signature=Fact("`X-Hub-Signature: sha1=HEX`, HMAC-SHA1 of the body", DIRECTORY),
        secret=Fact("the app's client secret", DIRECTORY),
        event_id=Fact("the body's `id` (`notif_...`)", HOOKDECK),
        event_type=Fact("the body's `topic`", HOOKDECK),
        window=Fact("no time is signed", DIRECTORY),
        handshake=Fact("a signed `ping` when the webhook is saved; any 2xx", HOOKDECK),
        answer=Fact("2xx within 5 s", HOOKDECK, 5),
        retries=Fact(
            "one after about a minute, a pause of 15 min on repeated errors",
            "third party, a single comment",
            60,
        ),
        weaknesses=(
            "No time is signed, and SHA-1 is all there is.",
            "The official retry schedule is not confirmed: count on one retry.",
        ),
    )

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of the body; a ping has no effect."""
        (reading,) = super().identify(delivery)
        if isinstance(reading, Identity) and reading.event_type == "ping":
            return (replace(reading, ignore="a ping: Intercom tries the webhook"),)
        return (reading,)
