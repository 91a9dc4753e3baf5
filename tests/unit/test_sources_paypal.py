"""PayPal signs what is around the body, by a certificate that a header names; only PayPal's own is fetched."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deliveries import NOW, delivery, verdict
from tests.source_examples import PAYPAL, PAYPAL_KEYS, PAYPAL_OTHER_KEYS
from webhook_inbox import Inbox, Receipt
from webhook_inbox.errors import ConfigurationError, VerificationKeyError
from webhook_inbox.model.secret import secrets_of
from webhook_inbox.sources import PayPal, Rejected, Verified
from webhook_inbox.sources.fetched import Fetched
from webhook_inbox.testing.key_pairs import certificate_pair, ec_pair
from webhook_inbox.testing.signers import SIGNERS, Draft

WEBHOOK, URL = "FAKEWEBHOOK1", "https://api.paypal.com/v1/notifications/certs/CERT-fake"
SOURCE = PayPal(WEBHOOK, certificates=PAYPAL_KEYS.public)
NO_DATABASE = "postgresql://nobody@127.0.0.1:1/nowhere"
Pairs = list[tuple[str, str]]


def signed(
    *, secret: str = PAYPAL_KEYS.private, at: int = NOW, body: bytes = PAYPAL, **after: str | None
) -> Pairs:
    """Sign as PayPal; what is given *after* is written over it, or left out where it is None."""
    made = SIGNERS["paypal"](Draft(body=body, secret=secret, event_id="evt_1", timestamp=at))
    changed = {f"paypal-{name.replace('_', '-')}": value for name, value in after.items()}
    headers: dict[str, str | None] = {**dict(made.headers), **changed}
    return [(name, value) for name, value in headers.items() if value is not None]


def refusal(headers: Pairs, source: PayPal = SOURCE, body: bytes = PAYPAL) -> str:
    """Give the reason."""
    got = verdict(source, delivery(body, headers))
    assert isinstance(got, Rejected)
    return got.reason


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ({"transmission_sig": None}, "signature_missing"),
        ({"transmission_sig": "no base64"}, "signature_malformed"),
        ({"transmission_sig": "AAAA"}, "signature_mismatch"),
        ({"transmission_id": None}, "signature_missing"),
        ({"transmission_id": "a|b"}, "signature_malformed"),
        ({"transmission_id": "other"}, "signature_mismatch"),
        ({"transmission_time": None}, "timestamp_missing"),
        ({"transmission_time": "yesterday"}, "timestamp_malformed"),
        ({"transmission_time": "2026-01-01T00:00:01Z"}, "signature_mismatch"),
        ({"auth_algo": None}, "signature_missing"),
        ({"auth_algo": "SHA1withRSA"}, "signature_version"),
        ({"auth_algo": "sha256withrsa"}, "signature_version"),
        ({"cert_url": None}, "signature_malformed"),
    ],
)
def test_anything_but_a_whole_signature_is_refused(after: dict[str, Any], reason: str) -> None:
    """P-CALM: by its reason, without an exception."""
    assert isinstance(verdict(SOURCE, delivery(PAYPAL, signed())), Verified)
    assert refusal(signed(**after)) == reason


def test_the_separator_cannot_be_moved() -> None:
    """What was signed for one webhook would read as another's, were the id or the webhook's id to hold it."""
    moved = "x|2026-01-01T00:00:00Z|FAKEWEBHOOK1"
    assert refusal(signed(transmission_id=moved)) == "signature_malformed"
    with pytest.raises(ConfigurationError, match="must be ids of webhooks"):
        PayPal(moved)


@pytest.mark.parametrize(
    "url",
    [
        "http://api.paypal.com/v1/notifications/certs/CERT-1",
        "https://paypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com.evil.example/v1/notifications/certs/CERT-1",
        "https://api.paypal.com@evil.example/v1/notifications/certs/CERT-1",
        "https://apixpaypal.com/v1/notifications/certs/CERT-1",
        "https://api.paypal.com:8443/v1/notifications/certs/CERT-1",
        "https://api.paypal.com/v1/notifications/certs/../CERT-1",
        "https://api.paypal.com/v1/notifications/certs/CERT-1?a=b",
        "https://api.paypal.com/v1/notifications/certs/CERT-1\n",
        "https://api.paypal.com/v1/notifications/webhooks",
        "https://API.paypal.com/v1/notifications/certs/CERT-1",
        "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-1",
    ],
)
def test_a_stranger_cannot_have_anything_else_fetched(url: str) -> None:
    """Only https, only PayPal's API, only the environment that is configured; refused without asking anybody."""
    asked: list[str] = []
    headers = signed(cert_url=url)
    assert received(headers, asked, PAYPAL_KEYS.public.encode()).status == 400
    assert received([*signed(), ("paypal-cert-url", URL)], asked, b"").status == 400
    assert asked == []
    assert refusal(headers) == "signature_malformed"


