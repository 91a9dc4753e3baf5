"""Make pairs of keys for the providers that sign with a private one; no one's."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID


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


@cache
def certificate_pair(name: str, *, since: int = 2020, until: int = 2100) -> Pair:
    """Give an RSA key in base64 of DER and a certificate of it in PEM; made anew in each process."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(since, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(until, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = certificate.public_bytes(serialization.Encoding.PEM).decode().strip()
    return Pair(base64.b64encode(private).decode(), public)
