"""Recognise Linear: HMAC-SHA256 of the body, with the signed time inside the body, in milliseconds."""

from __future__ import annotations

from webhook_inbox.model.secret import SecretsGiven
from webhook_inbox.sources.facts import HOOKDECK, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of

_SDK = "@linear/sdk 98.0.0"
_DEVELOPERS = "third parties, citing https://linear.app/developers/webhooks"


class Linear(Provider):
    """
    Believe what Linear signed with one of *secrets*.

    The type is the body's ``type`` and ``action``: ``Issue.create``.

    Args:
        secrets: The webhook's signing secret (``lin_wh_...``); several while one is being rolled; or a callable asked
            per request.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future. 60 as
            in Linear's SDK. Whether a retry is signed with a time of its own is not confirmed: where retries are
            refused as too old, 30,000 takes all of them.

    Raises:
        ConfigurationError: No secret, or a tolerance that bounds nothing.
    """

    provider = "linear"
    signed_id = False
    scheme = scheme_of(
        header="Linear-Signature",
        timestamp="$.webhookTimestamp",
        timestamp_unit="ms",
        tolerance_seconds=60,
    )
    naming = naming_of(event_id="header:Linear-Delivery", action="$.action", created="$.createdAt")
    facts = Facts(
        title="Linear",
        signature=Fact("`Linear-Signature: HEX`, HMAC-SHA256 of the body", _SDK),
        secret=Fact("text (`lin_wh_...`), shown with the webhook", _SDK),
        event_id=Fact("header `Linear-Delivery`, a UUID; the body's `webhookId` is the webhook's", HOOKDECK),
        event_type=Fact("the body's `type` and `action`; header `Linear-Event`", HOOKDECK),
        window=Fact("60 s both ways, the body's `webhookTimestamp` in milliseconds", _SDK, 60),
        answer=Fact("200 within 5 s", _DEVELOPERS, 5),
        retries=Fact("3 times: after 1 min, 1 h, 6 h; then the webhook may be disabled", _DEVELOPERS, 25_260),
        weaknesses=(
            "The id is in a header that the signature does not cover.",
            "Whether id and signed time change on a retry is not confirmed: a strict window may refuse retries.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, tolerance_seconds: float = 60) -> None:
        super().__init__(secrets)
        self.scheme = self.scheme.within(tolerance_seconds, setting=self.setting("tolerance_seconds"))
