"""
Make pairs of keys for the providers that sign with a private one, which nobody but they have.

A test signs with the private half and has its source believe the public one. They are nobody's keys.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from webhook_inbox.model.secret import secrets_of
from webhook_inbox.sources.paypal import PayPal
from webhook_inbox.sources.source import Source
from webhook_inbox.testing.signing import public_key_of


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


def jwk_pair(number: int) -> Pair:
    """Give a pair on P-256: the private half as of ``ec_pair``, the public one a JSON Web Key, ``fake-kid-1``."""
    numbers = ec.derive_private_key(number, ec.SECP256R1()).public_key().public_numbers()
    x, y = (_base64url(each.to_bytes(32)) for each in (numbers.x, numbers.y))
    jwk = {"alg": "ES256", "crv": "P-256", "kid": "fake-kid-1", "kty": "EC", "use": "sig", "x": x, "y": y}
    return Pair(ec_pair(number).private, json.dumps(jwk))


def _base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode("ascii")


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


def webhook_pair(webhook_id: str, name: str) -> Pair:
    """Give a pair as of ``certificate_pair`` whose private half begins with a webhook's id, which PayPal signs too."""
    pair = certificate_pair(name)
    return Pair(f"{webhook_id}:{pair.private}", pair.public)


# By provider: what makes a pair of its kind. The private half is a signer's secret, the public one a source's.
PAIRS: Mapping[str, Callable[[], Pair]] = MappingProxyType(
    {
        "discord": lambda: ed25519_pair(1),
        "paypal": lambda: webhook_pair("FAKEWEBHOOK1", "paypal.fake.test"),
        "plaid": lambda: jwk_pair(1),
        "sendgrid": lambda: ec_pair(1),
        "sns": lambda: certificate_pair("sns.fake.test"),
    }
)


def pair_of(source: Source) -> Pair | None:
    """Give a pair for a source that believes a private key, as it is configured; None for those that share a secret."""
    given = source.secrets
    if isinstance(source, PayPal):
        sandbox = "sandbox:" if source.environment == "test" else ""
        return webhook_pair(f"{sandbox}{source.webhook_ids[0]}", "paypal.fake.test")
    if source.provider in PAIRS:
        return PAIRS[source.provider]()
    if not callable(given) and any(
        each.reveal().startswith("whpk_") for each in secrets_of(given, setting="")
    ):
        private = "whsk_" + base64.b64encode(bytes([1]) * 32).decode()
        return Pair(private, public_key_of(private))
    return None
