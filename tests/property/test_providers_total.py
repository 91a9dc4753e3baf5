"""Whatever a stranger sends to a provider's endpoint, its source gives a verdict: it never raises, never believes."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from tests.property.strategies import (
    BODIES,
    EDITS,
    HEADER_TEXTS,
    HOSTILE,
    almost_json,
    edited,
    json_texts,
)
from tests.source_examples import EXAMPLES, JSON
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.secret import secrets_of
from webhook_inbox.sources import Answer, Identity, Rejected, Unreadable
from webhook_inbox.testing.source_conformance import SENT_AT, Example
from webhook_inbox.testing.tampering import with_header

ALL = [pytest.param(example, id=name) for name, example in EXAMPLES.items()]
TYPES = st.sampled_from(["application/json", "application/x-www-form-urlencoded", "text/plain", "", "é"])
WORDS = st.one_of(json_texts(), almost_json(), BODIES)
DIGEST = re.compile("[A-Za-z0-9+/_-]{20,}=*")
CLOCKS = st.one_of(st.floats(), st.integers(0, 2**40).map(float), st.just(float(SENT_AT)))


@pytest.mark.parametrize("example", ALL)
@given(data=st.data(), body=WORDS, now=CLOCKS, content_type=TYPES)
@settings(max_examples=60, deadline=None)
def test_no_stranger_is_believed_and_nothing_raises(
    example: Example, data: st.DataObject, body: bytes, now: float, content_type: str
) -> None:
    """P-CALM, P-RAW: any headers, any body, any clock; every answer is a short refusal that quotes neither."""
    names = [name for name, _ in example.delivery.headers.pairs]
    pairs = data.draw(st.lists(st.tuples(st.sampled_from(names), HEADER_TEXTS), max_size=6))
    headers = Headers([*pairs, ("content-type", content_type)])
    got = example.verdict(replace(example.delivery, headers=headers, body=body, received_at=now))
    assert isinstance(got, Rejected)
    assert got.status in {400, 401}
    assert len(got.message) < 200
    assert got.reason.partition("_")[0] in {"signature", "timestamp", "id"}


@pytest.mark.parametrize("example", ALL)
@given(body=WORDS, content_type=TYPES, texts=st.lists(HEADER_TEXTS, min_size=8, max_size=8))
@settings(max_examples=60, deadline=None)
def test_every_body_has_a_reading(example: Example, body: bytes, content_type: str, texts: list[str]) -> None:
    """P-CALM: after verification nothing raises, whatever the body and the headers that name the event."""
    source = example.make([example.secret])
    names = [name for name, _ in example.delivery.headers.pairs if name != "content-type"]
    headers = Headers([("content-type", content_type), *zip(names, texts, strict=False)])
    sent = replace(example.delivery, headers=headers, body=body)
    readings = source.identify(sent)
    assert readings
    assert all(isinstance(reading, Identity | Unreadable) for reading in readings)
    for answer in (source.greet(sent), source.answer(sent, secrets_of(source.secrets, setting="test"))):
        assert answer is None or isinstance(answer, Answer)


@pytest.mark.parametrize("example", ALL)
@given(body=BODIES)
@settings(max_examples=40, deadline=None)
def test_another_body_under_a_good_signature_is_refused(example: Example, body: bytes) -> None:
    """P-RAW: where the signature covers the body, one byte is enough; elsewhere the catalogue says that it is not."""
    if body == example.delivery.body or not example.covers_body:
        return
    assert isinstance(example.verdict(replace(example.delivery, body=body)), Rejected)


@pytest.mark.parametrize("example", ALL)
@given(data=st.data(), edits=EDITS)
@settings(max_examples=60, deadline=None)
def test_whatever_is_changed_in_a_good_header_its_digest_counts_whole(
    example: Example, data: st.DataObject, edits: list[tuple[int, int, str]]
) -> None:
    """P-RAW: beside it a provider may send more signatures than one; nothing that is left of it is enough."""
    if not example.signature_headers:
        return
    name = data.draw(st.sampled_from(example.signature_headers))
    good = example.delivery.headers[name]
    changed = edited(good, edits)
    got = example.verdict(with_header(example.delivery, name, changed))
    digests = DIGEST.findall(good)
    whole = digests and all(digest in changed for digest in digests)
    assert changed == good or whole or isinstance(got, Rejected)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("example", ALL)
def test_a_hostile_header_takes_no_time_worth_having(example: Example, text: str) -> None:
    """P-CALM: the best of three runs is far below 50 ms, whatever stands in the signature headers."""
    headers = Headers([JSON, *((name, text) for name in example.signature_headers)])
    sent = replace(example.delivery, headers=headers)
    source = example.make([example.secret])
    secrets = secrets_of(source.secrets, setting="test")
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        source.verify(sent, secrets)
        spent.append(time.perf_counter() - began)
    assert min(spent) < 0.05
