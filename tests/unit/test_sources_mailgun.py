"""Mailgun signs a time and a token; everything else in the body is anybody's."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.deliveries import NOW, delivery, verdict
from tests.source_examples import FORM
from webhook_inbox.sources import Identity, Mailgun, Rejected, Unreadable, Verified

KEY = "fake-mailgun-signing-key"
SOURCE = Mailgun(KEY)
TOKEN = "0ff1ce" + "a" * 44


def signature(time_text: str = str(NOW), token: str = TOKEN, key: str = KEY) -> dict[str, str]:
    """Sign as Mailgun."""
    made = hmac.new(key.encode(), f"{time_text}{token}".encode(), hashlib.sha256).hexdigest()
    return {"timestamp": time_text, "token": token, "signature": made}


def body(signed: Any = None, **event: Any) -> bytes:
    """Write a webhook of today's kind."""
    data = {"event": "delivered", "timestamp": NOW + 0.25, "id": "unique-within-a-day"} | event
    return json.dumps({"signature": signature() if signed is None else signed, "event-data": data}).encode()


def form(**members: str) -> bytes:
    """Write a webhook of the older kind."""
    return urlencode({"event": "clicked", **signature()} | members).encode()


REFUSALS = {
    "signature_missing": "no signature in the body",
    "signature_malformed": "the signature in the body is no lower-case hex of 32 bytes",
    "signature_mismatch": "the signature in the body was made with another secret",
    "timestamp_malformed": "the signature in the body has no unix time",
    "id_malformed": "the signature in the body has no token of ASCII characters",
}


def refusal(sent: bytes, *headers: tuple[str, str], now: float = NOW) -> str:
    """Give the reason."""
    got = verdict(SOURCE, delivery(sent, headers, now=now))
    assert isinstance(got, Rejected)
    assert got.message == REFUSALS.get(got.reason, got.message)
    return got.reason


def test_the_token_is_the_event() -> None:
    """``event-data.id`` is unique only within a day; with the severity the type says what to do."""
    assert isinstance(verdict(SOURCE, delivery(body())), Verified)
    at = datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
    assert SOURCE.identify(delivery(body())) == (
        Identity(event_id=TOKEN, event_type="delivered", created_at=at),
    )
    (failed,) = SOURCE.identify(delivery(body(event="failed", severity="permanent")))
    assert isinstance(failed, Identity)
    assert failed.event_type == "failed.permanent"


def test_another_event_under_a_token_that_was_used_is_the_same_event() -> None:
    """What the signature leaves out is anybody's: so a second use is a duplicate, and its body is kept as evidence."""
    forged = body(recipient="attacker@example.test")
    assert isinstance(verdict(SOURCE, delivery(forged)), Verified)
    ids = {
        reading.event_id
        for sent in (body(), forged)
        for reading in SOURCE.identify(delivery(sent))
        if isinstance(reading, Identity)
    }
    assert ids == {TOKEN}
    assert not SOURCE.signed_id
    assert not SOURCE.redelivers


def test_the_older_forms_are_read_too() -> None:
    """Their members are at the top; a form that does not say so is none."""
    assert isinstance(verdict(SOURCE, delivery(form(), [FORM])), Verified)
    assert SOURCE.identify(delivery(form(), [FORM])) == (Identity(event_id=TOKEN, event_type="clicked"),)
    assert refusal(form()) == "signature_missing"


@pytest.mark.parametrize(
    ("signed", "reason"),
    [
        ({}, "signature_missing"),
        ([], "signature_missing"),
        ("text", "signature_missing"),
        (signature() | {"signature": ""}, "signature_missing"),
        (signature() | {"signature": 1}, "signature_missing"),
        (signature() | {"signature": signature()["signature"].upper()}, "signature_malformed"),
        (signature() | {"signature": "0" * 64}, "signature_mismatch"),
        (signature(key="fake-other"), "signature_mismatch"),
        (signature() | {"timestamp": None}, "signature_missing"),
        (signature() | {"timestamp": "now"}, "timestamp_malformed"),
        (signature() | {"timestamp": 1.5}, "timestamp_malformed"),
        (signature() | {"timestamp": True}, "timestamp_malformed"),
        (signature() | {"token": ""}, "id_malformed"),
        (signature() | {"token": "é"}, "id_malformed"),
        (signature() | {"token": "a" * 129}, "id_malformed"),
        (signature() | {"token": 7}, "id_malformed"),
    ],
)
def test_anything_but_a_whole_signature_is_refused(signed: Any, reason: str) -> None:
    """P-CALM: by its reason, without an exception."""
    assert refusal(body(signed)) == reason


@pytest.mark.parametrize("token", ["a", "a" * 128])
def test_a_token_is_any_text_of_ascii(token: str) -> None:
    """Of 1 to 128 characters; Mailgun's have 50."""
    sent = body(signature(token=token))
    assert isinstance(verdict(SOURCE, delivery(sent)), Verified)


def test_a_number_for_the_time_is_the_same_time() -> None:
    """JSON has two ways to write it."""
    sent = body(signature() | {"timestamp": NOW})
    assert isinstance(verdict(SOURCE, delivery(sent)), Verified)


@pytest.mark.parametrize(
    ("time_text", "token"), [(f"{NOW}0", TOKEN[1:]), (str(NOW)[:-1], f"{str(NOW)[-1]}{TOKEN}")]
)
def test_no_digit_can_pass_from_the_time_to_the_token(time_text: str, token: str) -> None:
    """Nothing stands between them, so one signature would be good for several tokens, each a new event."""
    good = signature()["signature"]
    assert signature(time_text, token)["signature"] == good
    long = Mailgun(KEY, tolerance_seconds=10**12)
    sent = delivery(body({"timestamp": time_text, "token": token, "signature": good}))
    got = verdict(long, sent)
    assert isinstance(got, Rejected)
    assert got.reason == "timestamp_malformed"


def test_a_day_is_as_old_as_a_retry_gets() -> None:
    """Its retries go on for 8 hours."""
    assert isinstance(verdict(SOURCE, delivery(body(), now=NOW + 86_400)), Verified)
    assert refusal(body(), now=NOW + 86_401) == "timestamp_out_of_tolerance"
    assert refusal(body(), now=NOW - 86_401) == "timestamp_out_of_tolerance"


def test_an_event_without_a_type_is_quarantined() -> None:
    """Authentic, so it is kept."""
    (reading,) = SOURCE.identify(delivery(json.dumps({"signature": signature()}).encode()))
    assert reading == Unreadable(reason="no event type at $.event-data.event")
