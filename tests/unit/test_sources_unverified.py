"""Before a signature is found good, nothing of a body is parsed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.deliveries import NOW, PAYLOADS, STANDARD_SECRET, STRIPE_SECRET, delivery, verdict
from tests.source_examples import EXAMPLES
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources import Hmac, Rejected, Source, StandardWebhooks, Stripe, Verified
from webhook_inbox.sources.identity import Reader
from webhook_inbox.testing.signing import sign_hmac, sign_standard_webhooks, sign_stripe
from webhook_inbox.testing.source_conformance import Example

KEY = "fake-hmac-key"
# Their signatures stand inside the body, so that it must be read before it can be believed.
SIGNED_INSIDE = {"adyen", "adyen, platform", "mailgun", "sns"}
PROVIDERS = [
    pytest.param(each, each.delivery, id=name) for name, each in EXAMPLES.items() if name not in SIGNED_INSIDE
]
SOURCES: dict[str, Source] = {
    "stripe": Stripe(STRIPE_SECRET),
    "standard-webhooks": StandardWebhooks(STANDARD_SECRET),
    "hmac": Hmac("acme", secrets=KEY, header="x-sig"),
    "hmac-with-time": Hmac("acme", secrets=KEY, header="x-sig", timestamp="$.at", tolerance_seconds=9),
}
DEEP = (PAYLOADS / "edge" / "deep-nesting-100000.json").read_bytes()


class Parsed(BaseException):
    """Say that a body was parsed: nothing catches it."""


@pytest.fixture(autouse=True)
def no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every parser that this package uses give itself away."""

    def parse(*_: object, **__: object) -> object:
        raise Parsed

    monkeypatch.setattr(Reader, "read", parse)
    monkeypatch.setattr(json, "loads", parse)
    monkeypatch.setattr(json.JSONDecoder, "raw_decode", parse)


def signed(body: bytes) -> list[tuple[str, str]]:
    """Give the good headers of every source at once."""
    return [
        *sign_stripe(body, STRIPE_SECRET, NOW),
        *sign_standard_webhooks(body, STANDARD_SECRET, "msg_1", NOW),
        *sign_hmac(body, KEY, "x-sig"),
    ]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_an_unverified_body_is_not_parsed(source: Source) -> None:
    """P-RAW, C18: whatever a stranger nests, it is hashed at most."""
    for headers in ([], signed(b"another body")):
        assert isinstance(verdict(source, delivery(DEEP, headers)), Rejected)


@pytest.mark.parametrize(("example", "good"), PROVIDERS)
def test_no_provider_s_body_is_parsed_before_it_is_believed(example: Example, good: Delivery) -> None:
    """P-RAW, C18: a stranger's nesting is hashed at most; nor is it read to find out whether it is a handshake."""
    for sent in (
        replace(good, body=DEEP),
        replace(good, headers=Headers()),
        replace(good, body=DEEP, headers=Headers()),
    ):
        if example.covers_body or not sent.headers:
            assert isinstance(example.verdict(sent), Rejected)
        example.make([example.secret]).greet(sent)


@pytest.mark.parametrize("name", ["stripe", "standard-webhooks", "hmac"])
def test_not_even_a_verified_one_is_parsed_by_verifying(name: str) -> None:
    """P-RAW: the signature needs no reading of the body."""
    assert verdict(SOURCES[name], delivery(DEEP, signed(DEEP))) == Verified("secret-1")


def test_a_time_in_the_body_is_read_once_the_signature_is_good() -> None:
    """The bounded reading that this scheme needs comes last; the check above would have noticed it earlier."""
    with pytest.raises(Parsed):
        verdict(SOURCES["hmac-with-time"], delivery(b'{"at":1}', signed(b'{"at":1}')))
