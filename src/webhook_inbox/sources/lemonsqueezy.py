"""Recognise Lemon Squeezy: HMAC-SHA256 of the body; it sends no id of the event, so its bytes are the id."""

from __future__ import annotations

from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of

_REQUESTS = "third party, quoting https://docs.lemonsqueezy.com/help/webhooks/webhook-requests"


def _environment(test_mode: object) -> str:
    """Give the mode that ``meta.test_mode`` names."""
    match test_mode:
        case True:
            return "test"
        case False:
            return "live"
        case _:
            return ""


class LemonSqueezy(Provider):
    """
    Believe what Lemon Squeezy signed with one of *secrets*.

    Args:
        secrets: The webhook's signing secret, as typed into Lemon Squeezy; several while one is being rolled; or a
            callable asked per request.

    Raises:
        ConfigurationError: No secret.
    """

    provider = "lemonsqueezy"
    scheme = scheme_of(header="X-Signature")
    naming = naming_of(
        event_id="digest",
        event_type="$.meta.event_name",
        environment="$.meta.test_mode",
        environments=_environment,
    )
    facts = Facts(
        title="Lemon Squeezy",
        signature=Fact("`X-Signature: HEX`, HMAC-SHA256 of the body", DIRECTORY),
        secret=Fact("text, chosen by you", DIRECTORY),
        event_id=Fact(
            "none is known; `data.id` is the resource. The bytes of the body are the id", DIRECTORY
        ),
        event_type=Fact("the body's `meta.event_name`; header `X-Event-Name`", DIRECTORY),
        window=Fact("no time is signed", DIRECTORY),
        answer=Fact("200", _REQUESTS),
        retries=Fact("3 times, after about 5, 25 and 125 s, then never", _REQUESTS, 155),
        weaknesses=(
            "No time is signed and no id is sent: two events whose bodies are the same to the byte are one event.",
            "It gives up after about 3 minutes.",
        ),
    )
