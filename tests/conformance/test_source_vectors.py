"""Hold each provider's own class against its vectors: what the provider signs is believed, what it does not is not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.conformance.signature_vectors import VECTORS, Vector, provider_of
from tests.conformance.source_classes import (
    CLASSES,
    EITHER,
    PUBLISHED,
    REFUSED_WITH,
    TOLD,
    UNLIKE_OFFICIAL,
)
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.secret import secrets_of
from webhook_inbox.sources import GitHub, Rejected, Source, Unreadable, Verified

REASONS: Mapping[str, frozenset[str]] = {
    "bad_signature": frozenset({"signature_mismatch", "signature_malformed", "signature_version"}),
    "bad_token": frozenset({"signature_mismatch"}),
    "malformed_body": frozenset({"signature_missing"}),
    "malformed_header": frozenset(
        {"signature_malformed", "signature_version", "timestamp_malformed", "timestamp_missing"}
    ),
    "missing_header": frozenset({"signature_missing", "timestamp_missing", "id_missing"}),
    "missing_signature": frozenset({"signature_missing"}),
    "missing_timestamp": frozenset({"timestamp_malformed"}),
    "no_supported_signature": frozenset({"signature_version"}),
    "timestamp_too_new": frozenset({"timestamp_out_of_tolerance"}),
    # A time in seconds where milliseconds are signed is far too old, or no such time at all.
    "timestamp_too_old": frozenset({"timestamp_out_of_tolerance", "timestamp_malformed"}),
    "untrusted_certificate_url": frozenset({"signature_malformed"}),
    "unsupported_algorithm": frozenset({"signature_version"}),
}

# Where our answer is another one than the vector's, on purpose.
REFUSED_AT_START = {
    "stripe/signature-without-prefix-secret-stripped": "a secret that could never match (C09)",
    "mollie/classic-unsigned": "a source without a secret",
}
QUARANTINED = {  # authentic, so it is kept and shown rather than refused: what cannot be read is the receiver's matter
    "stripe/non-utf8-body",
    "shopify/missing-topic",
}
JUDGED = [vector for vector in VECTORS.values() if provider_of(vector) in CLASSES.keys() | PUBLISHED.keys()]
ORDINARY = [
    vector for vector in JUDGED if vector.id not in QUARANTINED | REFUSED_AT_START.keys() | EITHER.keys()
]


def source_of(vector: Vector) -> Source:
    """Give the vector's provider, with the vector's secrets and keys."""
    if make := PUBLISHED.get(provider_of(vector)):
        return make(vector.secrets, vector.published)
    return TOLD.get(vector.scheme, CLASSES[provider_of(vector)])(vector.secrets)


def judge(vector: Vector) -> Verified | Rejected:
    """Ask the provider's class."""
    source = source_of(vector)
    return source.verify(vector.delivery, secrets_of(source.secrets, setting="test"))


def test_no_vector_is_left_out() -> None:
    """Each of the 319 vectors is judged here, by the class of its provider; each provider has some."""
    assert len(JUDGED) == len(VECTORS) == 319
    assert {provider_of(vector) for vector in VECTORS.values()} == CLASSES.keys() | PUBLISHED.keys()
    assert len(EITHER) == 5


@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector.id) for vector in ORDINARY])
def test_a_provider_s_signature_decides(vector: Vector) -> None:
    """P-RAW: what the provider signed is believed; anything else is refused for the reason that is true."""
    got = judge(vector)
    if vector.valid:
        assert isinstance(got, Verified)
        matching = "secret-2" if "second-of-two" in vector.id else "secret-1"
        assert got.label == ("secret-3" if vector.id == "paddle/published-sdk-test" else matching)
    else:
        assert isinstance(got, Rejected)
        assert got.reason in REASONS[vector.code]
        assert got.status == REFUSED_WITH.get(provider_of(vector), 400)


@pytest.mark.parametrize(
    "vector", [pytest.param(vector, id=vector.id) for vector in ORDINARY if vector.valid is True]
)
def test_what_is_believed_has_a_reading(vector: Vector) -> None:
    """P-CALM: whatever was signed is named, or said to be unreadable; both are kept."""
    assert source_of(vector).identify(vector.delivery)


@pytest.mark.parametrize("name", sorted(REFUSED_AT_START))
def test_a_secret_that_cannot_be_right_never_gets_as_far_as_a_delivery(name: str) -> None:
    """The start fails where every delivery would."""
    with pytest.raises(ConfigurationError):
        judge(VECTORS[name])


@pytest.mark.parametrize("name", sorted(QUARANTINED))
def test_an_authentic_body_that_cannot_be_read_is_believed_and_quarantined(name: str) -> None:
    """P-CALM: after a valid signature nothing is refused; the reading says why there is no event in it."""
    vector = VECTORS[name]
    assert isinstance(judge(vector), Verified)
    assert [type(reading) for reading in source_of(vector).identify(vector.delivery)] == [Unreadable]


@pytest.mark.parametrize(("name", "believed"), sorted(EITHER.items()))
def test_where_either_is_defensible_ours_is_pinned(name: str, *, believed: bool) -> None:
    """Our answer to what the providers leave open does not drift."""
    assert isinstance(judge(VECTORS[name]), Verified) is believed


def believed(vector: Vector) -> bool:
    """Say whether ours believes it; a source that cannot be made believes nothing."""
    try:
        return isinstance(judge(vector), Verified)
    except ConfigurationError:
        return False


def test_every_difference_from_the_official_libraries_is_listed() -> None:
    """Each library was run on the very request; where it says otherwise, the reason stands above."""
    asked = [vector for vector in JUDGED if vector.official is not None]
    differing = {vector.id for vector in asked if believed(vector) != vector.official}
    assert differing == UNLIKE_OFFICIAL.keys()


def test_github_s_legacy_signature_counts_only_where_it_is_asked_for() -> None:
    """And then it alone: a source reads one header."""
    legacy, today = VECTORS["github/valid-legacy-sha1"], VECTORS["github/valid"]
    for vector, believed in ((legacy, True), (today, False)):
        source = GitHub(vector.secrets, algorithm="sha1")
        got = source.verify(vector.delivery, secrets_of(source.secrets, setting="test"))
        assert isinstance(got, Verified) is believed
