"""
Recognise Mollie's next-generation webhooks: HMAC-SHA256 of the body.

Its classic webhooks are unsigned forms that only say which object to fetch: nothing in them can be verified, so they
are refused here.
"""

from __future__ import annotations

from webhook_inbox.sources.facts import HOOKDECK, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of

_SDK = "mollie-api-py 1.10.20"


class Mollie(Provider):
    """
    Believe what Mollie signed with one of *secrets*.

    For a day after a rotation Mollie sends the signature header twice, once for each secret; one match is enough.

    Args:
        secrets: The webhook's signing secret; several while one is being rolled; or a callable asked per request.

    Raises:
        ConfigurationError: No secret.
    """

    provider = "mollie"
    scheme = scheme_of(header="X-Mollie-Signature", spread="repeated", prefix="sha256=")
    naming = naming_of(created="$.createdAt")
    facts = Facts(
        title="Mollie",
        signature=Fact(
            "`X-Mollie-Signature: sha256=HEX`, HMAC-SHA256 of the body; classic webhooks are not signed", _SDK
        ),
        secret=Fact("text; for 24 h after a rotation the header is sent twice", HOOKDECK),
        event_id=Fact("the body's `id` (`event_...`)", _SDK),
        event_type=Fact("the body's `type`", _SDK),
        window=Fact("no time is signed", _SDK),
        answer=Fact("200 within 15 s", HOOKDECK, 15),
        retries=Fact("up to 10 times over about 26 h, then the webhook is blocked", HOOKDECK, 26 * 3_600),
        past_events=Fact("one event by `GET /v2/events/{id}`; a list is not confirmed", _SDK),
        weaknesses=(
            "No time is signed.",
            "Classic webhooks (`id=tr_...`) are unsigned and refused: use next-generation ones, at their own URL.",
        ),
    )
