"""
Recognise SendGrid's event webhook: ECDSA on P-256 over time and body, by the public key of its settings page.

A body is an array of events, and ends with a line end that is signed too. Events may come in other company when they
are sent again, so each is named by itself.

Source: sendgrid 6.12.5.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.place import HeaderPlace
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.public_key import Check, KeyScheme
from webhook_inbox.sources.signature import any_base64
from webhook_inbox.sources.signed_time import SignedTime
from webhook_inbox.sources.source import Verdict

_SDK = "sendgrid 6.12.5"
_DAY_SECONDS = 86_400
_ALGORITHM = ECDSA(SHA256())


def _key_of(secret: str) -> Check | str:
    try:
        key = load_der_public_key(any_base64(secret) or b"")
    except (ValueError, UnsupportedAlgorithm):
        return "is no public key in base64, as shown with the settings of the event webhook"
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        return "is a public key of another kind: SendGrid's is on the curve P-256"
    return lambda signature, content: key.verify(signature, content, _ALGORITHM)


def _signature_of(text: str) -> bytes | None:
    signature = any_base64(text)
    try:
        decode_dss_signature(signature or b"")
    except ValueError:
        return None
    return signature


_SCHEME = KeyScheme(
    header="x-twilio-email-event-webhook-signature",
    spelled="ECDSA signature in base64",
    read=_signature_of,
    key_of=_key_of,
    time=SignedTime(
        HeaderPlace("x-twilio-email-event-webhook-timestamp"), "s", _DAY_SECONDS, None, bare=True
    ),
)


class SendGrid(Provider):
    """
    Believe what SendGrid signed for the event webhook with one of these public keys.

    Args:
        secrets: The verification key, base64 as shown with the webhook's settings; several while it is being changed;
            or a callable asked per request.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future.
            SendGrid states none; a day takes its retries, whether or not each is signed with a time of its own.

    Raises:
        ConfigurationError: No key, one that is none, or a tolerance that bounds nothing.
    """

    provider = "sendgrid"
    naming = naming_of(items="$", event_id="$.sg_event_id", event_type="$.event", created="$.timestamp")
    facts = Facts(
        title="SendGrid",
        signature=Fact(
            "`X-Twilio-Email-Event-Webhook-Signature: BASE64`, ECDSA (P-256, SHA-256) of time and body, nothing "
            "between; signing must be switched on",
            _SDK,
        ),
        secret=Fact("base64 of the public key, shown with the webhook's settings", _SDK),
        event_id=Fact("the item's `sg_event_id`; it may pass 100 characters", DIRECTORY),
        event_type=Fact("the item's `event`", DIRECTORY),
        window=Fact("none is stated, `X-Twilio-Email-Event-Webhook-Timestamp`", _SDK),
        answer=Fact("2xx; a time limit is not confirmed", DIRECTORY),
        retries=Fact("at growing intervals for 24 h", DIRECTORY, _DAY_SECONDS),
        weaknesses=(
            "A webhook whose signing is not switched on is refused.",
            "Whether a retry carries the same events together is not confirmed: each event is deduplicated by itself.",
        ),
    )

    def __init__(self, secrets: SecretsGiven, *, tolerance_seconds: float = _DAY_SECONDS) -> None:
        super().__init__(secrets)
        self._scheme = _SCHEME.within(tolerance_seconds, setting=self.setting("tolerance_seconds"))

    def check_secret(self, secret: Secret) -> None:
        """Refuse what is no public key of SendGrid's kind."""
        key = _key_of(secret.reveal())
        if isinstance(key, str):
            raise ConfigurationError(f"sendgrid: {secret.label} {key}")

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Check the signature of time and body by each key (P-RAW)."""
        return self._scheme.verify(delivery, secrets)
