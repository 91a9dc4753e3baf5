"""
Read a JSON Web Token in its compact form, and the public key in a JSON Web Key, both strictly.

Nothing here says that a token is believed: the source names the one algorithm, checks the signature, and only then asks
for claims. ``alg`` never chooses anything.

Source: RFC 7515 (JWS), section 7.1; RFC 7517 (JWK); RFC 7518 (JWA), sections 3.4 and 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from webhook_inbox.sources.public_key import Check
from webhook_inbox.sources.signature import any_base64url

_PARTS = 3
_COORDINATE_BYTES = 32
_ES256 = ECDSA(SHA256())
_T = TypeVar("_T", bound=msgspec.Struct)


class _Header(msgspec.Struct):
    alg: str
    kid: str = ""


class _Key(msgspec.Struct):
    kty: str
    crv: str
    x: str
    y: str
    kid: str = ""
    expired_at: int | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """
    Hold a token that nobody believes yet.

    Attributes:
        algorithm, key_id: ``alg`` and ``kid`` of its header.
        signed: The bytes that the signature covers.
        signature: As sent.
        claims: JSON; to be read only once the signature is good.
    """

    algorithm: str
    key_id: str
    signed: bytes
    signature: bytes
    claims: bytes


def token_of(text: str) -> Token | None:
    """Give the token that *text* spells, or None."""
    parts = [any_base64url(part) for part in text.split(".", _PARTS)]
    if len(parts) != _PARTS:
        return None
    header, claims, signature = parts
    named = read_json(header, _Header) if header is not None else None
    if named is None or claims is None or signature is None:
        return None
    return Token(named.alg, named.kid, text.rpartition(".")[0].encode("ascii"), signature, claims)


@dataclass(frozen=True, slots=True)
class Key:
    """
    Hold a public key for ES256.

    Attributes:
        key_id: Its ``kid``.
        check: Checks a signature as tokens have it, 64 bytes.
        expired_at: Unix seconds from which on it signs nothing, or None.
    """

    key_id: str
    check: Check
    expired_at: int | None

    def signs_at(self, now: float) -> bool:
        """Say whether it is still used at *now*, in Unix seconds."""
        return self.expired_at is None or now < self.expired_at


def key_of(jwk: str) -> Key | None:
    """Give the key on P-256 that *jwk* holds, or None."""
    given = read_json(jwk.encode("utf-8", "surrogatepass"), _Key)
    if given is None or (given.kty, given.crv) != ("EC", "P-256"):
        return None
    x, y = _coordinate(given.x), _coordinate(given.y)
    if x is None or y is None:
        return None
    try:
        key = EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()
    except ValueError:  # no point of the curve
        return None
    return Key(
        given.kid, lambda signature, content: key.verify(_der(signature), content, _ES256), given.expired_at
    )


def read_json(content: bytes, kind: type[_T]) -> _T | None:
    """Give the members of the object that *content* holds, or None where one is missing or of another type."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


def _coordinate(text: str) -> int | None:
    value = any_base64url(text)
    return int.from_bytes(value) if value is not None and len(value) == _COORDINATE_BYTES else None


def _der(signature: bytes) -> bytes:
    """Give a signature of two halves as ``cryptography`` wants it; one of another length is none of any content."""
    if len(signature) != 2 * _COORDINATE_BYTES:
        return b""
    halves = signature[:_COORDINATE_BYTES], signature[_COORDINATE_BYTES:]
    return encode_dss_signature(*map(int.from_bytes, halves))
