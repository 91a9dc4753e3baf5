"""
Make whole deliveries as each provider sends them: for users' tests, and for ``webhook-inbox send --source``.

As ``signing.py``, written from the providers' own texts and sharing no code with ``webhook_inbox.sources``.

Most providers sign the bytes as they are. A few put what they sign inside the body: those bodies must be JSON objects,
and they are written anew with the signature, or the time of this attempt, in its place.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_private_key

from webhook_inbox.testing.signing import HeaderPairs, sign_hmac, sign_standard_webhooks, sign_stripe


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """
    Hold what is to be sent, before it is signed.

    Attributes:
        body: The payload.
        secret: What the provider signs with. Discord, SendGrid and SNS sign with a private key: 32 bytes in hex; base64
            of PKCS #8 in DER for the others. The receiver has the public half.
        event_id: For providers that name the event outside its body; the same on every attempt.
        event_type: For providers that name its type outside its body; empty elsewhere.
        timestamp: Unix seconds of this attempt.
        url: Where it is sent; some providers sign it.
    """

    body: bytes
    secret: str
    event_id: str
    timestamp: int
    event_type: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Signed:
    """Hold a delivery: its headers (beside ``content-type`` where that is JSON), and its body."""

    headers: HeaderPairs
    body: bytes


Signer: TypeAlias = Callable[[Draft], Signed]

# What these send of an event's type stands in a header: without one, a delivery of theirs names no event.
TYPE_IN_HEADER = frozenset({"bitbucket", "github", "shopify", "woocommerce"})


def _plain(header: str, **options: Any) -> Signer:  # noqa: ANN401 - as sign_hmac
    """Sign the body, and nothing else."""
    return lambda draft: Signed(sign_hmac(draft.body, draft.secret, header, **options), draft.body)


def _named(header: str, event_id: str, event_type: str = "", **options: Any) -> Signer:  # noqa: ANN401
    """Sign the body, and name id and type of the event in headers beside it."""

    def sign(draft: Draft) -> Signed:
        kind = ((event_type, draft.event_type),) if event_type and draft.event_type else ()
        return Signed(
            ((event_id, draft.event_id), *kind, *sign_hmac(draft.body, draft.secret, header, **options)),
            draft.body,
        )

    return sign


def _stripe(draft: Draft) -> Signed:
    return Signed(sign_stripe(draft.body, draft.secret, draft.timestamp), draft.body)


def _standard_webhooks(draft: Draft) -> Signed:
    headers = sign_standard_webhooks(draft.body, draft.secret, draft.event_id, draft.timestamp)
    return Signed(headers, draft.body)


def _svix(draft: Draft) -> Signed:
    headers = sign_standard_webhooks(draft.body, draft.secret, draft.event_id, draft.timestamp, family="svix")
    return Signed(headers, draft.body)


def _github(draft: Draft) -> Signed:
    """Sign as GitHub; of a type such as ``issues.opened`` the action is in the body already."""
    named = (("x-github-event", draft.event_type.partition(".")[0]), ("x-github-delivery", draft.event_id))
    return Signed(
        (*named, *sign_hmac(draft.body, draft.secret, "x-hub-signature-256", prefix="sha256=")), draft.body
    )


def _gitlab(draft: Draft) -> Signed:
    """Sign with a signing token; send any other secret along."""
    named: HeaderPairs = (("idempotency-key", draft.event_id),)
    if draft.event_type:
        named += (("x-gitlab-event", draft.event_type),)
    if draft.secret.startswith("whsec_"):
        return Signed((*named, *_standard_webhooks(draft).headers), draft.body)
    return Signed((*named, ("x-gitlab-token", draft.secret)), draft.body)


def _slack(draft: Draft) -> Signed:
    before = f"v0:{draft.timestamp}:".encode("ascii")
    signature = sign_hmac(draft.body, draft.secret, "x-slack-signature", prefix="v0=", before=before)
    return Signed((("x-slack-request-timestamp", str(draft.timestamp)), *signature), draft.body)


def _zoom(draft: Draft) -> Signed:
    before = f"v0:{draft.timestamp}:".encode("ascii")
    signature = sign_hmac(draft.body, draft.secret, "x-zm-signature", prefix="v0=", before=before)
    return Signed((("x-zm-request-timestamp", str(draft.timestamp)), *signature), draft.body)


def _paddle(draft: Draft) -> Signed:
    prefix, before = f"ts={draft.timestamp};h1=", f"{draft.timestamp}:".encode("ascii")
    return Signed(
        sign_hmac(draft.body, draft.secret, "paddle-signature", prefix=prefix, before=before), draft.body
    )


def _calendly(draft: Draft) -> Signed:
    prefix, before = f"t={draft.timestamp},v1=", f"{draft.timestamp}.".encode("ascii")
    header = "calendly-webhook-signature"
    return Signed(sign_hmac(draft.body, draft.secret, header, prefix=prefix, before=before), draft.body)


def _zendesk(draft: Draft) -> Signed:
    sent_at = datetime.fromtimestamp(draft.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    signature = sign_hmac(
        draft.body,
        draft.secret,
        "x-zendesk-webhook-signature",
        encoding="base64",
        before=sent_at.encode("ascii"),
    )
    named = (
        ("x-zendesk-webhook-invocation-id", draft.event_id),
        ("x-zendesk-webhook-signature-timestamp", sent_at),
    )
    return Signed((*named, *signature), draft.body)


def _linear(draft: Draft) -> Signed:
    """Sign as Linear, whose body holds the time of sending."""
    payload = _object(draft.body, "linear")
    body = _written(payload | {"webhookTimestamp": draft.timestamp * 1000})
    return Signed(
        (("linear-delivery", draft.event_id), *sign_hmac(body, draft.secret, "linear-signature")), body
    )


def _mailgun(draft: Draft) -> Signed:
    """Sign as Mailgun: a time and a token in the body; the token is one for each event id."""
    payload = _object(draft.body, "mailgun")
    token = hashlib.sha256(draft.event_id.encode("utf-8")).hexdigest()[:50]
    content = f"{draft.timestamp}{token}".encode("ascii")
    signature = hmac.new(draft.secret.encode("utf-8"), content, hashlib.sha256).hexdigest()
    signed = {"timestamp": str(draft.timestamp), "token": token, "signature": signature}
    return Signed((), _written(payload | {"signature": signed}))


def _adyen(draft: Draft) -> Signed:
    """Sign as Adyen: each item of a payment webhook by itself, any other body as a whole."""
    key = bytes.fromhex(draft.secret)
    payload = _object(draft.body, "adyen")
    if "notificationItems" not in payload:
        return Signed(sign_hmac(draft.body, key, "hmacsignature", encoding="base64"), draft.body)
    for item in payload["notificationItems"]:
        fields = item["NotificationRequestItem"]
        digest = hmac.new(key, _adyen_content(fields).encode("utf-8"), hashlib.sha256).digest()
        signature = base64.b64encode(digest).decode("ascii")
        fields["additionalData"] = fields.get("additionalData", {}) | {"hmacSignature": signature}
    return Signed((), _written(payload))


def _adyen_content(fields: Mapping[str, Any]) -> str:
    amount = fields.get("amount", {})
    values = (
        fields.get("pspReference"),
        fields.get("originalReference"),
        fields.get("merchantAccountCode"),
        fields.get("merchantReference"),
        amount.get("value"),
        amount.get("currency"),
        fields.get("eventCode"),
        fields.get("success"),
    )
    return ":".join("" if value is None else str(value) for value in values)


def _discord(draft: Draft) -> Signed:
    sent_at = str(draft.timestamp)
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(draft.secret))
    signature = key.sign(sent_at.encode("ascii") + draft.body).hex()
    return Signed((("x-signature-timestamp", sent_at), ("x-signature-ed25519", signature)), draft.body)


def _sendgrid(draft: Draft) -> Signed:
    sent_at = str(draft.timestamp)
    key = load_der_private_key(base64.b64decode(draft.secret), None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise TypeError("sendgrid signs with a private key on the curve P-256")
    signature = key.sign(sent_at.encode("ascii") + draft.body, ECDSA(SHA256()))
    headers = (
        ("x-twilio-email-event-webhook-timestamp", sent_at),
        ("x-twilio-email-event-webhook-signature", base64.b64encode(signature).decode("ascii")),
    )
    return Signed(headers, draft.body)


def _square(draft: Draft) -> Signed:
    header, url = "x-square-hmacsha256-signature", draft.url.encode("utf-8")
    return Signed(sign_hmac(draft.body, draft.secret, header, encoding="base64", before=url), draft.body)


def _hubspot(draft: Draft) -> Signed:
    """Sign as HubSpot's version 3, which decodes some escapes of the URL."""
    url, sent_at = draft.url, f"{draft.timestamp}000"
    for character in ":/?@!$'()*,;":
        url = url.replace(f"%{ord(character):02X}", character)
    signature = sign_hmac(
        draft.body,
        draft.secret,
        "x-hubspot-signature-v3",
        encoding="base64",
        before=f"POST{url}".encode(),
        after=sent_at.encode("ascii"),
    )
    return Signed((("x-hubspot-request-timestamp", sent_at), *signature), draft.body)


