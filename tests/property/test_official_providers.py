"""
Hold the sources of Slack, Paddle and Adyen against the providers' own libraries, as oracles.

Never do we believe what they refuse, and refuse what they believe, but for what is listed here with its reason; chance
must find nothing beyond the lists.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from Adyen.util import (  # type: ignore[import-untyped]
    generate_notification_sig,
    is_valid_hmac_notification,
)
from hypothesis import given, settings, strategies as st
from paddle_billing.Notifications import Secret as PaddleSecret, Verifier  # type: ignore[import-untyped]
from slack_sdk.signature import Clock, SignatureVerifier

from tests.deliveries import NOW, delivery, verdict
from tests.property.strategies import EDITS, edited
from tests.source_examples import ADYEN_KEY, written
from webhook_inbox.sources import Adyen, Paddle, Slack, Verified

SECRET = "fake-oracle-secret"
BODY = '{"event_id":"evt_1","event_type":"order.paid","name":"é"}'.encode()
SLACK, PADDLE, ADYEN = Slack(SECRET), Paddle(SECRET), Adyen(ADYEN_KEY)


class Stopped(Clock):
    """Stand still at NOW."""

    def now(self) -> float:
        return float(NOW)


@pytest.fixture(autouse=True)
def _paddle_s_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Paddle's library see the second that our deliveries come in."""
    module = sys.modules[Verifier.__module__]
    monkeypatch.setattr(module, "time", lambda: float(NOW))
    monkeypatch.delenv("TEST_MODE", raising=False)


def sign(content: bytes) -> str:
    """Give the digest under the secret."""
    return hmac.new(SECRET.encode(), content, hashlib.sha256).hexdigest()


def slack_says(timestamp: str, signature: str, body: bytes = BODY) -> bool:
    """Ask the official library; whatever it raises is a refusal."""
    try:
        return SignatureVerifier(SECRET, Stopped()).is_valid(body, timestamp, signature)
    except Exception:
        return False


def ours_slack(timestamp: str, signature: str, body: bytes = BODY) -> bool:
    """Ask ours."""
    headers = [("x-slack-request-timestamp", timestamp), ("x-slack-signature", signature)]
    return isinstance(verdict(SLACK, delivery(body, headers)), Verified)


def paddle_says(header: str, body: bytes = BODY) -> bool:
    """Ask the official library; whatever it raises is a refusal."""
    request: Any = SimpleNamespace(headers={"Paddle-Signature": header}, body=body)
    try:
        return bool(Verifier(5).verify(request, PaddleSecret(SECRET)))
    except Exception:
        return False


def ours_paddle(header: str, body: bytes = BODY) -> bool:
    """Ask ours."""
    return isinstance(verdict(PADDLE, delivery(body, [("paddle-signature", header)])), Verified)


def signed_slack(timestamp: str = str(NOW), body: bytes = BODY) -> str:
    """Sign a time exactly as it is written."""
    return f"v0={sign(f'v0:{timestamp}:'.encode() + body)}"


def signed_paddle(timestamp: int = NOW, body: bytes = BODY) -> str:
    """Give a good digest."""
    return sign(f"{timestamp}:".encode() + body)


GOOD = signed_paddle()
# What slack_sdk 3.48 believes and we do not: int() takes more than Slack writes. Whoever signs it has the secret.
SLACK_STRICTER = [f"+{NOW}", f" {NOW}", f"0{NOW}", "1_767_225_600"]
# What paddle-python-sdk 1.16 believes and we do not. None of it is what Paddle sends.
PADDLE_STRICTER = {
    "a sign: int() takes it, and what was signed is the number": f"ts=+{NOW};h1={GOOD}",
    "blanks: int() takes them": f"ts= {NOW} ;h1={GOOD}",
    "a leading zero: int() drops it": f"ts=0{NOW};h1={GOOD}",
    "ts twice: the last counts": f"ts=1;ts={NOW};h1={GOOD}",
    "more than sixteen signatures": f"ts={NOW}" + f";h1={GOOD}" * 17,
}
# What we believe and Paddle's library cannot read: it raises ValueError.
PADDLE_ONLY_OURS = {
    "another version beside h1": f"ts={NOW};h1={GOOD};h2=x",
    "something after a second equals sign, in another part": f"ts={NOW};h1={GOOD};h1=x=y",
}


@pytest.mark.parametrize("timestamp", SLACK_STRICTER)
def test_slack_s_library_takes_times_that_slack_does_not_write(timestamp: str) -> None:
    """Signed as they are written, with the secret."""
    assert slack_says(timestamp, signed_slack(timestamp))
    assert not ours_slack(timestamp, signed_slack(timestamp))


