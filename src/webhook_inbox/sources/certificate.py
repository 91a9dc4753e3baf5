"""Check RSA signatures by the certificate that a provider publishes, while that is valid."""

from __future__ import annotations

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import HashAlgorithm
from cryptography.x509 import Certificate, InvalidVersion, load_pem_x509_certificate

from webhook_inbox.errors import ConfigurationError, VerificationKeyError
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.fetched import Fetched, fetch
from webhook_inbox.sources.public_key import Check


def fetch_certificate(url: str) -> bytes | None:
    """
    Give the certificate at *url*, or None; what is none is not given, lest it be kept.

    Raises:
        VerificationKeyError: As ``fetch``, or there is something else at *url*.
    """
    content = fetch(url)
    if content is not None and _read(content.decode("ascii", "replace")) is None:
        raise VerificationKeyError(f"{url} is no certificate of an RSA key")
    return content


def published(fetched: Fetched, url: str) -> list[Secret]:
    """
    Give the certificate at *url*, which the source has checked, labelled by the last part of it; none if there is none.

    Raises:
        VerificationKeyError: It cannot be fetched now.
    """
    content = fetched.get(url)
    if content is None:
        return []
    return [Secret(content.decode("ascii", "replace").strip(), label=url.rpartition("/")[2])]


def refuse_no_certificate(secret: Secret, *, provider: str) -> None:
    """
    Refuse what is no certificate of an RSA key.

    Raises:
        ConfigurationError: Says which, without showing it.
    """
    if _read(secret.reveal()) is None:
        raise ConfigurationError(f"{provider}: {secret.label} is no certificate of an RSA key in PEM")


def check_by(pem: str, hashed: HashAlgorithm, *, now: float) -> Check | None:
    """
    Give what checks a signature (PKCS #1 v1.5 over *hashed*) by the first certificate of *pem*.

    Returns:
        None where it is none of an RSA key, or not valid at *now*, in Unix seconds.
    """
    found = _read(pem)
    if found is None:
        return None
    certificate, key = found
    since, until = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not since.timestamp() <= now <= until.timestamp():
        return None
    return lambda signature, content: key.verify(signature, content, PKCS1v15(), hashed)


def _read(pem: str) -> tuple[Certificate, RSAPublicKey] | None:
    try:
        certificate = load_pem_x509_certificate(pem.encode())
        key = certificate.public_key()
    except (ValueError, InvalidVersion, UnsupportedAlgorithm):
        return None
    return (certificate, key) if isinstance(key, RSAPublicKey) else None
