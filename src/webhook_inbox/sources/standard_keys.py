"""Turn a Standard Webhooks secret into a key that checks signatures of its own version and of no other."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from webhook_inbox.sources.public_key import passes
from webhook_inbox.sources.signature import any_equal

# The specification asks senders for 24 to 64. With fewer than 8, one captured delivery is enough to search all keys.
SHARED_BYTES_MIN = 8
PUBLIC_BYTES = 32


@dataclass(frozen=True, slots=True, repr=False)
class SharedKey:
    """Check ``v1`` signatures: HMAC-SHA256."""

    version: ClassVar[str] = "v1"
    signature_bytes: ClassVar[int] = 32
    value: bytes

    def signed(self, content: bytes, candidates: Iterable[bytes]) -> bool:
        """Say whether one of *candidates* is this key's signature of *content*."""
        return any_equal(hmac.digest(self.value, content, "sha256"), candidates)


@dataclass(frozen=True, slots=True, repr=False)
class PublicKey:
    """Check ``v1a`` signatures: Ed25519."""

    version: ClassVar[str] = "v1a"
    signature_bytes: ClassVar[int] = 64
    value: Ed25519PublicKey

    def signed(self, content: bytes, candidates: Iterable[bytes]) -> bool:
        """Say whether one of *candidates* is the signature of *content* by the private half of this key."""
        return any(passes(self.value.verify, candidate, content) for candidate in candidates)


def key_of(secret: str) -> SharedKey | PublicKey | str:
    """Give the key that *secret* spells, or what is wrong with it, without showing it (P-QUIET)."""
    if secret.startswith("whsk_"):
        return "is the sender's private key (whsk_); the receiver takes the public one, whpk_..."
    if "," in secret:
        return "starts like a signature; leave out everything before whsec_ or whpk_"
    public = secret.startswith("whpk_")
    value = _decoded(secret[5:] if public else secret.removeprefix("whsec_"))
    if value is None:
        return "is not standard base64 after its prefix; expected whsec_... or whpk_..."
    if public:
        if len(value) != PUBLIC_BYTES:
            return f"holds {len(value)} bytes after whpk_; an Ed25519 public key has {PUBLIC_BYTES}"
        return PublicKey(Ed25519PublicKey.from_public_bytes(value))
    if len(value) < SHARED_BYTES_MIN:
        return f"holds {len(value)} bytes; fewer than {SHARED_BYTES_MIN} can be guessed (senders should use 24 to 64)"
    return SharedKey(value)


def _decoded(text: str) -> bytes | None:
    """Give the bytes of standard base64; padding may be missing, as some senders leave it out of secrets."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
