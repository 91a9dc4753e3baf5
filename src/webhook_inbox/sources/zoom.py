"""
Recognise Zoom: HMAC-SHA256 of ``v0:timestamp:body``; it sends no id of the event, so its bytes are the id.

Zoom asks every 72 hours for the HMAC of a token under the secret that also signs deliveries. A token that begins like a
signed content, ``v0:...``, would be answered with the signature of a forged delivery. So: only a request that is itself
signed is answered, and no token with a colon in it, nor one longer than any that Zoom sends.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Sequence

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.identity import Reader
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.source import Answer, Unreadable, Verified

_HARMLESS = re.compile(r"[!-9;-~]{1,128}")  # ASCII without blank and colon
_RETRY_SECONDS = (5 + 20 + 60) * 60
_VALIDATION = Reader(("event",), ("payload", "plainToken"))


class Zoom(Provider):
    """
    Believe what Zoom signed with one of *secrets*.

    The handshake ``endpoint.url_validation`` is answered once its signature is good, with the secret that made it.

    Args:
        secrets: The app's webhook secret token; several while one is being rolled; or a callable asked per request.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future. Zoom
            states none, nor whether a retry is signed with a time of its own: two hours take every retry.

    Raises:
        ConfigurationError: No secret, or a tolerance that bounds nothing.
    """

    provider = "zoom"
    scheme = scheme_of(
        header="x-zm-signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp="header:x-zm-request-timestamp",
        tolerance_seconds=7_200,
    )
    naming = naming_of(event_id="digest", event_type="$.event", created="$.event_ts")
    facts = Facts(
        title="Zoom",
        signature=Fact("`x-zm-signature: v0=HEX`, HMAC-SHA256 of `v0:timestamp:body`", DIRECTORY),
        secret=Fact("text, the app's webhook secret token", DIRECTORY),
        event_id=Fact(
            "none is known. The bytes of the body are the id; they hold `event_ts` in milliseconds", DIRECTORY
        ),
        event_type=Fact("the body's `event`", DIRECTORY),
        window=Fact("none is stated, `x-zm-request-timestamp`", DIRECTORY),
        handshake=Fact(
            "`endpoint.url_validation`: `plainToken` and its HMAC, 200 within 3 s; again every 72 h",
            DIRECTORY,
        ),
        answer=Fact("200 or 204 within 3 s", DIRECTORY, 3),
        retries=Fact(
            "after 5, 20 and 60 min, for 5xx only; 3xx and 4xx are final", DIRECTORY, _RETRY_SECONDS
        ),
        past_events=Fact("a log of 7 days by API, without a resend", DIRECTORY),
        list_api=True,
        weaknesses=(
            "No id is sent: two subscriptions of one endpoint are told apart only by their bytes.",
            "A refusal is final, so a wrong secret or a wrong clock loses what is sent meanwhile.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, tolerance_seconds: float = 7_200) -> None:
        super().__init__(secrets)
        self.scheme = self.scheme.within(tolerance_seconds, setting=self.setting("tolerance_seconds"))

    def answer(self, delivery: Delivery, secrets: Sequence[Secret]) -> Answer | None:
        """Prove that the secret is known here, for a token that could never be a delivery's signed content."""
        values = _VALIDATION.read(delivery.body)
        if isinstance(values, Unreadable) or values[0] != "endpoint.url_validation":
            return None
        token = values[1]
        signing = [each for each in secrets if isinstance(self.verify(delivery, [each]), Verified)]
        if not signing or not isinstance(token, str) or not _HARMLESS.fullmatch(token):
            return Answer(status=400)
        proof = hmac.digest(signing[0].reveal().encode(), token.encode(), "sha256").hex()
        body = json.dumps({"plainToken": token, "encryptedToken": proof}, separators=(",", ":"))
        return Answer(headers=(("content-type", "application/json"),), body=body.encode())
