"""Recognise Paddle Billing: HMAC-SHA256 of ``ts:body``, in a header whose parts are separated by semicolons."""

from __future__ import annotations

from webhook_inbox.model.secret import SecretsGiven
from webhook_inbox.sources.facts import HOOKDECK, Fact, Facts
from webhook_inbox.sources.listing import ApiKey
from webhook_inbox.sources.listing_paddle import PaddleListing
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of

_RESPOND = "https://developer.paddle.com/webhooks/respond-to-webhooks"
_SDK = "paddle-python-sdk 1.16.1"


class Paddle(Provider):
    """
    Believe what Paddle Billing signed with one of *secrets*.

    Args:
        secrets: The notification destination's secret, ``pdl_ntfset_...``, whole; several while one is being rolled; or
            a callable asked per request.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future. 5 as
            in Paddle's SDK: raise it where a proxy buffers, or where the clock is not kept by NTP.

        api_key: May read events (``pdl_live_apikey_...``), to find by ``reconcile`` what never arrived; or a callable.
        api_base: Where Paddle's API is; of the sandbox: ``https://sandbox-api.paddle.com``.

    Raises:
        ConfigurationError: No secret, or a tolerance that bounds nothing.
    """

    provider = "paddle"
    reconciles = True
    scheme = scheme_of(
        header="Paddle-Signature",
        separator=";",
        prefix="h1=",
        signed="{timestamp}:{body}",
        timestamp="part:ts",
        tolerance_seconds=5,
    )
    naming = naming_of(event_id="$.event_id", event_type="$.event_type", created="$.occurred_at")
    facts = Facts(
        title="Paddle Billing",
        signature=Fact(
            "`Paddle-Signature: ts=UNIX;h1=HEX`, HMAC-SHA256 of `ts:body`, an `h1` for each live secret", _SDK
        ),
        secret=Fact("`pdl_ntfset_...`, used whole", _SDK),
        event_id=Fact(
            "the body's `event_id`; `notification_id` is one for each destination",
            "developer.paddle.com, How webhooks work",
        ),
        event_type=Fact("the body's `event_type`", "developer.paddle.com, How webhooks work"),
        window=Fact("5 s both ways in the SDK", _SDK, 5),
        answer=Fact("2xx within 5 s", f"{_RESPOND}", 5),
        retries=Fact(
            "60 times over 3 days; in the sandbox 3 times over 15 min",
            f"{_RESPOND}; sandbox: {HOOKDECK}",
            3 * 86_400,
        ),
        order=Fact("none; order by `occurred_at`", "developer.paddle.com, How webhooks work"),
        past_events=Fact(
            "`GET /events`, `GET /notifications`, `POST /notifications/{id}/replay`; 90 days back",
            "https://developer.paddle.com/api-reference/events/list-events",
            90 * 86_400.0,
        ),
        list_api=True,
        weaknesses=("5 s are little: a delivery that waits longer in a proxy is refused, and comes again.",),
    )

    def __init__(
        self,
        secrets: SecretsGiven,
        *,
        tolerance_seconds: float = 5,
        api_key: ApiKey | None = None,
        api_base: str = "https://api.paddle.com",
    ) -> None:
        super().__init__(secrets)
        if api_key is not None:
            self.listing = PaddleListing(api_key, api_base=api_base, setting="Paddle", identify=self.identify)
        self.scheme = self.scheme.within(tolerance_seconds, setting=self.setting("tolerance_seconds"))
