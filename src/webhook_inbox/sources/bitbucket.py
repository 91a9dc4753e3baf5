"""Recognise Bitbucket Cloud: HMAC-SHA256 of the body, in WebSub's older header."""

from __future__ import annotations

from webhook_inbox.sources.facts import HOOKDECK, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of

_STAFF = "Atlassian staff in the developer community"


class Bitbucket(Provider):
    """
    Believe what Bitbucket Cloud signed with one of *secrets*.

    Only a webhook that has a secret signs. Connect apps get a JWT instead, which this source does not read.

    Args:
        secrets: The webhook's secret, as typed into Bitbucket; several while one is being rolled; or a callable.

    Raises:
        ConfigurationError: No secret.
    """

    provider = "bitbucket"
    redelivers = False
    signed_id = False
    scheme = scheme_of(header="X-Hub-Signature", prefix="sha256=")
    naming = naming_of(event_id="header:X-Request-UUID", event_type="header:X-Event-Key")
    facts = Facts(
        title="Bitbucket Cloud",
        signature=Fact("`X-Hub-Signature: sha256=HEX`, HMAC-SHA256 of the body", HOOKDECK),
        secret=Fact("text, typed into the webhook's settings; without one nothing is signed", HOOKDECK),
        event_id=Fact(
            "header `X-Request-UUID`; whether further attempts repeat it is not confirmed", HOOKDECK
        ),
        event_type=Fact("header `X-Event-Key`", HOOKDECK),
        answer=Fact("2xx within 10 s", HOOKDECK, 10),
        retries=Fact("up to 2 more attempts at once after a 5xx or a timeout, then none", _STAFF, 0),
        past_events=Fact("none, and no replay", _STAFF),
        list_api=False,
        weaknesses=(
            "No time is signed, and the id is in a header that the signature does not cover.",
            "Whether a further attempt has the same X-Request-UUID is not confirmed: if not, it is another event.",
            "A payload over 256 KB may silently not be sent (Atlassian, Troubleshoot webhooks).",
            "Data Center sends X-Request-Id instead: use Hmac.",
        ),
    )
