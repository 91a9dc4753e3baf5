"""
Recognise a sender by a secret that it sends along, where it signs nothing.

Whoever sees one delivery can make others: TLS is all that protects the secret, and nothing proves that a body is the
one that was sent. Sources that use this say so among their weaknesses, and keep the header out of what is stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources.signature import any_base64, any_equal, only_header
from webhook_inbox.sources.source import Rejected, Verdict, Verified


def verify_token(headers: Headers, header: str, secrets: Sequence[Secret]) -> Verdict:
    """Decide whether the header carries one of *secrets*, byte for byte."""
    sent = only_header(headers, header)
    if isinstance(sent, Rejected):
        return sent
    return _matching(sent.encode("latin-1"), header, secrets)


def verify_basic(headers: Headers, secrets: Sequence[Secret]) -> Verdict:
    """
    Decide whether HTTP Basic authentication carries one of *secrets*, each ``user:password``.

    Only the one usual spelling is read: ``Basic``, a blank, and base64 with its padding.

    Source: RFC 7617, section 2.
    """
    sent = only_header(headers, "authorization")
    if isinstance(sent, Rejected):
        return sent
    scheme, _, credentials = sent.partition(" ")
    value = any_base64(credentials) if scheme == "Basic" else None
    if value is None:
        return Rejected("signature_malformed", "authorization header malformed: not HTTP Basic")
    return _matching(value, "authorization", secrets)


def _matching(sent: bytes, header: str, secrets: Sequence[Secret]) -> Verdict:
    for secret in secrets:
        if any_equal(secret.reveal().encode(), (sent,)):
            return Verified(secret.label)
    return Rejected("signature_mismatch", f"the {header} header carries none of the configured secrets")
