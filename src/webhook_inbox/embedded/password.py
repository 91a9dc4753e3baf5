"""Make the password of a server that listens on TCP, and the verifier that alone is sent to it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

ITERATIONS = 4096
SALT_BYTES = 16


def make_password() -> str:
    """Return 192 random bits as text that needs no quoting in a URI."""
    return secrets.token_urlsafe(24)


def scram_verifier(password: str) -> str:
    """
    Turn *password* into what PostgreSQL stores for it, so that the password itself is in no statement and no log.

    Source: RFC 5803 and RFC 5802 section 3; PostgreSQL manual, catalog ``pg_authid``.
    """
    salt = secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    stored, server = (
        base64.b64encode(key).decode() for key in (hashlib.sha256(client_key).digest(), server_key)
    )
    return f"SCRAM-SHA-256${ITERATIONS}:{base64.b64encode(salt).decode()}${stored}:{server}"
