"""
Recognise Jira Cloud's admin webhooks: an HMAC of the body whose hash the header names.

Whichever hash it is, the secret is the same, so a header cannot talk this source into believing anything else; SHA-1 is
refused all the same, since Jira was never seen to send it.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import get_args

from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import Algorithm, scheme_of
from webhook_inbox.sources.source import Verdict

_SCHEMES = MappingProxyType(
    {
        f"{algorithm}=": scheme_of(header="X-Hub-Signature", prefix=f"{algorithm}=", algorithm=algorithm)
        for algorithm in get_args(Algorithm)
        if algorithm != "sha1"
    }
)


class Jira(Provider):
    """
    Believe what Jira Cloud signed with one of *secrets*.

    Only admin webhooks that have a secret sign. Dynamic webhooks of OAuth apps and those of Connect apps authenticate
    otherwise, which this source does not read.

    Args:
        secrets: The webhook's secret; several while one is being rolled; or a callable asked per request.

    Raises:
        ConfigurationError: No secret.
    """

    provider = "jira"
    signed_id = False
    scheme = _SCHEMES["sha256="]
    naming = naming_of(
        event_id="header:X-Atlassian-Webhook-Identifier", event_type="$.webhookEvent", created="$.timestamp"
    )
    facts = Facts(
        title="Jira Cloud",
        signature=Fact(
            "`X-Hub-Signature: METHOD=HEX`, HMAC of the body with the hash that METHOD names (sha256 seen)",
            DIRECTORY,
        ),
        secret=Fact("text, optional; without one nothing is signed", DIRECTORY),
        event_id=Fact(
            "header `X-Atlassian-Webhook-Identifier`, unique for a tenant, the same on retry", DIRECTORY
        ),
        event_type=Fact("the body's `webhookEvent`", DIRECTORY),
        window=Fact("no time is signed", DIRECTORY),
        answer=Fact("2xx; no time limit is known", DIRECTORY),
        retries=Fact(
            "up to 5, with 5 to 15 min between, on 408, 409, 425, 429, 5xx and broken connections",
            DIRECTORY,
            75 * 60,
        ),
        order=Fact("none; at least once", DIRECTORY),
        past_events=Fact(
            "`GET /rest/api/3/webhook/failed` for dynamic webhooks; how far back is not confirmed",
            "third party",
        ),
        weaknesses=(
            "No time is signed, and the id is in a header that the signature does not cover.",
            "Ids are unique for one tenant: give each tenant an endpoint of its own.",
            "Payloads up to 25 MB are sent: raise body_bytes_max where yours pass 1 MiB.",
            "After about 30 minutes of failures each event is tried once only.",
        ),
    )

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Hold the signature against the HMAC of the body, by the hash that it names, under each secret (P-RAW)."""
        method, _, _ = delivery.headers.get("x-hub-signature", "").partition("=")
        return _SCHEMES.get(f"{method}=", self.scheme).verify(delivery, secrets)
