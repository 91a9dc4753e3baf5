"""The catalogue says what the classes say, and each fact says where it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from webhook_inbox import sources
from webhook_inbox.cli.sources_page import page
from webhook_inbox.sources import Source
from webhook_inbox.sources.catalogue import HOMES, providers
from webhook_inbox.sources.facts import Fact, Facts

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sources.md"
# What a source is made with, where any text will not do.
NEEDED = {
    "plaid": ["fake-client-id", "fake-secret"],
    "standard-webhooks": ["whsec_AAAAAAAAAAAAAAAA"],
    "stripe": ["whsec_fake"],
}
PROVIDERS = {each.__name__: each for each in providers()}


def facts_of(source: type[Source]) -> Facts:
    """Give the facts; each provider has them."""
    assert source.facts is not None
    return source.facts


def test_the_page_is_current() -> None:
    """``webhook-inbox sources list --markdown > docs/reference/sources.md`` makes it so."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_public_source_is_in_the_catalogue_and_the_other_way_round() -> None:
    """Only ``Hmac`` has no facts: it is no provider."""
    classes = {
        name
        for name in sources.__all__
        if isinstance(found := getattr(sources, name), type) and issubclass(found, Source)
    }
    assert classes == HOMES.keys() | {"Source"}
    assert PROVIDERS.keys() == HOMES.keys() - {"Hmac"}
    assert len({each.provider for each in PROVIDERS.values()}) == len(PROVIDERS)


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_fact_says_where_it_stands(name: str) -> None:
    """What is stated has a source, or says itself that it is not confirmed; a phrase, without a full stop."""
    facts = facts_of(PROVIDERS[name])
    for field, fact in ((field, getattr(facts, field)) for field in facts.__slots__):
        if not isinstance(fact, Fact) or not fact.text:
            continue
        assert fact.source or re.search(r"not (confirmed|checked)", fact.text), field
        assert not fact.text.endswith("."), field
        assert fact.text == fact.text.strip(), field
    assert all(weakness.endswith(".") for weakness in facts.weaknesses)


@pytest.mark.parametrize("name", PROVIDERS)
def test_an_inline_endpoint_is_possible_only_where_retries_are_known(name: str) -> None:
    """A provider of which no retry is known, or that does not retry, never counts as redelivering."""
    source, facts = PROVIDERS[name], facts_of(PROVIDERS[name])
    if source.redelivers:
        assert facts.retries.seconds != 0
        assert facts.retries.text != "not confirmed"


@pytest.mark.parametrize("name", PROVIDERS)
def test_the_window_stated_is_the_window_checked(name: str) -> None:
    """Where the provider names a number of seconds, the source refuses at it by default."""
    source, facts = PROVIDERS[name], facts_of(PROVIDERS[name])
    if facts.window.seconds is None:
        return
    made = source(*NEEDED.get(source.provider, ["fake"]))
    scheme = getattr(made, "scheme", None)
    tolerance = scheme.time.tolerance_seconds if scheme else made.tolerance_seconds  # type: ignore[attr-defined]
    assert tolerance == facts.window.seconds
