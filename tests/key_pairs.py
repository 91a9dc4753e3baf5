"""Make pairs of keys for the providers that sign with a private one; the same in every run, and no one's."""

from __future__ import annotations

import base64
from typing import NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class Pair(NamedTuple):
    """The text that a signer takes, and the one with which a source is configured."""

    private: str
    public: str


def ed25519_pair(byte: int) -> Pair:
    """Give a pair in hex, as Discord shows its half."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([byte]) * 32)
    return Pair(key.private_bytes_raw().hex(), key.public_key().public_bytes_raw().hex())


def ec_pair(number: int, curve: ec.EllipticCurve | None = None) -> Pair:
    """Give a pair in base64 of DER, as SendGrid shows its half; on P-256 unless told."""
    key = ec.derive_private_key(number, curve or ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return Pair(base64.b64encode(private).decode(), base64.b64encode(public).decode())