def _twilio(draft: Draft) -> Signed:
    """Sign as Twilio: a form with its URL; of JSON the URL alone, which must hold the hash of the body."""
    if draft.body.lstrip().startswith((b"{", b"[")):
        return Signed(_twilio_signature(draft, ""), draft.body)
    form = parse_qs(draft.body.decode("ascii"), keep_blank_values=True)
    members = "".join(f"{name}{value}" for name in sorted(form) for value in sorted(set(form[name])))
    named = (
        ("content-type", "application/x-www-form-urlencoded"),
        ("i-twilio-idempotency-token", draft.event_id),
    )
    return Signed((*named, *_twilio_signature(draft, members)), draft.body)


def _twilio_signature(draft: Draft, members: str) -> HeaderPairs:
    content = f"{draft.url}{members}".encode()
    return sign_hmac(content, draft.secret, "x-twilio-signature", algorithm="sha1", encoding="base64")


def _sns(draft: Draft) -> Signed:
    """Sign as SNS, in a body that holds the time of this attempt and names SNS's certificate."""
    moment = datetime.fromtimestamp(draft.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    url = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-fake.pem"
    payload = _object(draft.body, "sns") | {
        "Timestamp": moment,
        "SignatureVersion": "2",
        "SigningCertURL": url,
    }
    names = ("Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
    content = "".join(f"{name}\n{payload[name]}\n" for name in names if name in payload)
    der = base64.b64decode(draft.secret)
    key = load_der_private_key(
        der, None, unsafe_skip_rsa_key_validation=True
    )  # a check takes longer than all else
    if not isinstance(key, RSAPrivateKey):
        raise TypeError("sns signs with an RSA key")
    signature = key.sign(content.encode(), PKCS1v15(), SHA256())
    return Signed((), _written(payload | {"Signature": base64.b64encode(signature).decode("ascii")}))


def _telegram(draft: Draft) -> Signed:
    return Signed((("x-telegram-bot-api-secret-token", draft.secret),), draft.body)


def _postmark(draft: Draft) -> Signed:
    credentials = base64.b64encode(draft.secret.encode("utf-8")).decode("ascii")
    return Signed((("authorization", f"Basic {credentials}"),), draft.body)


def _object(body: bytes, provider: str) -> dict[str, Any]:
    payload = json.loads(body)
    if not isinstance(payload, dict):
        raise TypeError(f"{provider} signs inside the body, which must be a JSON object")
    return payload


def _written(payload: Mapping[str, Any]) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


# What ``webhook-inbox send --source`` offers, by the sources' own names; ``svix`` is Standard Webhooks' other headers.
SIGNERS: Mapping[str, Signer] = MappingProxyType(
    {
        "adyen": _adyen,
        "bitbucket": _named("x-hub-signature", "x-request-uuid", "x-event-key", prefix="sha256="),
        "calendly": _calendly,
        "discord": _discord,
        "docusign": _plain("x-docusign-signature-1", encoding="base64"),
        "github": _github,
        "gitlab": _gitlab,
        "hubspot": _hubspot,
        "intercom": _plain("x-hub-signature", prefix="sha1=", algorithm="sha1"),
        "jira": _named("x-hub-signature", "x-atlassian-webhook-identifier", prefix="sha256="),
        "lemonsqueezy": _plain("x-signature"),
        "linear": _linear,
        "mailgun": _mailgun,
        "meta": _plain("x-hub-signature-256", prefix="sha256="),
        "mollie": _plain("x-mollie-signature", prefix="sha256="),
        "paddle": _paddle,
        "postmark": _postmark,
        "sendgrid": _sendgrid,
        "shopify": _named(
            "x-shopify-hmac-sha256", "x-shopify-event-id", "x-shopify-topic", encoding="base64"
        ),
        "slack": _slack,
        "sns": _sns,
        "square": _square,
        "standard-webhooks": _standard_webhooks,
        "stripe": _stripe,
        "svix": _svix,
        "telegram": _telegram,
        "twilio": _twilio,
        "typeform": _plain("typeform-signature", prefix="sha256=", encoding="base64"),
        "woocommerce": _named(
            "x-wc-webhook-signature", "x-wc-webhook-delivery-id", "x-wc-webhook-topic", encoding="base64"
        ),
        "xero": _plain("x-xero-signature", encoding="base64"),
        "zendesk": _zendesk,
        "zoom": _zoom,
    }
)
