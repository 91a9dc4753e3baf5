"""What a provider publishes is a certificate, or it is not kept."""

from __future__ import annotations

import pytest

from tests.source_examples import SNS_KEYS
from webhook_inbox.errors import VerificationKeyError
from webhook_inbox.sources import certificate
from webhook_inbox.sources.certificate import fetch_certificate
from webhook_inbox.testing.key_pairs import ec_pair

URL = "https://h.example.test/cert.pem"


@pytest.mark.parametrize("content", [SNS_KEYS.public.encode(), SNS_KEYS.public.encode() + b"\n", None])
def test_a_certificate_or_none_is_given_as_it_came(
    monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """The cache keeps the one for an hour, the other for a minute."""
    monkeypatch.setattr(certificate, "fetch", lambda url: content if url == URL else b"")
    assert fetch_certificate(URL) == content


@pytest.mark.parametrize("content", [b"", b"<html>", b"\xff", ec_pair(1).public.encode()])
def test_anything_else_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Such as a page about an outage, with 200: the delivery hears 503."""
    monkeypatch.setattr(certificate, "fetch", lambda url: content)
    with pytest.raises(VerificationKeyError, match="cert.pem is no certificate of an RSA key"):
        fetch_certificate(URL)
