"""
Sign as the providers do: for users' tests and for the demo; ``signers.py`` makes whole deliveries of every source.

Written from the providers' own texts and sharing no code with ``webhook_inbox.sources``: a mistake made in one of the
two shows as a delivery that is refused, not as two mistakes that agree.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HeaderPairs: TypeAlias = tuple[tuple[str, str], ...]


def sign_stripe(body: bytes, secret: str, timestamp: int) -> HeaderPairs:
    """
    Sign *body* as Stripe does.

    Args:
        secret: The endpoint's signing secret, ``whsec_`` included.
        timestamp: Unix seconds of the sending.

    Source: docs.stripe.com/webhooks, "Verify webhook signatures manually".
    """
    payload = str(timestamp).encode("ascii") + b"." + body
    digest = hmac.new(secret.encode("utf-8"), payload, hashlib.sha256).hexdigest()
    return (("stripe-signature", f"t={timestamp},v1={digest}"),)


def sign_standard_webhooks(
    body: bytes, secret: str, event_id: str, timestamp: int, *, family: Literal["webhook", "svix"] = "webhook"
) -> HeaderPairs:
    """
    Sign *body* as Standard Webhooks says; the kind of secret chooses the algorithm.

    Args:
        secret: ``whsec_`` and base64 (HMAC-SHA256, ``v1``), or ``whsk_`` and base64 of an Ed25519 key (``v1a``).
        event_id: The same on every attempt of one event; it is signed.
        timestamp: Unix seconds of this attempt.
        family: Whose header names to use.

    Source: Standard Webhooks specification 1.0.0, "Signature scheme" and "Webhook headers".
    """
    message = b".".join((event_id.encode("latin-1"), str(timestamp).encode("ascii"), body))
    if secret.startswith("whsk_"):
        version, signature = "v1a", _ed25519_key(secret).sign(message)
    else:
        key = base64.b64decode(_padded(secret.removeprefix("whsec_")))
        version, signature = "v1", hmac.new(key, message, hashlib.sha256).digest()
    return (
        (f"{family}-id", event_id),
        (f"{family}-timestamp", str(timestamp)),
        (f"{family}-signature", f"{version},{base64.b64encode(signature).decode('ascii')}"),
    )


def public_key_of(secret: str) -> str:
    """Give the ``whpk_...`` key with which a receiver checks what the ``whsk_...`` key *secret* signs."""
    raw = _ed25519_key(secret).public_key().public_bytes_raw()
    return "whpk_" + base64.b64encode(raw).decode("ascii")


def _ed25519_key(secret: str) -> Ed25519PrivateKey:
    raw = base64.b64decode(_padded(secret.removeprefix("whsk_")))
    return Ed25519PrivateKey.from_private_bytes(raw[:32])  # some libraries append the public half


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)


def sign_hmac(
    body: bytes,
    key: str | bytes,
    header: str,
    *,
    algorithm: Literal["sha1", "sha256", "sha512"] = "sha256",
    encoding: Literal["hex", "hex-upper", "base64"] = "hex",
    prefix: str = "",
    before: bytes = b"",
    after: bytes = b"",
) -> HeaderPairs:
    """
    Sign *body* with a plain HMAC, as GitHub, Slack, Shopify and most others do.

    Args:
        key: The key itself: text is used as UTF-8; decode base64 or hex yourself and give bytes.
        header: Name of the signature header.
        prefix: What precedes the signature in it, for instance ``sha256=``.
        before: What else is signed before the body, for instance ``b"v0:1700000000:"``.
        after: What else is signed after it.
    """
    secret = key.encode("utf-8") if isinstance(key, str) else key
    digest = hmac.new(secret, before + body + after, algorithm).digest()
    if encoding == "base64":
        text = base64.b64encode(digest).decode("ascii")
    else:
        text = digest.hex().upper() if encoding == "hex-upper" else digest.hex()
    return ((header, prefix + text),)
