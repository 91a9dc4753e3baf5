"""
Hold the sources of Slack and Adyen against the providers' own libraries, as oracles.

Never do we believe what they refuse, and refuse what they believe, but for what is listed here with its reason; chance
must find nothing beyond the list. (Paddle's library is no such oracle: its wheel brings a package ``tests`` of its own,
which hides ours. What it says of Paddle's vectors is in ``tests/conformance``.)
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
from typing import Any

import pytest
from Adyen.util import (  # type: ignore[import-untyped]
    generate_notification_sig,
    is_valid_hmac_notification,
)
from hypothesis import given, settings, strategies as st
from slack_sdk.signature import Clock, SignatureVerifier

from tests.deliveries import NOW, delivery, verdict
from tests.property.strategies import EDITS, edited
from tests.source_examples import ADYEN_KEY, written
from webhook_inbox.sources import Adyen, Slack, Verified

SECRET = "fake-oracle-secret"
BODY = '{"event_id":"evt_1","event_type":"order.paid","name":"é"}'.encode()
SLACK, ADYEN = Slack(SECRET), Adyen(ADYEN_KEY)


class Stopped(Clock):
    """Stand still at NOW."""

    def now(self) -> float:
        return float(NOW)


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


def signed_slack(timestamp: str = str(NOW), body: bytes = BODY) -> str:
    """Sign a time exactly as it is written."""
    return f"v0={sign(f'v0:{timestamp}:'.encode() + body)}"


# What slack_sdk 3.48 believes and we do not: int() takes more than Slack writes. Whoever signs it has the secret.
SLACK_STRICTER = [f"+{NOW}", f" {NOW}", f"0{NOW}", "1_767_225_600"]


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


@given(age=st.integers(-600, 600))
@settings(max_examples=200, deadline=None)
def test_the_window_is_the_library_s_own(age: int) -> None:
    """300 s both ways, to the second."""
    stamp = str(NOW - age)
    assert ours_slack(stamp, signed_slack(stamp)) == slack_says(stamp, signed_slack(stamp))


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


def is_cut_in_one_way(item: dict[str, Any]) -> bool:
    """Whether no field but the merchant's own holds a colon; else ours refuses what would fit other items, too."""
    fields = [item.get(name, "") for name in ("pspReference", "originalReference", "merchantAccountCode")]
    return not any(":" in each for each in (*fields, item["amount"]["currency"]))


@given(item=ITEMS, other=ITEMS)
@settings(max_examples=400, deadline=None)
def test_adyen_s_library_and_ours_sign_the_same_of_any_item(
    item: dict[str, Any], other: dict[str, Any]
) -> None:
    """What it signs is believed; another item under the same signature by both or by neither, but for colons."""
    signature = generate_notification_sig(copy.deepcopy(item), ADYEN_KEY).decode()
    for fields in (item, other):
        request = fields | {"additionalData": {"hmacSignature": signature}}
        payload = {"live": "false", "notificationItems": [{"NotificationRequestItem": request}]}
        theirs = is_valid_hmac_notification(json.loads(json.dumps(payload)), ADYEN_KEY)
        assert ours_adyen(payload) == (bool(theirs) and is_cut_in_one_way(fields))
        assert theirs or fields is other
