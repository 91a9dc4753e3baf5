"""Sign with a private key, of which the receiver has the public half; ``key_pairs`` makes both."""

from __future__ import annotations

import base64
import hashlib
import zlib
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_private_key

from webhook_inbox.testing.signers.draft import Draft, Signed, json_object, written


def discord(draft: Draft) -> Signed:
    """Sign as Discord, by an Ed25519 key."""
    sent_at = str(draft.timestamp)
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(draft.secret))
    signature = key.sign(sent_at.encode("ascii") + draft.body).hex()
    return Signed((("x-signature-timestamp", sent_at), ("x-signature-ed25519", signature)), draft.body)


def paypal(draft: Draft) -> Signed:
    """Sign as PayPal: the secret is the webhook's id, a colon and an RSA key, after ``sandbox:`` where it is there."""
    secret = draft.secret.removeprefix("sandbox:")
    host = "api.paypal.com" if secret == draft.secret else "api.sandbox.paypal.com"
    webhook_id, _, key = secret.partition(":")
    sent_at = datetime.fromtimestamp(draft.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    transmission_id = str(uuid5(NAMESPACE_URL, f"{draft.event_id} {draft.timestamp}"))
    content = f"{transmission_id}|{sent_at}|{webhook_id}|{zlib.crc32(draft.body)}"
    headers = (
        ("paypal-transmission-id", transmission_id),
        ("paypal-transmission-time", sent_at),
        ("paypal-auth-algo", "SHA256withRSA"),
        ("paypal-cert-url", f"https://{host}/v1/notifications/certs/CERT-fake"),
        ("paypal-transmission-sig", _rsa(key, content, "paypal")),
    )
    return Signed(headers, draft.body)


def plaid(draft: Draft) -> Signed:
    """Sign as Plaid: a token that names the key ``fake-kid-1``, by a key on the curve P-256."""
    claims = {"iat": draft.timestamp, "request_body_sha256": hashlib.sha256(draft.body).hexdigest()}
    header = {"alg": "ES256", "kid": "fake-kid-1", "typ": "JWT"}
    content = b".".join(_base64url(written(part)) for part in (header, claims))
    r, s = decode_dss_signature(_p256(draft.secret, "plaid").sign(content, ECDSA(SHA256())))
    signature = _base64url(r.to_bytes(32) + s.to_bytes(32))
    return Signed((("plaid-verification", (content + b"." + signature).decode("ascii")),), draft.body)


def sendgrid(draft: Draft) -> Signed:
    """Sign as SendGrid, by a key on the curve P-256."""
    sent_at = str(draft.timestamp)
    content = sent_at.encode("ascii") + draft.body
    signature = _p256(draft.secret, "sendgrid").sign(content, ECDSA(SHA256()))
    headers = (
        ("x-twilio-email-event-webhook-timestamp", sent_at),
        ("x-twilio-email-event-webhook-signature", base64.b64encode(signature).decode("ascii")),
    )
    return Signed(headers, draft.body)


def sns(draft: Draft) -> Signed:
    """Sign as SNS, in a body that holds the time of this attempt and names SNS's certificate in the topic's region."""
    body = json_object(draft.body, "sns")
    _, partition, _, region, *_ = str(body.get("TopicArn", "arn:aws:sns:us-east-1:")).split(":")
    host = f"sns.{region}.amazonaws.com{'.cn' if partition == 'aws-cn' else ''}"
    moment = datetime.fromtimestamp(draft.timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    payload = body | {
        "Timestamp": moment,
        "SignatureVersion": "2",
        "SigningCertURL": f"https://{host}/SimpleNotificationService-fake.pem",
    }
    names = ("Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
    content = "".join(f"{name}\n{payload[name]}\n" for name in names if name in payload)
    return Signed((), written(payload | {"Signature": _rsa(draft.secret, content, "sns")}))


def _p256(secret: str, provider: str) -> EllipticCurvePrivateKey:
    key = load_der_private_key(base64.b64decode(secret), None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise TypeError(f"{provider} signs with a private key on the curve P-256")
    return key


def _rsa(secret: str, content: str, provider: str) -> str:
    # To check the key takes longer than all else.
    key = load_der_private_key(base64.b64decode(secret), None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(key, RSAPrivateKey):
        raise TypeError(f"{provider} signs with an RSA key")
    return base64.b64encode(key.sign(content.encode(), PKCS1v15(), SHA256())).decode("ascii")


def _base64url(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")