def test_slack_s_library_cannot_read_bytes_that_are_no_text() -> None:
    """They were signed, so they are believed, and kept."""
    body = b'{"x":"\xff"}'
    assert ours_slack(str(NOW), signed_slack(body=body), body)
    assert not slack_says(str(NOW), signed_slack(body=body), body)


@pytest.mark.parametrize("header", PADDLE_STRICTER.values(), ids=PADDLE_STRICTER)
def test_paddle_s_library_takes_headers_that_paddle_does_not_send(header: str) -> None:
    """The list above, each with its reason."""
    assert paddle_says(header)
    assert not ours_paddle(header)


@pytest.mark.parametrize("header", PADDLE_ONLY_OURS.values(), ids=PADDLE_ONLY_OURS)
def test_paddle_s_library_cannot_read_some_headers_that_we_can(header: str) -> None:
    """What follows a good signature is passed over, for the day on which Paddle adds a version."""
    assert ours_paddle(header)
    assert not paddle_says(header)


@given(age=st.integers(-600, 600))
@settings(max_examples=200, deadline=None)
def test_the_windows_are_the_libraries_own(age: int) -> None:
    """300 s for Slack, 5 for Paddle, both ways, to the second."""
    stamp = str(NOW - age)
    assert ours_slack(stamp, signed_slack(stamp)) == slack_says(stamp, signed_slack(stamp))
    header = f"ts={stamp};h1={signed_paddle(int(stamp))}"
    assert ours_paddle(header) == paddle_says(header)


@given(edits=EDITS, of_time=st.booleans())
@settings(max_examples=1500, deadline=None)
def test_near_good_slack_headers_there_is_no_difference(
    edits: list[tuple[int, int, str]], of_time: bool
) -> None:
    """Whatever is changed in a good time or a good signature."""
    timestamp, signature = str(NOW), signed_slack()
    if of_time:
        timestamp = edited(timestamp, edits)
    else:
        signature = edited(signature, edits)
    assert ours_slack(timestamp, signature) == slack_says(timestamp, signature)


def paddle_difference_is_listed(header: str) -> bool:
    """Say whether the header has one of the forms listed above, found without our parser."""
    parts = [part.split("=") for part in header.split(";")]
    times = [part[1] for part in parts if part[0] == "ts" and len(part) > 1]
    plain = len(times) == 1 and times[0].isascii() and times[0].isdigit() and times[0] == str(int(times[0]))
    known = all(len(part) == 2 and part[0] in {"ts", "h1"} for part in parts)
    return not plain or not known


@given(edits=EDITS)
@settings(max_examples=1500, deadline=None)
def test_near_a_good_paddle_header_only_listed_differences_exist(edits: list[tuple[int, int, str]]) -> None:
    """Whatever is changed in a good header."""
    header = edited(f"ts={NOW};h1={GOOD};h1={'0' * 64}", edits)
    assert ours_paddle(header) == paddle_says(header) or paddle_difference_is_listed(header)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
ITEMS = st.fixed_dictionaries(
    {
        "pspReference": TEXTS,
        "eventCode": st.sampled_from(["AUTHORISATION", "CAPTURE", ""]),
        "success": st.sampled_from(["true", "false", ""]),
        "amount": st.fixed_dictionaries({"value": st.integers(-(10**12), 10**20), "currency": TEXTS}),
    },
    optional={"originalReference": TEXTS, "merchantAccountCode": TEXTS, "merchantReference": TEXTS},
)


def ours_adyen(payload: dict[str, Any]) -> bool:
    """Ask ours."""
    return isinstance(verdict(ADYEN, delivery(written(payload))), Verified)


@given(item=ITEMS, other=ITEMS)
@settings(max_examples=400, deadline=None)
def test_adyen_s_library_and_ours_sign_the_same_of_any_item(
    item: dict[str, Any], other: dict[str, Any]
) -> None:
    """What it signs is believed; another item under the same signature is believed by both or by neither."""
    signature = generate_notification_sig(copy.deepcopy(item), ADYEN_KEY).decode()
    for fields in (item, other):
        request = fields | {"additionalData": {"hmacSignature": signature}}
        payload = {"live": "false", "notificationItems": [{"NotificationRequestItem": request}]}
        theirs = is_valid_hmac_notification(json.loads(json.dumps(payload)), ADYEN_KEY)
        assert ours_adyen(payload) == bool(theirs)
        assert theirs or fields is other
