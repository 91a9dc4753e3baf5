"""
Recognise PayPal by the certificate that it publishes: it signs the sending, the webhook and the CRC-32 of the body.

The certificate is fetched from PayPal's API, of the environment that is configured: no delivery can have us fetch from
anywhere else. The signature names the webhook, so a delivery to another account's webhook is not believed here.

Source: developer.paypal.com, "Integrate webhooks".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal
from zlib import crc32

from cryptography.hazmat.primitives.hashes import SHA256

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import Secret, SecretsGiven
from webhook_inbox.sources.certificate import (
    check_by,
    fetch_certificate,
    published,
    refuse_no_certificate,
)
from webhook_inbox.sources.facts import DIRECTORY, Fact, Facts
from webhook_inbox.sources.fetched import Fetched
from webhook_inbox.sources.keys import check_tolerance, settle_secrets
from webhook_inbox.sources.listing import ApiKey
from webhook_inbox.sources.listing_paypal import PayPalListing
from webhook_inbox.sources.naming import naming_of
from webhook_inbox.sources.place import HeaderPlace
from webhook_inbox.sources.provider import Provider
from webhook_inbox.sources.public_key import passes
from webhook_inbox.sources.signature import any_base64, mismatch, only_header
from webhook_inbox.sources.signed_time import SignedTime
from webhook_inbox.sources.source import Rejected, Verdict, Verified

_INTEGRATE = "developer.paypal.com, Integrate webhooks"
_ALGORITHM = "SHA256withRSA"
_SIGNATURE, _ID, _TIME = "paypal-transmission-sig", "paypal-transmission-id", "paypal-transmission-time"
_WEBHOOK = re.compile(r"[A-Za-z0-9-]{1,64}")  # neither this nor the transmission's id may hold the separator
_TRANSMISSION = re.compile(r"[A-Za-z0-9-]{1,64}")
_CERTIFICATE = re.compile(
    r"https://(api(?:-m)?(?:\.sandbox)?\.paypal\.com)/v1/notifications/certs/[A-Za-z0-9_-]{1,128}"
)
_HOSTS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "live": frozenset({"api.paypal.com", "api-m.paypal.com"}),
        "test": frozenset({"api.sandbox.paypal.com", "api-m.sandbox.paypal.com"}),
    }
)
_API: Mapping[str, str] = MappingProxyType(
    {"live": "https://api-m.paypal.com", "test": "https://api-m.sandbox.paypal.com"}
)
_RETRY_SECONDS = 3 * 86_400


class PayPal(Provider):
    """
    Believe what PayPal signed for one of *webhook_ids*.

    Args:
        webhook_ids: The id of the webhook that posts here, as shown with it in the dashboard; or several.
        environment: ``live`` or ``test`` (PayPal's sandbox): whose certificates count.
        certificates: PEM of the certificates that may sign, if they are not to be fetched from PayPal.
        tolerance_seconds: How far the signed time may lie from this host's clock, in the past and in the future.
            PayPal states none; four days take its retries, whether or not each is signed with a time of its own.
        api_key: ``CLIENT_ID:SECRET`` of the app whose webhooks these are, to find by ``reconcile`` what never arrived;
            or a callable.
        api_base: Where PayPal's API is; None: that of *environment*.

    Raises:
        ConfigurationError: No webhook id, one that is none, another environment, a certificate that is none, or a
            tolerance that bounds nothing.
    """

    provider = "paypal"
    reconciles = True
    signed_id = False
    naming = naming_of(event_id="$.id", event_type="$.event_type", created="$.create_time")
    facts = Facts(
        title="PayPal",
        signature=Fact(
            "`PAYPAL-TRANSMISSION-SIG: BASE64`, RSA (PKCS #1 v1.5, SHA-256) of `id|time|webhook id|CRC-32 of the body`",
            DIRECTORY,
        ),
        secret=Fact(
            "none: a certificate, fetched from `PAYPAL-CERT-URL`; the webhook must be yours", DIRECTORY
        ),
        event_id=Fact("the body's `id` (`WH-...`), the same on a resend", _INTEGRATE),
        event_type=Fact("the body's `event_type`", _INTEGRATE),
        window=Fact("none is stated, `PAYPAL-TRANSMISSION-TIME`", DIRECTORY),
        answer=Fact("2xx; a time limit is not confirmed", _INTEGRATE),
        retries=Fact("up to 25 times over 3 days", _INTEGRATE, _RETRY_SECONDS),
        past_events=Fact(
            "`GET /v1/notifications/webhooks-events`, and `.../resend` of each; how far back is not confirmed, 7 "
            "days are asked for",
            "https://docs.paypal.ai/reference/api/rest/webhooks-events/list-event-notifications",
            7 * 86_400.0,
        ),
        list_api=True,
        weaknesses=(
            "A CRC-32 alone ties the body to the signature: whoever has seen one delivery can make others of it.",
            "A first delivery asks PayPal for its certificate; where PayPal cannot be reached, the answer is 503.",
            "Events of the dashboard's simulator are signed for no webhook of yours, and are refused.",
        ),
    )

    def __init__(
        self,
        webhook_ids: str | Iterable[str],
        *,
        environment: Literal["live", "test"] = "live",
        certificates: SecretsGiven = None,
        tolerance_seconds: float = _RETRY_SECONDS + 86_400,
        api_key: ApiKey | None = None,
        api_base: str | None = None,
        fetched: Fetched | None = None,
    ) -> None:
        self.webhook_ids = tuple([webhook_ids] if isinstance(webhook_ids, str) else webhook_ids)
        if not self.webhook_ids or not all(map(_WEBHOOK.fullmatch, self.webhook_ids)):
            raise ConfigurationError(
                f"{self.setting('webhook_ids')} must be ids of webhooks, such as 1AB23456CD789012E"
            )
        if environment not in _HOSTS:
            raise ConfigurationError(f"{self.setting('environment')} must be 'live' or 'test'")
        self.environment = environment
        self._hosts = _HOSTS[environment]
        if api_key is not None:
            base = api_base or _API[environment]
            self.listing = PayPalListing(api_key, api_base=base, setting="PayPal", identify=self.identify)
        tolerance_seconds = check_tolerance(tolerance_seconds, setting=self.setting("tolerance_seconds"))
        self._time = SignedTime(HeaderPlace(_TIME), "iso", tolerance_seconds, None)
        self._fetched = fetched or Fetched(fetch_certificate)
        asked: Callable[[Delivery], object] = self._certificates
        self.secrets = (
            asked
            if certificates is None
            else settle_secrets(self, certificates, setting=self.setting("certificates"))
        )

    def check_secret(self, secret: Secret) -> None:
        """Refuse what is no certificate of an RSA key."""
        refuse_no_certificate(secret, provider=self.provider)

    def verify(self, delivery: Delivery, secrets: Sequence[Secret]) -> Verdict:
        """Check the signature for each webhook by each certificate that is valid now."""
        signed = self._signed(delivery.headers)
        if isinstance(signed, Rejected):
            return signed
        signature, before, sent_at = signed
        after = crc32(delivery.body)
        contents = [f"{before}|{webhook_id}|{after}".encode("ascii") for webhook_id in self.webhook_ids]
        for secret in secrets:
            check = check_by(secret.reveal(), SHA256(), now=delivery.received_at)
            if check and any(passes(check, signature, content) for content in contents):
                late = self._time.refuse_late(sent_at, delivery.body, delivery.received_at)
                return late or Verified(secret.label)
        return mismatch(delivery.body)

    def _signed(self, headers: Headers) -> tuple[bytes, str, str] | Rejected:
        """Give the signature, what is signed of the headers, and the time in it."""
        texts = [only_header(headers, name) for name in (_SIGNATURE, _ID, "paypal-auth-algo")]
        for text in texts:
            if isinstance(text, Rejected):
                return text
        signature_text, transmission_id, algorithm = texts
        sent_at = self._time.sent(headers, ())
        if isinstance(sent_at, Rejected):
            return sent_at
        if algorithm != _ALGORITHM:
            return Rejected("signature_version", f"paypal-auth-algo is not {_ALGORITHM}")
        if self._certificate_url(headers) is None:
            return Rejected(
                "signature_malformed", "paypal-cert-url is not one of PayPal's in this environment"
            )
        signature = any_base64(str(signature_text))
        if signature is None or not _TRANSMISSION.fullmatch(str(transmission_id)):
            return Rejected("signature_malformed", f"{_SIGNATURE} or {_ID} header malformed")
        return signature, f"{transmission_id}|{sent_at}", sent_at

    def _certificate_url(self, headers: Headers) -> str | None:
        values = headers.all("paypal-cert-url")
        found = _CERTIFICATE.fullmatch(values[0]) if len(values) == 1 else None
        return found[0] if found and found[1] in self._hosts else None

    def _certificates(self, delivery: Delivery) -> list[Secret]:
        """Give the certificate that the delivery names, if it is PayPal's to give; asked on a thread, per delivery."""
        url = self._certificate_url(delivery.headers)
        return published(self._fetched, url) if url else []
