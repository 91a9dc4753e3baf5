"""
Sign messages by Standard Webhooks: ``v1`` (HMAC-SHA256) and ``v1a`` (Ed25519), with several keys while one is rolled.

Source: Standard Webhooks specification 1.0.0, "Signature scheme".
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.secret import Secret, SecretsGiven, secrets_of

SETTING = "Http(secret=...)"
_SHARED_BYTES_MIN, _SHARED_BYTES_MAX = 24, 64
# The seed alone, or followed by the public key, as NaCl writes it.
_PRIVATE_BYTES = (32, 64)


class Signer:
    """
    Sign with every key that the user gave, each in a form of its own, so that receivers may know either.

    Args:
        given: ``whsec_`` and base64 of 24 to 64 bytes, ``whsk_`` and base64 of an Ed25519 private key, several of them,
            or a callable that gives them, asked for each message: rotation without a restart.

    Raises:
        ConfigurationError: There is none, or one is of neither form.
    """

    def __init__(self, given: SecretsGiven) -> None:
        self._given = given
        if not callable(given):
            self._keys = _keys(given)

    def signature(self, message_id: str, timestamp: int, body: bytes) -> str:
        """
        Give the value of ``webhook-signature``.

        Raises:
            ConfigurationError: The callable gave none that can sign.
        """
        keys = _keys(self._given()) if callable(self._given) else self._keys
        content = f"{message_id}.{timestamp}.".encode() + body
        return " ".join(key(content) for key in keys)


def _keys(given: object) -> Sequence[Callable[[bytes], str]]:
    return [_key(secret) for secret in secrets_of(given, setting=SETTING)]


def _key(secret: Secret) -> Callable[[bytes], str]:
    text = secret.reveal()
    kind, value = text[:5], _decoded(text.partition("_")[2])
    if text.startswith("whsec_") and _SHARED_BYTES_MIN <= len(value) <= _SHARED_BYTES_MAX:
        return lambda content: f"v1,{base64.b64encode(hmac.digest(value, content, 'sha256')).decode()}"
    if kind == "whsk_" and len(value) in _PRIVATE_BYTES:
        private = Ed25519PrivateKey.from_private_bytes(value[:32])
        return lambda content: f"v1a,{base64.b64encode(private.sign(content)).decode()}"
    raise ConfigurationError(
        f"{SETTING}: {secret.label} is neither whsec_ and base64 of {_SHARED_BYTES_MIN} to {_SHARED_BYTES_MAX} bytes "
        "nor whsk_ and base64 of an Ed25519 private key"
    )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""
