"""
Recognise GitLab: by its signing token (Standard Webhooks), or by the older secret token, which signs nothing.

The kind of secret decides, never the header: ``whsec_...`` checks signatures alone, anything else is compared with
``X-Gitlab-Token``.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven, secrets_of
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.identity import Places, name_event
from webhook_inbox.sources.keys import check_tolerance
from webhook_inbox.sources.place import BodyPlace, Fields, HeaderPlace
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.source import Reading, Unreadable, Verdict, Verified
from webhook_inbox.sources.standard_keys import key_of
from webhook_inbox.sources.standard_webhooks import verify_standard_webhooks
from webhook_inbox.sources.token import verify_token

_WEBHOOKS = "https://docs.gitlab.com/user/project/integrations/webhooks/"
_SIGNING = "gitlab.com/gitlab-org/gitlab, merge requests 230944 and 231325"
_HEADER = "x-gitlab-token"
_FIELDS = Fields(
    (
        HeaderPlace("webhook-id"),
        HeaderPlace("idempotency-key"),
        BodyPlace(("object_kind",)),
        BodyPlace(("event_name",)),
        HeaderPlace("x-gitlab-event"),
    )
)


class GitLab(Provider):
    """
    Believe what GitLab signed with one of *secrets*, or sent along with one of them.

    The type is the body's ``object_kind`` (``push``, ``merge_request``); where there is none, as in system hooks, its
    ``event_name``; else the header ``X-Gitlab-Event``.

    Args:
        secrets: The hook's signing token (``whsec_...``), or its secret token as typed into GitLab; several while one
            is being rolled, of either kind; or a callable asked per request.
        tolerance_seconds: How far the signed time may lie from this host's clock; secret tokens sign none.

    Raises:
        ConfigurationError: A secret of a wrong form, a tolerance that bounds nothing.
    """

    provider = "gitlab"
    redelivers = False
    signed_id = False  # unless every secret is a signing token
    secret_headers = frozenset({_HEADER})
    facts = Facts(
        title="GitLab",
        signature=Fact(
            "signing token: `webhook-signature: v1,BASE64`, HMAC-SHA256 of `id.timestamp.body`; "
            "secret token: nothing is signed, `X-Gitlab-Token` carries the secret",
            f"{_SIGNING}; {_WEBHOOKS}",
        ),
        secret=Fact(
            "signing token: `whsec_` and base64 of 32 bytes; secret token: text, chosen by you", _SIGNING
        ),
        event_id=Fact(
            "header `webhook-id`, equal to `Idempotency-Key`, the same on retry and resend (17.4)", _WEBHOOKS
        ),
        event_type=Fact("the body's `object_kind`; header `X-Gitlab-Event`", _WEBHOOKS),
        window=Fact("300 s both ways, as in the library of Standard Webhooks", "standardwebhooks 1.1.0", 300),
        answer=Fact(
            "200 or 201, on GitLab.com within 10 s; set by the administrator elsewhere", DIRECTORY, 10
        ),
        retries=Fact(
            "no schedule is documented; a timeout can bring the same event twice", f"{DIRECTORY}; {_WEBHOOKS}"
        ),
        past_events=Fact(
            "`GET /projects/:id/hooks/:hook_id/events` (groups too), resend by event id; 2 days in the pages",
            _WEBHOOKS,
        ),
        list_api=True,
        weaknesses=(
            "With a secret token nothing is signed: whoever sees one delivery can make others. Use a signing token.",
            "4 failures in a row disable a hook of GitLab.com, for a minute at first; 40 do so for good.",
            "X-Gitlab-Event-UUID is shared by recursive hooks, X-Gitlab-Webhook-UUID names the hook: neither is an id.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, tolerance_seconds: float = 300) -> None:
        super().__init__(secrets)
        self.tolerance_seconds = check_tolerance(tolerance_seconds, setting=self.setting("tolerance_seconds"))
        self.signed_id = not callable(self.secrets) and all(
            _is_signing_token(secret) for secret in secrets_of(self.secrets, setting=self.setting("secrets"))
        )

    def check_secret(self, secret: Secret) -> None:
        """Refuse what begins like a signing token and is none."""
        key = key_of(secret.reveal()) if _is_signing_token(secret) else ""
        if isinstance(key, str) and key:
            raise ConfigurationError(f"gitlab: {secret.label} {key}")

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Check the signature with signing tokens; compare ``X-Gitlab-Token`` with all others (P-RAW)."""
        signing = [secret for secret in secrets if _is_signing_token(secret)]
        tokens = [secret for secret in secrets if not _is_signing_token(secret)]
        if signing:
            verdict = verify_standard_webhooks(delivery, signing, self.tolerance_seconds, family="webhook")
            if isinstance(verdict, Verified) or not tokens:
                return verdict
        return verify_token(delivery.headers, _HEADER, tokens)

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Name the one event of the body; where there is a signature, by the id that it covers."""
        values = _FIELDS.read(delivery.headers, delivery.body)
        if isinstance(values, Unreadable):
            return (values,)
        signed_id, key, kind, name, header = values
        signed = "webhook-signature" in delivery.headers
        return (
            name_event(
                Places(
                    event_id=f"header:{'webhook-id' if signed else 'idempotency-key'}",
                    event_type="$.object_kind",
                ),
                event_id=signed_id if signed else key,
                event_type=kind or name or header,
            ),
        )


def _is_signing_token(secret: Secret) -> bool:
    return secret.reveal().startswith("whsec_")
