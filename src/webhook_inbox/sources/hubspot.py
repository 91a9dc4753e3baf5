"""
Recognise HubSpot: HMAC-SHA256 of method, URL, body and time in base64 (v3), or one of the two older signatures.

A request carries several versions at once. The source is told which one counts: the older ones sign no time, so whoever
holds a delivery could take the newer header off and send it again for ever.

Source: developers.hubspot.com, "Validating requests".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Literal, get_args

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.public_url import check_public_url, signed_url, url_mismatch, verify_with_url
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.signature import any_equal, lower_hex, mismatch, only_header
from webhook_inbox.sources.source import Rejected, Verdict, Verified

Version = Literal["v1", "v2", "v3"]
_VALIDATING = (
    "https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/request-validation"
)
_SDK = "hubspot-api-client 12.0.0"
_OLDER_HEADER = "x-hubspot-signature"
_DECODED = re.compile("%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)


class HubSpot(Provider):
    """
    Believe what HubSpot signed with one of *secrets*.

    A body holds up to 100 events. The account is the portal.

    Args:
        secrets: The app's client secret; several while it is being changed; or a callable asked per request.
        public_url: The target URL to the letter, without its query. Empty: as rebuilt from each request, which is
            right where nothing in front of this program changes scheme, host or path, or where the HTTP server knows
            which proxies to believe.
        version: Which signature counts. ``v1`` signs neither URL nor time, ``v2`` no time.
        tolerance_seconds: How far the time that v3 signs may lie from this host's clock, in the past and in the future;
            HubSpot's own code refuses at 300 already.

    Raises:
        ConfigurationError: No secret, another version, a URL that is none, or a tolerance that bounds nothing.
    """

    provider = "hubspot"
    scheme = scheme_of(
        header="X-HubSpot-Signature-v3",
        encoding="base64",
        signed="{method}{url}{body}{timestamp}",
        timestamp="header:X-HubSpot-Request-Timestamp",
        timestamp_unit="ms",
        tolerance_seconds=299,
    )
    naming = naming_of(
        items="$",
        event_id=("$.subscriptionId", "$.eventId", "$.occurredAt"),
        event_type="$.subscriptionType",
        account="$.portalId",
        created="$.occurredAt",
    )
    facts = Facts(
        title="HubSpot",
        signature=Fact(
            "`X-HubSpot-Signature-v3: BASE64`, HMAC-SHA256 of method, URL, body and time, nothing between, some "
            "escapes of the URL decoded; older: `X-HubSpot-Signature: HEX`, SHA-256 of the secret and what follows it",
            _VALIDATING,
        ),
        secret=Fact("the app's client secret", _VALIDATING),
        event_id=Fact(
            "none is safe: the item's `eventId` is not unique. With `subscriptionId` and `occurredAt` it is the id; "
            "`attemptNumber` differs between retries",
            DIRECTORY,
        ),
        event_type=Fact("the item's `subscriptionType`", DIRECTORY),
        window=Fact("less than 300 s old, `X-HubSpot-Request-Timestamp` in milliseconds", _SDK, 299),
        answer=Fact("2xx within 5 s, for all events of the body", DIRECTORY, 5),
        retries=Fact("10 times over 24 h, spread at random", DIRECTORY, 24 * 3_600),
        order=Fact("none", DIRECTORY),
        past_events=Fact("logs on the app's page, which cannot be sent again", DIRECTORY),
        weaknesses=(
            "The URL is signed (v2, v3): behind a proxy that changes it, set public_url.",
            "v1 and v2 sign no time, and are no HMAC: take v3 unless the app gets none.",
            "Two events of one subscription with the same `eventId` and moment are one.",
        ),
    )

    def __init__(
        self,
        secrets: SecretsGiven,
        *,
        public_url: str = "",
        version: Version = "v3",
        tolerance_seconds: float = 299,
    ) -> None:
        if version not in get_args(Version):
            raise ConfigurationError(f"{self.setting('version')} must be 'v1', 'v2' or 'v3'")
        super().__init__(secrets)
        self.public_url = check_public_url(public_url, setting=self.setting("public_url"))
        self.version = version
        self.scheme = self.scheme.within(tolerance_seconds, setting=self.setting("tolerance_seconds"))

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Hold the signature of the version that counts against what each secret gives (P-RAW)."""
        url = signed_url(delivery, self.public_url)
        if self.version == "v3":
            decoded = _DECODED.sub(lambda escape: chr(int(escape[1], 16)), url)
            return verify_with_url(self.scheme, delivery, secrets, decoded)
        return self._verify_older(delivery, secrets, url)

    def _verify_older(self, delivery: Delivery, secrets: Sequence[Secret], url: str) -> Verdict:
        text = only_header(delivery.headers, _OLDER_HEADER)
        if isinstance(text, Rejected):
            return text
        if delivery.headers.all(f"{_OLDER_HEADER}-version") != (self.version,):
            return Rejected("signature_version", f"{_OLDER_HEADER}-version is not {self.version}")
        digest = lower_hex(text, 32)
        if digest is None:
            return Rejected(
                "signature_malformed", f"{_OLDER_HEADER} header malformed: no 32 bytes in lower-case hex"
            )
        before = f"{delivery.method}{url}" if self.version == "v2" else ""
        content = before.encode("utf-8", "surrogatepass") + delivery.body
        for secret in secrets if "{" not in before else ():
            if any_equal(hashlib.sha256(secret.reveal().encode() + content).digest(), (digest,)):
                return Verified(secret.label)
        return url_mismatch(delivery, url) if before else mismatch(delivery.body)
