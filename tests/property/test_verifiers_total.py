"""Whatever a stranger sends, a verifier gives a verdict: it never raises, never believes, and is never slow."""

from __future__ import annotations

import hashlib
import hmac
import time

import pytest
from hypothesis import given, settings, strategies as st

from tests.deliveries import NOW, STANDARD_SECRET, STRIPE_SECRET, delivery, verdict
from tests.property.strategies import BODIES, HEADER_TEXTS, HOSTILE
from webhook_inbox.sources import Hmac, Rejected, Source, StandardWebhooks, Stripe, Verified
from webhook_inbox.testing.signing import public_key_of, sign_hmac, sign_standard_webhooks, sign_stripe

PRIVATE = "whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
KEY = "fake-hmac-key"
PLAIN = Hmac("plain", secrets=KEY, header="x-sig", prefix="sha256=")
LISTED = Hmac(
    "listed",
    secrets=[KEY, "fake-other"],
    header="x-sig",
    separator=",",
    prefix="v1=",
    encoding="base64",
    signed="{method}{url}{id}.{timestamp}.{body}",
    timestamp="part:t",
    timestamp_unit="ms",
    tolerance_seconds=300,
    event_id="header:x-id",
)
IN_BODY = Hmac(
    "in-body", secrets=KEY, header="x-sig", timestamp="$.at", timestamp_unit="iso", tolerance_seconds=9
)
SOURCES: dict[str, Source] = {
    "stripe": Stripe([STRIPE_SECRET, "whsec_fake_other"]),
    "standard": StandardWebhooks([STANDARD_SECRET, public_key_of(PRIVATE)]),
    "plain": PLAIN,
    "listed": LISTED,
    "in-body": IN_BODY,
}
NAMES = [
    "stripe-signature",
    "webhook-signature",
    "webhook-id",
    "webhook-timestamp",
    "svix-signature",
    "svix-id",
    "svix-timestamp",
    "x-sig",
    "x-id",
]
HEADERS = st.lists(st.tuples(st.sampled_from(NAMES), HEADER_TEXTS), max_size=8)
CLOCKS = st.one_of(st.floats(), st.integers(0, 2**40).map(float), st.just(float(NOW)))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@given(headers=HEADERS, body=BODIES, now=CLOCKS, target=st.tuples(st.text(max_size=3), st.text(max_size=9)))
@settings(max_examples=400, deadline=None)
def test_no_stranger_is_believed_and_nothing_raises(
    source: Source, headers: list[tuple[str, str]], body: bytes, now: float, target: tuple[str, str]
) -> None:
    """P-CALM, P-RAW: without the secret there is no way in, and every answer is a short constant refusal."""
    asked = delivery(body, headers, now=now, method=target[0], url=target[1])
    got = verdict(source, asked)
    assert isinstance(got, Rejected)
    assert got.status == 400
    assert len(got.message) < 160
    assert got.reason.partition("_")[0] in {"signature", "timestamp", "id"}
    readings = source.identify(asked)
    assert readings


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@given(body=st.one_of(BODIES, st.text(max_size=30).map(lambda text: text.encode("utf-8", "surrogatepass"))))
@settings(max_examples=300, deadline=None)
def test_every_body_has_a_reading(source: Source, body: bytes) -> None:
    """P-CALM: identify is total over any bytes."""
    assert len(source.identify(delivery(body))) == 1


@given(body=BODIES, timestamp=st.integers(NOW - 300, NOW + 300), others=HEADERS)
@settings(max_examples=300, deadline=None)
def test_what_stripe_signs_is_believed_whatever_stands_beside_it(
    body: bytes, timestamp: int, others: list[tuple[str, str]]
) -> None:
    """Any bytes, any time within the tolerance, any other header."""
    beside = [pair for pair in others if pair[0] != "stripe-signature"]
    headers = [*beside, *sign_stripe(body, STRIPE_SECRET, timestamp)]
    assert verdict(SOURCES["stripe"], delivery(body, headers)) == Verified("secret-1")


@given(
    body=BODIES,
    event_id=st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="."), min_size=1),
)
@settings(max_examples=200, deadline=None)
def test_what_standard_webhooks_signs_is_believed(body: bytes, event_id: str) -> None:
    """With either kind of key, under any id a header can hold."""
    for secret, label in ((STANDARD_SECRET, "secret-1"), (PRIVATE, "secret-2")):
        headers = sign_standard_webhooks(body, secret, event_id, NOW)
        assert verdict(SOURCES["standard"], delivery(body, headers)) == Verified(label)


@given(body=BODIES, changed=BODIES)
@settings(max_examples=200, deadline=None)
def test_another_body_under_the_same_signature_is_refused(body: bytes, changed: bytes) -> None:
    """P-RAW: one byte is enough."""
    if body == changed:
        changed += b" "
    for source, headers in (
        (SOURCES["stripe"], sign_stripe(body, STRIPE_SECRET, NOW)),
        (SOURCES["standard"], sign_standard_webhooks(body, STANDARD_SECRET, "m", NOW)),
        (PLAIN, sign_hmac(body, KEY, "x-sig", prefix="sha256=")),
    ):
        assert isinstance(verdict(source, delivery(body, headers)), Verified)
        assert isinstance(verdict(source, delivery(changed, headers)), Rejected)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_takes_no_time_worth_having(source: Source, text: str) -> None:
    """P-CALM: the best of three runs is far below 50 ms, whatever stands in any header."""
    asked = delivery(b"{}", [(name, text) for name in NAMES])
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        assert isinstance(verdict(source, asked), Rejected)
        spent.append(time.perf_counter() - began)
    assert min(spent) < 0.05


def test_a_good_signature_of_the_field_reports_hostile_list_is_the_only_one_believed() -> None:
    """C03, the whole list at once: only the last is what Stripe sends."""
    body = b'{"id":"evt_x","object":"event","type":"order.paid","created":1700000000}'
    good = hmac.new(STRIPE_SECRET.encode(), f"{NOW}.".encode() + body, hashlib.sha256).hexdigest()
    hostile = [
        f"t={NOW},v1=\xe9",
        f"t={NOW},v1=",
        f"v1={good}",
        f"t,v1={good}",
        f"t=abc,v1={good}",
        f"t=1_700_000_000,v1={good}",
        f"t=\u0661\u0667\u0660\u0660,v1={good}",
        f"t={NOW},t={NOW - 9999},v1={good}",
        f"t={NOW}" + ",v1=" * 10_000,
        f"t={NOW},v1={good.upper()}",
        f"t={NOW},v1={good[:63]}",
    ]
    for text in hostile:
        got = verdict(SOURCES["stripe"], delivery(body, [("stripe-signature", text)]))
        assert isinstance(got, Rejected), text
    twice = [("stripe-signature", f"t={NOW},v1={good}")] * 2
    assert isinstance(verdict(SOURCES["stripe"], delivery(body, twice)), Rejected)
    kept = f"t={NOW},v1={good},v0={'0' * 64}"
    assert verdict(SOURCES["stripe"], delivery(body, [("stripe-signature", kept)])) == Verified("secret-1")
