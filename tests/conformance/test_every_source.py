"""Every provider keeps what is asked of a source; the suite is the one that users run on theirs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.source_examples import EXAMPLES
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources import Identity, Rejected, Verified
from webhook_inbox.sources.catalogue import providers
from webhook_inbox.testing.signers import SIGNERS, Draft
from webhook_inbox.testing.source_conformance import CHECKS, SENT_AT, Example
from webhook_inbox.testing.tampering import flips

ALL = [pytest.param(example, id=name) for name, example in EXAMPLES.items()]


def test_every_provider_has_an_example() -> None:
    """None is left out."""
    named = {name.partition(",")[0] for name in EXAMPLES}
    assert named == {each.provider for each in providers()}


@pytest.mark.parametrize("example", ALL)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_source_keeps_what_is_asked_of_it(check: Callable[[Example], None], example: Example) -> None:
    """P-RAW, P-CALM: see ``webhook_inbox.testing.source_conformance``."""
    check(example)


#: They have no header to be cut or changed: what is signed and its signature stand in one body.
IN_BODY = [pytest.param(each, id=name) for name, each in EXAMPLES.items() if not each.signature_headers]
_SIGNATURE = re.compile(rb'[sS]ignature":"([^"]+)"')


@pytest.mark.parametrize("example", IN_BODY)
def test_a_signature_in_the_body_counts_whole(example: Example) -> None:
    """P-RAW: cut anywhere, or with any of its bits changed, it is refused, as one in a header is."""
    body = example.delivery.body
    found = list(_SIGNATURE.finditer(body))
    assert found
    for start, end in (each.span(1) for each in found):
        whole = body[start:end]
        cut = [whole[:length] for length in range(len(whole))]
        for changed in (*cut, *(flipped for _, flipped in flips(whole))):
            sent = replace(example.delivery, body=body[:start] + changed + body[end:])
            assert isinstance(example.verdict(sent, example.secret), Rejected), changed


#: They are given what their provider publishes, or fetch it.
PUBLISHED = {"paypal", "plaid", "sns"}


@pytest.mark.parametrize("nothing", [[], [""], [" "], ["\n"], ["", ""]], ids=repr)
@pytest.mark.parametrize(
    "example", [pytest.param(each, id=name) for name, each in EXAMPLES.items() if name not in PUBLISHED]
)
def test_no_provider_is_believed_without_a_secret(example: Example, nothing: list[str]) -> None:
    """P-RAW: a variable that is unset or blank stops the start; there is no source that believes anybody."""
    with pytest.raises(ConfigurationError):
        example.make(nothing)


def test_only_two_providers_repeat_a_header() -> None:
    """Mollie sends its own once for each secret, DocuSign numbers them; of any other nobody knows which one counts."""
    assert {name for name, example in EXAMPLES.items() if example.repeats_headers} == {"docusign", "mollie"}


# What a secret is made of elsewhere: keys, their encodings, and what a header can carry.
FORMED = {"adyen", "discord", "paypal", "plaid", "sendgrid", "sns", "standard-webhooks", "stripe", "telegram"}
FREE = [
    pytest.param(name, example, id=name)
    for name, example in EXAMPLES.items()
    if name.partition(",")[0] not in FORMED and name not in {"gitlab", "gitlab, token", "postmark, open"}
]


@pytest.mark.parametrize(("name", "example"), FREE)
def test_a_secret_beyond_ascii_is_used_as_it_is(name: str, example: Example) -> None:
    """As UTF-8, and as no other text that looks the same."""
    secret, alike = "fäke:ключ", "fa\u0308ke:ключ"
    sent = example.delivery
    draft = Draft(
        body=sent.body, secret=secret, event_id="evt_1", event_type="t", timestamp=SENT_AT, url=sent.url
    )
    signed = SIGNERS[name.partition(",")[0]](draft)
    headers = Headers([("content-type", sent.headers.get("content-type", "")), *signed.headers])
    if "content-type" in dict(signed.headers):
        headers = Headers(signed.headers)
    made = replace(sent, headers=headers, body=signed.body)
    assert example.verdict(made, secret) == Verified("secret-1")
    assert isinstance(example.verdict(made, alike), Rejected)


@pytest.mark.parametrize("example", ALL)
def test_headers_that_carry_credentials_are_never_stored(example: Example) -> None:
    """P-QUIET: where a header is the secret itself, the source names it."""
    source = example.make([example.secret])
    carrying = {name for name, value in example.delivery.headers.pairs if example.secret in value}
    assert carrying <= source.secret_headers


@pytest.mark.parametrize("example", ALL)
def test_no_source_shows_its_secret(example: Example) -> None:
    """P-QUIET: neither a representation nor a refusal."""
    source = example.make([example.secret])
    assert example.secret not in repr(source)
    refusal = example.verdict(example.delivery, example.other_secret)
    assert isinstance(refusal, Rejected)
    assert example.secret not in refusal.message
    assert example.other_secret not in refusal.message


@pytest.mark.parametrize("example", ALL)
def test_what_a_header_says_is_in_no_key_but_as_the_id(example: Example) -> None:
    """Account and environment count only where the signature covers them: headers beside it change neither."""
    plain = example.readings(example.delivery)
    beside = [
        (name, "stranger.example")
        for name in ("x-shopify-shop-domain", "x-tenant", "stripe-account", "x-gitlab-instance")
    ]
    headers = Headers([*example.delivery.headers.pairs, *beside])
    for before, after in zip(
        plain, example.readings(replace(example.delivery, headers=headers)), strict=True
    ):
        assert isinstance(before, Identity)
        assert isinstance(after, Identity)
        assert (before.account, before.environment) == (after.account, after.environment)


@pytest.mark.parametrize("example", ALL)
def test_a_key_has_the_parts_that_its_source_says(example: Example) -> None:
    """P-DUP: whoever names an event without seeing it, as ``import`` does, knows what its key has and has not."""
    source = example.make([example.secret])
    for reading in source.identify(example.delivery):
        assert isinstance(reading, Identity)
        parts = {part for part in ("account", "environment") if getattr(reading, part)}
        assert source.key_parts <= parts <= source.key_parts | source.optional_key_parts