def received(headers: Pairs, asked: list[str], content: bytes | None) -> Receipt:
    """Give an inbox's answer whose source fetches; its database cannot be reached."""

    def fetching(url: str) -> bytes | None:
        asked.append(url)
        if content == b"":
            raise VerificationKeyError("fake outage")
        return content

    inbox = Inbox(NO_DATABASE, connection_wait_seconds=0.5)
    inbox.endpoint("paypal", PayPal(WEBHOOK, tolerance_seconds=10**10, fetched=Fetched(fetching)))
    try:
        return inbox.receive_sync("paypal", method="POST", url="https://h/p", headers=headers, body=PAYPAL)
    finally:
        inbox.close()


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"", 503, "verification_key"),
        (None, 400, "secret_unknown"),
        (b"no certificate", 503, "configuration"),
        (PAYPAL_OTHER_KEYS.public.encode(), 400, "signature_mismatch"),
    ],
)
def test_a_certificate_that_cannot_be_had_is_no_reason_to_lose_an_event(
    content: bytes | None, status: int, reason: str
) -> None:
    """Unreachable: 503, and PayPal sends again; one that PayPal does not know, or another's: refused."""
    asked: list[str] = []
    receipt = received(signed(), asked, content)
    assert (receipt.status, receipt.reason) == (status, reason)
    assert asked == [URL]


def test_the_certificate_that_the_delivery_names_is_fetched_once() -> None:
    """And the event says by which one it was believed; a sandbox has hosts of its own."""
    for environment, host in (("live", "api-m.paypal.com"), ("test", "api-m.sandbox.paypal.com")):
        asked: list[str] = []

        def fetching(url: str, asked: list[str] = asked) -> bytes:
            asked.append(url)
            return PAYPAL_KEYS.public.encode() + b"\n"

        source = PayPal([WEBHOOK], environment=environment, fetched=Fetched(fetching))  # type: ignore[arg-type]
        url = f"https://{host}/v1/notifications/certs/CERT-1"
        sent = delivery(PAYPAL, signed(cert_url=url))
        assert callable(source.secrets)
        for _ in range(2):
            found = secrets_of(source.secrets(sent), setting="test")
            assert verdict(source, sent, found) == Verified("CERT-1")
        assert asked == [url]


def test_a_certificate_counts_only_while_it_is_valid() -> None:
    """By this host's clock at the arrival."""
    for since, until, believed in ((2020, 2100, True), (2020, 2025, False), (2027, 2100, False)):
        pair = certificate_pair("dated.fake.test", since=since, until=until)
        source = PayPal(WEBHOOK, certificates=pair.public)
        got = verdict(source, delivery(PAYPAL, signed(secret=f"{WEBHOOK}:{pair.private}")))
        assert isinstance(got, Verified) is believed


def test_another_s_webhook_is_refused_though_paypal_signed_for_it() -> None:
    """Everybody has webhooks of their own, and PayPal signs for all of them."""
    headers = signed(secret=PAYPAL_KEYS.private.replace(WEBHOOK, "OTHERWEBHOOK"))
    assert refusal(headers) == "signature_mismatch"
    both = PayPal([WEBHOOK, "OTHERWEBHOOK"], certificates=PAYPAL_KEYS.public)
    for each in (headers, signed()):
        assert isinstance(verdict(both, delivery(PAYPAL, each)), Verified)


def test_three_days_of_retries_are_within_the_tolerance() -> None:
    """Whether each is signed anew or none: a day is left over, and no more."""
    assert isinstance(verdict(SOURCE, delivery(PAYPAL, signed(at=NOW - 3 * 86_400))), Verified)
    assert refusal(signed(at=NOW - 4 * 86_400 - 1)) == "timestamp_out_of_tolerance"


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"webhook_ids": ""}, "must be ids of webhooks"),
        ({"webhook_ids": []}, "must be ids of webhooks"),
        ({"webhook_ids": [WEBHOOK, "a b"]}, "must be ids of webhooks"),
        ({"environment": "sandbox"}, "must be 'live' or 'test'"),
        ({"certificates": "fake"}, "is no certificate of an RSA key"),
        ({"certificates": ec_pair(1).public}, "is no certificate of an RSA key"),
        ({"tolerance_seconds": 0}, "above 0"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(given: dict[str, Any], match: str) -> None:
    """Without a webhook of one's own, anybody's would be believed."""
    with pytest.raises(ConfigurationError, match=match):
        PayPal(**({"webhook_ids": WEBHOOK} | given))
