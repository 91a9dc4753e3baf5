"""Every provider keeps what is asked of a source; the suite is the one that users run on theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.source_examples import EXAMPLES
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources import Identity, Rejected, Verified
from webhook_inbox.sources.catalogue import providers
from webhook_inbox.testing.source_conformance import CHECKS, Example

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


@pytest.mark.parametrize("example", ALL)
def test_a_repeated_header_is_refused_unless_the_provider_repeats_it(example: Example) -> None:
    """Only Mollie sends its header once for each secret; of any other nobody knows which one counts."""
    source = example.make([example.secret])
    for name in example.signature_headers:
        if name == "x-docusign-signature-1":
            continue  # numbered, so that none is repeated
        value = example.delivery.headers[name]
        for pair in ((value, value), (value, "0" * len(value)), ("0" * len(value), value)):
            pairs = [*example.delivery.headers.without({name}).pairs, *((name, each) for each in pair)]
            got = example.verdict(replace(example.delivery, headers=Headers(pairs)))
            assert isinstance(got, Verified if source.provider == "mollie" else Rejected)


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
