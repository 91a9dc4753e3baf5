"""
Hold our verifiers against the official libraries, as oracles.

Never do we believe what they refuse. What they believe and we refuse is listed here, with the reason; chance must find
nothing beyond the list. The two things that we believe and they cannot are listed too.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from types import SimpleNamespace

import pytest
import standardwebhooks
import stripe
from hypothesis import given, settings, strategies as st
from standardwebhooks import webhooks as standard_module
from stripe import _webhook as stripe_module

from tests.deliveries import NOW, STANDARD_SECRET, STRIPE_SECRET, delivery, verdict
from tests.property.strategies import EDITS, edited
from webhook_inbox.sources import Rejected, StandardWebhooks, Stripe, Verified
from webhook_inbox.testing.signing import sign_standard_webhooks, sign_stripe

BODY = b'{"id":"evt_1","type":"order.paid"}'
STRIPE = Stripe(STRIPE_SECRET)
STANDARD = StandardWebhooks(STANDARD_SECRET)


class Stopped(datetime):
    """Stand still at NOW."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Stopped:
        return cls.fromtimestamp(NOW, tz)


@pytest.fixture(autouse=True)
def stopped_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both libraries see the second that our deliveries come in."""
    monkeypatch.setattr(stripe_module, "time", SimpleNamespace(time=lambda: float(NOW)))
    monkeypatch.setattr(standard_module, "datetime", Stopped)


def stripe_says(header: str, body: bytes = BODY) -> bool:
    """Ask the official library; whatever it raises is a refusal."""
    try:
        stripe.WebhookSignature.verify_header(body, header, STRIPE_SECRET, 300)
    except Exception:
        return False
    return True


def standard_says(event_id: str, timestamp: str, signature: str, body: bytes = BODY) -> bool:
    """Ask the official library; whatever it raises is a refusal."""
    headers = {"webhook-id": event_id, "webhook-timestamp": timestamp, "webhook-signature": signature}
    try:
        standardwebhooks.Webhook(STANDARD_SECRET).verify(body, headers, json_parse=False)
    except Exception:
        return False
    return True


def ours_stripe(header: str, body: bytes = BODY) -> Verified | Rejected:
    """Ask ours."""
    return verdict(STRIPE, delivery(body, [("stripe-signature", header)]))


def ours_standard(event_id: str, timestamp: str, signature: str, body: bytes = BODY) -> Verified | Rejected:
    """Ask ours."""
    headers = [("webhook-id", event_id), ("webhook-timestamp", timestamp), ("webhook-signature", signature)]
    return verdict(STANDARD, delivery(body, headers))


def signed_stripe(timestamp: int = NOW, body: bytes = BODY) -> str:
    """Give a good digest at *timestamp*."""
    return sign_stripe(body, STRIPE_SECRET, timestamp)[0][1].partition("v1=")[2]


def signed_standard(timestamp: int = NOW, event_id: str = "msg_1", body: bytes = BODY) -> str:
    """Give a good entry at *timestamp*."""
    return sign_standard_webhooks(body, STANDARD_SECRET, event_id, timestamp)[2][1]


GOOD = signed_stripe()

# What stripe 16 believes and we do not. None of it is what Stripe sends.
STRIPE_STRICTER = {
    "a time in the future: a replay could wait for it": f"t={NOW + 3600},v1={signed_stripe(NOW + 3600)}",
    "t twice: which of them was signed?": f"t={NOW},t={NOW - 9999},v1={GOOD}",
    "a sign: int() takes it": f"t=+{NOW},v1={GOOD}",
    "blanks: int() takes them": f"t= {NOW} ,v1={GOOD}",
    "underscores: int() takes them": f"t=1_767_225_600,v1={GOOD}",
    "digits of another script: int() takes them": "t="
    + "".join(chr(0x660 + int(d)) for d in str(NOW))
    + f",v1={GOOD}",
    "a leading zero: int() drops it": f"t=0{NOW},v1={GOOD}",
    "something after a second equals sign: it is thrown away": f"t={NOW},v1={GOOD}=x",
    "a part without an equals sign: it is passed over": f"t={NOW},v1={GOOD},x",
    "more than sixteen signatures": f"t={NOW}" + f",v1={GOOD}" * 17,
    "a header longer than 4096 characters": f"t={NOW},v1={GOOD},x={'y' * 4096}",
}

# What standardwebhooks 1.1 believes and we do not. None of it is in the specification.
STANDARD_STRICTER = {
    "a fraction: the text is not what was signed": ("msg_1", f"{NOW}.5", signed_standard()),
    "an exponent: float() takes it": ("msg_1", "17672256e2", signed_standard()),
    "a sign: float() takes it": ("msg_1", f"+{NOW}", signed_standard()),
    "an underscore: float() takes it": ("msg_1", "1_767_225_600", signed_standard()),
    "a leading zero: float() drops it": ("msg_1", f"0{NOW}", signed_standard()),
    "stray characters in base64: they are passed over": (
        "msg_1",
        str(NOW),
        signed_standard().replace(",", ",!"),
    ),
    "unused bits of base64, here t for s: they are passed over": (
        "msg_1",
        str(NOW),
        signed_standard()[:-2] + "t=",
    ),
    "an id that could be cut in two places": ("a.1", str(NOW), signed_standard(event_id="a.1")),
    "an entry without a version behind the good one: it is not reached": (
        "msg_1",
        str(NOW),
        f"{signed_standard()} x",
    ),
    "more than sixteen signatures": ("msg_1", str(NOW), " ".join([signed_standard()] * 17)),
    "a header longer than 4096 characters": ("msg_1", str(NOW), signed_standard() + " v2," + "y" * 4096),
}


@pytest.mark.parametrize("header", STRIPE_STRICTER.values(), ids=STRIPE_STRICTER)
def test_stripe_s_library_believes_it_and_we_do_not(header: str) -> None:
    """Each intended difference is one: should the library mend it, this list gets shorter."""
    assert stripe_says(header)
    assert isinstance(ours_stripe(header), Rejected)


@pytest.mark.parametrize("headers", STANDARD_STRICTER.values(), ids=STANDARD_STRICTER)
def test_the_standard_library_believes_it_and_we_do_not(headers: tuple[str, str, str]) -> None:
    """Each intended difference is one."""
    assert standard_says(*headers)
    assert isinstance(ours_standard(*headers), Rejected)


def test_what_we_believe_and_they_cannot() -> None:
    """Bytes that are not UTF-8 are signed like any others, and several blanks separate like one."""
    body = b'{"text":"caf\xe9"}'
    header = f"t={NOW},v1={signed_stripe(body=body)}"
    assert (ours_stripe(header, body), stripe_says(header, body)) == (Verified("secret-1"), False)
    entry = signed_standard(body=body)
    assert ours_standard("msg_1", str(NOW), entry, body) == Verified("secret-1")
    assert not standard_says("msg_1", str(NOW), entry, body)
    spaced = f"v1,{'A' * 43}=  {signed_standard()}"
    assert ours_standard("msg_1", str(NOW), spaced) == Verified("secret-1")
    assert not standard_says("msg_1", str(NOW), spaced)


TEXTS = st.text(max_size=40).map(str.encode)
TIMES = st.integers(NOW - 400, NOW + 400)


@given(
    body=TEXTS,
    timestamp=TIMES,
    other=st.sampled_from(["", ",v0=0", f",v1={'0' * 64}", ",v2=x"]),
    first=st.booleans(),
)
@settings(max_examples=500, deadline=None)
def test_what_stripe_sends_gets_one_answer(body: bytes, timestamp: int, other: str, first: bool) -> None:
    """Signed by the official library: believed by both, or late for both; too early only for ours."""
    header = stripe.WebhookSignature.generate_signature_header(body.decode(), STRIPE_SECRET, timestamp)
    header = f"{other[1:]},{header}" if first and other else header + other
    ours = isinstance(ours_stripe(header, body), Verified)
    assert ours == (stripe_says(header, body) and timestamp <= NOW + 300)


@given(body=TEXTS, event_id=st.text("abcXYZ_-019 ", min_size=1, max_size=9), timestamp=TIMES)
@settings(max_examples=500, deadline=None)
def test_what_standard_webhooks_sends_gets_one_answer(body: bytes, event_id: str, timestamp: int) -> None:
    """Signed by the official library: believed by both or by neither. (Beyond ASCII an id is bytes to us alone.)"""
    at = datetime.fromtimestamp(timestamp, UTC)
    entry = standardwebhooks.Webhook(STANDARD_SECRET).sign(event_id, at, body.decode())
    ours = ours_standard(event_id, str(timestamp), entry, body)
    assert isinstance(ours, Verified) == standard_says(event_id, str(timestamp), entry, body)


def stripe_difference_is_listed(header: str) -> bool:
    """Say whether the header has one of the forms listed above, found without our parser."""
    parts = [item.split("=") for item in header.split(",")]
    times = [part[1] for part in parts if part[0] == "t" and len(part) > 1]
    plain = len(times) == 1 and times[0].isascii() and times[0].isdigit() and times[0] == str(int(times[0]))
    return not plain or int(times[0]) > NOW + 300 or any(len(part) != 2 for part in parts)


@given(edits=EDITS)
@settings(max_examples=1500, deadline=None)
def test_near_a_good_stripe_header_only_listed_differences_exist(edits: list[tuple[int, int, str]]) -> None:
    """Whatever is changed in a good header: we believe nothing that they refuse, and refuse only what is listed."""
    header = edited(f"t={NOW},v1={GOOD},v1={'0' * 64}", edits)
    ours, theirs = isinstance(ours_stripe(header), Verified), stripe_says(header)
    assert not ours or theirs
    assert ours or not theirs or stripe_difference_is_listed(header)


def standard_difference_is_listed(timestamp: str, signature: str) -> bool:
    """Say whether the headers have one of the forms listed above, found without our parser."""
    plain = timestamp.isascii() and timestamp.isdigit() and timestamp == str(int(timestamp))
    entries = [entry for entry in signature.split(" ") if entry]
    return not plain or signed_standard() not in entries or any("," not in entry for entry in entries)


def only_ours(signature: str) -> bool:
    """Say whether the library stumbles over something in front of the good entry, where we step over it."""
    entries = signature.split(" ")
    before = entries[: entries.index(signed_standard())] if signed_standard() in entries else []
    return any(entry.count(",") != 1 or len(entry.partition(",")[2]) != 44 for entry in before)


@given(edits=EDITS, of_time=st.booleans())
@settings(max_examples=1500, deadline=None)
def test_near_good_standard_headers_only_listed_differences_exist(
    edits: list[tuple[int, int, str]], of_time: bool
) -> None:
    """The same for time and signatures of Standard Webhooks; stepping over a bad entry to a good one is ours alone."""
    timestamp, signature = str(NOW), f"{signed_standard()} v1,{'A' * 43}="
    if of_time:
        timestamp = edited(timestamp, [(at % 11, length, new) for at, length, new in edits])
    else:
        signature = edited(signature, edits)
    ours = isinstance(ours_standard("msg_1", timestamp, signature), Verified)
    theirs = standard_says("msg_1", timestamp, signature)
    assert not ours or theirs or only_ours(signature)
    assert ours or not theirs or standard_difference_is_listed(timestamp, signature)
