"""Recognise Square: HMAC-SHA256 of the URL that it has and the body, in base64."""

from __future__ import annotations

from collections.abc import Sequence

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import Fact, Facts
from webhook_inbox.sources.listing import ApiKey
from webhook_inbox.sources.listing_square import SquareListing
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.public_url import check_public_url, signed_url, verify_with_url
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.source import Verdict

_SDK = "squareup 46.0.0"
_DOCS = "third parties, quoting developer.squareup.com"


class Square(Provider):
    """
    Believe what Square signed with one of *secrets*.

    The account is the merchant.

    Args:
        secrets: The subscription's signature key, used as text; several while it is being changed; or a callable asked
            per request.
        public_url: The notification URL to the letter, without its query. Empty: as rebuilt from each request, which
            is right where nothing in front of this program changes scheme, host or path, or where the HTTP server
            knows which proxies to believe.
        api_key: The application's own access token (events are the application's, so that no seller's will do), to
            find by ``reconcile`` what never arrived; or a callable. ``PUT /v2/events/enable`` first.
        api_base: Where Square's API is; of the sandbox: ``https://connect.squareupsandbox.com``.

    Raises:
        ConfigurationError: No secret, or a URL that is none.
    """

    provider = "square"
    reconciles = True
    scheme = scheme_of(header="x-square-hmacsha256-signature", encoding="base64", signed="{url}{body}")
    naming = naming_of(event_id="$.event_id", account="$.merchant_id", created="$.created_at")
    facts = Facts(
        title="Square",
        signature=Fact(
            "`x-square-hmacsha256-signature: BASE64`, HMAC-SHA256 of notification URL and body, nothing between",
            _SDK,
        ),
        secret=Fact("text, one for each subscription; a new one is made by the API", _SDK),
        event_id=Fact("the body's `event_id`, the same on a retry", _DOCS),
        event_type=Fact("the body's `type`", _DOCS),
        window=Fact("no time is signed", _SDK),
        answer=Fact("2xx within 10 s", _DOCS, 10),
        retries=Fact(
            "11 times: after 1, 2, 4, 8, 16, 32 and 60 min, 2, 4, 8 and 8 h; then the event is discarded",
            _DOCS,
            24 * 3_600,
        ),
        order=Fact("none", _DOCS),
        past_events=Fact(
            "`POST /v2/events` over 28 days, from when it was enabled on",
            "https://developer.squareup.com/docs/events-api/overview",
            28 * 86_400.0,
        ),
        list_api=True,
        weaknesses=(
            "No time is signed: only the id, for as long as it is kept, stops a replay.",
            "The URL is signed: behind a proxy that changes it, set public_url.",
        ),
    )

    def __init__(
        self,
        secrets: SecretsGiven,
        *,
        public_url: str = "",
        api_key: ApiKey | None = None,
        api_base: str = "https://connect.squareup.com",
    ) -> None:
        super().__init__(secrets)
        if api_key is not None:
            self.listing = SquareListing(api_key, api_base=api_base, setting="Square", identify=self.identify)
        self.public_url = check_public_url(public_url, setting=self.setting("public_url"))

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Hold the signature against the HMAC of URL and body under each secret (P-RAW)."""
        return verify_with_url(self.scheme, delivery, secrets, signed_url(delivery, self.public_url))
