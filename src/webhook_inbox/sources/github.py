"""
Recognise GitHub: HMAC-SHA256 of the body, JSON or form-encoded, under an id that only a header carries.

The type is the event's name and, where the body has one, its action: ``issues.opened``, ``push``.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.listing import ApiKey
from webhook_inbox.sources.listing_github import GitHubListing
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.scheme import scheme_of
from webhook_inbox.sources.source import Identity, Reading

_DOCS = "https://docs.github.com/en/webhooks"
_VALIDATING = f"{_DOCS}/using-webhooks/validating-webhook-deliveries"
_BEST_PRACTICES = f"{_DOCS}/using-webhooks/best-practices-for-using-webhooks"
_FAILED = f"{_DOCS}/using-webhooks/handling-failed-webhook-deliveries"
_SCHEMES = MappingProxyType(
    {
        "sha256": scheme_of(header="X-Hub-Signature-256", prefix="sha256="),
        "sha1": scheme_of(header="X-Hub-Signature", prefix="sha1=", algorithm="sha1"),
    }
)


class GitHub(Provider):
    """
    Believe what GitHub signed with one of *secrets*.

    JSON and form-encoded hooks are the same to a handler: ``event.payload`` is the JSON in either. A ``ping``, which
    GitHub sends when a hook is made, is recorded as ignored and reaches no handler.

    Args:
        secrets: The hook's secret, as typed into GitHub; several while one is being rolled; or a callable.
        api_key: A token that may read the hook (fine-grained: "Webhooks", read), to find by ``reconcile`` what never
            arrived; or a callable, for instance one that makes an app's JWT.
        hook: Which hook to ask for: ``repos/OWNER/REPO/hooks/ID``, ``orgs/ORG/hooks/ID`` or ``app/hook``.
        api_base: Where GitHub's API is; of an Enterprise Server: ``https://HOST/api/v3``.
        algorithm: ``sha1`` reads the legacy header, for a GitHub Enterprise Server that sends no other.

    Raises:
        ConfigurationError: No secret, another algorithm, or a hook that is none.
    """

    provider = "github"
    redelivers = False
    signed_id = False
    event_id_form = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
    reconciles = True
    body_bytes_max = 25 * 1_048_576
    naming = naming_of(
        event_id="header:X-GitHub-Delivery", event_type="header:X-GitHub-Event", action="$.action"
    )
    facts = Facts(
        title="GitHub",
        signature=Fact(
            "`X-Hub-Signature-256: sha256=HEX`, HMAC-SHA256 of the body; legacy: `X-Hub-Signature: sha1=`",
            _VALIDATING,
        ),
        secret=Fact("text, chosen by you for each hook", _VALIDATING),
        event_id=Fact("header `X-GitHub-Delivery`, a GUID, the same on redelivery", _BEST_PRACTICES),
        event_type=Fact(
            "header `X-GitHub-Event`, and the body's `action` where there is one",
            f"{_DOCS}/webhook-events-and-payloads",
        ),
        window=Fact("no time is signed", _VALIDATING),
        handshake=Fact("a signed `ping` when the hook is made; any 2xx", DIRECTORY),
        answer=Fact("2xx within 10 s (Enterprise Server: 30 s)", _BEST_PRACTICES, 10),
        retries=Fact("none by itself; by hand or by API for 3 days", _FAILED, 0),
        past_events=Fact(
            "`GET /repos/{owner}/{repo}/hooks/{id}/deliveries` (organizations and apps too), `POST .../attempts`; "
            "3 days back",
            _FAILED,
            3 * 86_400.0,
        ),
        list_api=True,
        weaknesses=(
            "Neither time nor id nor event name is signed: whoever holds one signed body can send it under others.",
            "Nothing is sent again after a failure: use queued or hybrid mode, and reconcile within the 3 days.",
            "A payload over 25 MB is not sent at all.",
            "Marketplace, Sponsors and global hooks have no list of deliveries.",
        ),
    )

    def __init__(
        self,
        secrets: SecretsGiven,
        *,
        algorithm: Literal["sha256", "sha1"] = "sha256",
        api_key: ApiKey | None = None,
        hook: str = "",
        api_base: str = "https://api.github.com",
    ) -> None:
        if algorithm not in _SCHEMES:
            raise ConfigurationError("GitHub(algorithm=...) must be 'sha256' or 'sha1'")
        self.scheme = _SCHEMES[algorithm]
        super().__init__(secrets)
        if bool(hook) is (api_key is None):
            raise ConfigurationError("GitHub(api_key=..., hook=...): give both, or none")
        if api_key is not None:
            self.listing = GitHubListing(api_key, api_base=api_base, hook=hook, identify=self.identify)

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of the body; a ping has no effect."""
        (reading,) = super().identify(delivery)
        if isinstance(reading, Identity) and reading.event_type == "ping":
            return (replace(reading, ignore="a ping: GitHub tries the hook"),)
        return (reading,)
