"""Recognise Typeform: HMAC-SHA256 of the body, in base64 behind ``sha256=``."""

from __future__ import annotations

from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of


class Typeform(Provider):
    """
    Believe what Typeform signed with one of *secrets*.

    Args:
        secrets: The webhook's secret; several while one is being rolled; or a callable asked per request.

    Raises:
        ConfigurationError: No secret.
    """

    provider = "typeform"
    scheme = scheme_of(header="Typeform-Signature", prefix="sha256=", encoding="base64")
    naming = naming_of(
        event_id="$.event_id", event_type="$.event_type", created="$.form_response.submitted_at"
    )
    facts = Facts(
        title="Typeform",
        signature=Fact("`Typeform-Signature: sha256=BASE64` (not hex), HMAC-SHA256 of the body", DIRECTORY),
        secret=Fact("text, chosen by you", DIRECTORY),
        event_id=Fact("the body's `event_id`", "third party: trigger.dev"),
        event_type=Fact("the body's `event_type`, such as `form_response`", "third party: trigger.dev"),
        window=Fact("no time is signed", DIRECTORY),
        answer=Fact("not confirmed"),
        retries=Fact(
            "after 5, 10 and 20 min; the official schedule is not confirmed",
            "third party, one tutorial",
            35 * 60,
        ),
        past_events=Fact("the Responses API with `since` has the answers themselves", "third party"),
        weaknesses=("No time is signed.",),
    )
