"""What the page on signatures tells is what the sources do, and what the tests have found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.signature_vectors import VECTORS
from tests.conformance.source_classes import EITHER, UNLIKE_OFFICIAL
from webhook_inbox.sources import fetched, paypal, plaid
from webhook_inbox.sources.signature import HEADER_CHARS_MAX, SIGNATURES_MAX

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "signatures.md").read_text(encoding="utf-8")
CASES = dict(re.findall(r"^\| `([a-z]+/[^`]+)` \| (believed|refused) \|", PAGE, re.MULTILINE))


def test_every_difference_from_the_official_libraries_is_told() -> None:
    """And no other; ours says what theirs does not."""
    assert CASES.keys() == UNLIKE_OFFICIAL.keys()
    for case, answer in CASES.items():
        assert (answer == "believed") is not VECTORS[case].official


def test_what_is_open_to_either_answer_is_told() -> None:
    """All five, with the answer that the tests pin."""
    (named,) = re.findall(r"^Five of them(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`([^`]+)`", named)) == EITHER.keys()
    assert {case: CASES[case] == "believed" for case in EITHER} == EITHER


@pytest.mark.parametrize(
    "told",
    [
        f"{HEADER_CHARS_MAX:,} characters",
        f"{SIGNATURES_MAX}\n  signatures",
        f"{fetched.FETCH_SECONDS_MAX:g} seconds",
        f"{fetched.BYTES_MAX:,} bytes",
        f"kept for {fetched.KEPT_SECONDS:,} seconds",
        f"remembered for {fetched.REFUSED_SECONDS} seconds",
        f"could not be had for {fetched.FAILED_SECONDS} seconds",
        f"{fetched.FETCHES_A_MINUTE_MAX} a minute",
        *(f"`{host}`" for hosts in paypal._HOSTS.values() for host in hosts),
        *(f"`{host}`" for host in plaid._HOSTS.values()),
    ],
)
def test_every_limit_and_every_host_is_the_one_in_the_code(told: str) -> None:
    """As it stands there."""
    assert told in PAGE
