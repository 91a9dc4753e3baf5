"""
Recognise Amazon SNS by the signature inside the body, with the certificate that the body names.

The certificate is fetched from SNS itself, in the region of the topics that are configured: no body can have us fetch
from anywhere else. What is signed is a line with the name and a line with the value of some members. A line end in a
value could make two members of one, so only the message may hold one; it stands first, and the rest is counted from the
end.

Source: sns-validator 0.3.5; docs.aws.amazon.com, "Verifying the signatures of Amazon SNS messages".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from cryptography.hazmat.primitives.hashes import SHA1, SHA256, HashAlgorithm

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.certificate import (
    check_by,
    fetch_certificate,
    published,
    refuse_no_certificate,
)
from webhook_inbox.sources.facts import Fact, Facts
from webhook_inbox.sources.fetched import Fetched
from webhook_inbox.sources.identity import time_of
from webhook_inbox.sources.keys import check_tolerance, settle_secrets
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.place import BodyPlace, Fields
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.public_key import passes
from webhook_inbox.sources.signature import any_base64, outside_tolerance
from webhook_inbox.sources.source import Rejected, Unreadable, Verdict, Verified

_SDK = "sns-validator 0.3.5"
_DELIVERY = "Amazon SNS, Message delivery retries"
_TOPIC = re.compile(r"arn:(aws|aws-cn|aws-us-gov):sns:([a-z0-9-]{1,32}):[0-9]{12}:[A-Za-z0-9_.-]{1,256}")
_CERTIFICATE = re.compile(r"https://(sns\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?)/[A-Za-z0-9_-]{1,128}\.pem")
_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_SIGNED: Mapping[object, tuple[str, ...]] = MappingProxyType(
    {
        "Notification": _NOTIFICATION,
        "SubscriptionConfirmation": _CONFIRMATION,
        "UnsubscribeConfirmation": _CONFIRMATION,
    }
)
_HASHES: Mapping[object, type[HashAlgorithm]] = MappingProxyType({"1": SHA1, "2": SHA256})
_MEMBERS = tuple(
    dict.fromkeys((*_NOTIFICATION, *_CONFIRMATION, "Signature", "SignatureVersion", "SigningCertURL"))
)
_FIELDS = Fields(tuple(BodyPlace((name,)) for name in _MEMBERS))
_NO_SIGNATURE = Rejected("signature_missing", "no signature of SNS's in the body")


class Sns(Provider):
    """
    Believe what SNS signed for one of *topics*.

    The type is the message's: ``Notification``; ``SubscriptionConfirmation`` is an event as well, whose handler
    confirms by opening its ``SubscribeURL``.

    Args:
        topics: The ARN of the topic, or of several.
        certificates: PEM of the certificates that may sign, if they are not to be fetched from SNS.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future. It is
            that of the publishing, and retries go on for up to an hour.

    Raises:
        ConfigurationError: No topic, one that is none, a certificate that is none, or a tolerance that bounds nothing.
    """

    provider = "sns"
    signed_id = False
    naming = naming_of(event_id="$.MessageId", event_type="$.Type", created="$.Timestamp")
    facts = Facts(
        title="Amazon SNS",
        signature=Fact(
            "the body's `Signature: BASE64`, RSA (PKCS #1 v1.5) with SHA-1 or SHA-256, as `SignatureVersion` says, of "
            "some members",
            _SDK,
        ),
        secret=Fact("none: a certificate, fetched from `SigningCertURL`; the topic must be yours", _SDK),
        event_id=Fact("the body's `MessageId`, the same on a retry", _DELIVERY),
        event_type=Fact("the body's `Type`", _SDK),
        window=Fact("none is stated, the body's `Timestamp`", _SDK),
        handshake=Fact(
            "a `SubscriptionConfirmation`: open its `SubscribeURL`", "Amazon SNS, HTTP/S endpoints"
        ),
        answer=Fact("2xx; 5xx and 429 are sent again, other 4xx are not", "third party"),
        retries=Fact("3 times, 20 s apart, unless the subscription has a policy; 1 h at most", _DELIVERY, 60),
        weaknesses=(
            "`MessageAttributes` are not signed.",
            "The subscription is not confirmed by itself: have a handler open `SubscribeURL`.",
            "A first delivery asks SNS for its certificate; where SNS cannot be reached, the answer is 503.",
            "Raw message delivery carries no signature, and is refused.",
        ),
    )

    def __init__(
        self,
        topics: str | Iterable[str],
        *,
        certificates: SecretsGiven = None,
        tolerance_seconds: float = 7_200,
        fetched: Fetched | None = None,
    ) -> None:
        self.topics = frozenset([topics] if isinstance(topics, str) else topics)
        found = [_TOPIC.fullmatch(topic) for topic in self.topics]
        self._hosts = frozenset(_host(arn[1], arn[2]) for arn in found if arn)
        if not found or None in found:
            raise ConfigurationError(
                f"{self.setting('topics')} must be ARNs of topics: arn:aws:sns:REGION:ACCOUNT:NAME"
            )
        self.tolerance_seconds = check_tolerance(tolerance_seconds, setting=self.setting("tolerance_seconds"))
        self._fetched = fetched or Fetched(fetch_certificate)
        asked: Callable[[Delivery], object] = self._certificates
        self.secrets = (
            asked
            if certificates is None
            else settle_secrets(self, certificates, setting=self.setting("certificates"))
        )

    def check_secret(self, secret: Secret) -> None:
        """Refuse what is no certificate of an RSA key."""
        refuse_no_certificate(secret, provider=self.provider)

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Check the signature of the members by each certificate that is valid now."""
        members = _members(delivery)
        signed = self._signed(members)
        if isinstance(signed, Rejected):
            return signed
        signature, content, hashed = signed
        for secret in secrets:
            check = check_by(secret.reveal(), hashed, now=delivery.received_at)
            if check and passes(check, signature, content):
                return self._refusal(members, delivery.received_at) or Verified(secret.label)
        return Rejected(
            "signature_mismatch", "the signature in the body was made by another key, or over other members"
        )

    def _signed(self, members: Mapping[str, object]) -> tuple[bytes, bytes, HashAlgorithm] | Rejected:
        """Give the signature, what it signs, and how that is hashed."""
        text = members.get("Signature")
        if not text or not isinstance(text, str):
            return _NO_SIGNATURE
        if not self._trusts(members.get("SigningCertURL")):
            return Rejected(
                "signature_malformed", "SigningCertURL is not one of SNS in the region of the topics"
            )
        version = members.get("SignatureVersion")
        if not isinstance(version, str) or version not in _HASHES:
            return Rejected("signature_version", "no SignatureVersion that is known here")
        signature, content = any_base64(text), _content(members)
        if signature is None or content is None:
            return Rejected(
                "signature_malformed", "the signature in the body, or a signed member, is malformed"
            )
        return signature, content, _HASHES[version]()

    def _refusal(self, members: Mapping[str, object], now: float) -> Rejected | None:
        """Refuse what SNS signed for somebody else, or long ago."""
        if members["TopicArn"] not in self.topics:
            return Rejected("signature_mismatch", "signed by SNS, but for a topic that is not configured")
        moment = time_of(members["Timestamp"])
        if moment is None:
            return Rejected("timestamp_malformed", "no signed time can be read at $.Timestamp")
        return outside_tolerance(moment.timestamp(), now, self.tolerance_seconds)

    def _trusts(self, url: object) -> bool:
        found = _CERTIFICATE.fullmatch(url) if isinstance(url, str) else None
        return found is not None and found[1] in self._hosts

    def _certificates(self, delivery: Delivery) -> list[Secret]:
        """
        Give the certificate that the body names, if it is SNS's to give; asked on a thread, per delivery.

        For a topic that is configured, which few strangers know: others cannot have SNS asked at all.
        """
        members = _members(delivery)
        url, topic = members.get("SigningCertURL"), members.get("TopicArn")
        if not isinstance(topic, str) or topic not in self.topics:
            return []
        return published(self._fetched, url) if isinstance(url, str) and self._trusts(url) else []


def _host(partition: str, region: str) -> str:
    return f"sns.{region}.amazonaws.com{'.cn' if partition == 'aws-cn' else ''}"


def _members(delivery: Delivery) -> dict[str, object]:
    values = _FIELDS.read(delivery.headers, delivery.body)
    return {} if isinstance(values, Unreadable) else dict(zip(_MEMBERS, values, strict=True))


def _content(members: Mapping[str, object]) -> bytes | None:
    """Give the signed lines; None where a member is missing, is no text, or could be cut into two."""
    kind = members.get("Type")
    lines = []
    for name in _SIGNED.get(kind, ()) if isinstance(kind, str) else ():
        value = members[name]
        if value is None and name == "Subject":
            continue
        if not isinstance(value, str) or (name != "Message" and "\n" in value):
            return None
        lines.append(f"{name}\n{value}\n")
    return "".join(lines).encode("utf-8", "surrogatepass") if lines else None
