"""Hold every source against the providers' own signatures: what they sign is believed, what they do not is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from tests.conformance.signature_vectors import ELSEWHERE, SOURCES, VECTORS, Vector, expressible, provider_of
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.secret import secrets_of
from webhook_inbox.sources import Rejected, Unreadable, Verified

REASONS: Mapping[str, frozenset[str]] = {
    "bad_signature": frozenset({"signature_mismatch", "signature_malformed"}),
    "malformed_header": frozenset(
        {"signature_malformed", "signature_version", "timestamp_malformed", "timestamp_missing"}
    ),
    "missing_header": frozenset({"signature_missing", "timestamp_missing", "id_missing"}),
    "missing_timestamp": frozenset({"timestamp_malformed"}),
    "no_supported_signature": frozenset({"signature_version"}),
    "timestamp_too_new": frozenset({"timestamp_out_of_tolerance"}),
    # A time in seconds where milliseconds are signed is far too old, or no such time at all.
    "timestamp_too_old": frozenset({"timestamp_out_of_tolerance", "timestamp_malformed"}),
}

# Where our answer is another one than the vector's, on purpose.
REFUSED_AT_START = {"stripe/signature-without-prefix-secret-stripped"}  # a secret that could never match: C09
QUARANTINED = {  # authentic, so it is kept and shown rather than refused: what cannot be read is the receiver's matter
    "stripe/non-utf8-body",
    "square/empty-body",
    "shopify/missing-topic",
}
STRICTER = {  # genuine deliveries that need more than a description: sources of their own will take them
    "docusign/valid-signature-2-matches": "one header for each key",
    "mollie/valid-two-signature-headers": "the same header twice",
    "hubspot/v3-valid-encoded-query": "the URL decoded before it is signed",
}
EITHER = {  # what we say where the vector leaves it open
    "github/valid-legacy-sha1": True,  # only because this source was told to read SHA-1
    "mollie/no-prefix": False,
    "openai/bare-base64-without-v1": False,
    "paddle/unknown-key-h2": True,
    "standardwebhooks/malformed-signature-double-space": True,
}


def judge(vector: Vector) -> Verified | Rejected:
    """Ask the source that the vector's scheme is configured as."""
    source = SOURCES[provider_of(vector), vector.scheme](vector.secrets)
    return source.verify(vector.delivery, secrets_of(source.secrets, setting="test"))


def test_no_vector_is_left_out_silently() -> None:
    """Each of the 319 vectors is either judged here or belongs to a scheme that is counted and explained."""
    judged = Counter(vector.scheme for vector in expressible())
    elsewhere = Counter(vector.scheme for vector in VECTORS.values()) - judged
    assert elsewhere == {scheme: count for scheme, (count, _) in ELSEWHERE.items()}
    assert len(VECTORS) == 319
    assert judged.total() == 231
    assert {name for name, scheme in SOURCES if scheme == "standard-webhooks-v1"} == {
        "standardwebhooks",
        "openai",
        "gitlab",
    }
    assert (judged["stripe-v1"], judged["standard-webhooks-v1"]) == (27, 38)


ORDINARY = [
    vector
    for vector in expressible()
    if vector.id not in REFUSED_AT_START | QUARANTINED | set(STRICTER) | set(EITHER)
]


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
        assert got.status == 400


@pytest.mark.parametrize("name", sorted(REFUSED_AT_START))
def test_a_secret_that_cannot_be_right_never_gets_as_far_as_a_delivery(name: str) -> None:
    """C09: the start fails where every delivery would."""
    with pytest.raises(ConfigurationError):
        judge(VECTORS[name])


@pytest.mark.parametrize("name", sorted(QUARANTINED))
def test_an_authentic_body_that_cannot_be_read_is_believed_and_quarantined(name: str) -> None:
    """P-CALM: after a valid signature nothing is refused; the reading says why there is no event in it."""
    vector = VECTORS[name]
    source = SOURCES[provider_of(vector), vector.scheme](vector.secrets)
    assert isinstance(source.verify(vector.delivery, secrets_of(source.secrets, setting="test")), Verified)
    assert [type(reading) for reading in source.identify(vector.delivery)] == [Unreadable]


@pytest.mark.parametrize("name", sorted(STRICTER))
def test_what_a_description_cannot_say_is_refused_not_guessed(name: str) -> None:
    """A generic source believes nothing beyond its description."""
    assert isinstance(judge(VECTORS[name]), Rejected)


@pytest.mark.parametrize(("name", "believed"), sorted(EITHER.items()))
def test_where_either_is_defensible_ours_is_pinned(name: str, *, believed: bool) -> None:
    """Our answer to what the providers leave open does not drift."""
    assert isinstance(judge(VECTORS[name]), Verified) is believed
