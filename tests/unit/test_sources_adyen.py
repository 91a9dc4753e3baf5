"""Every item of Adyen's must be signed; what the signature leaves out decides nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.deliveries import NOW, delivery, verdict
from tests.source_examples import ADYEN_KEY, ADYEN_PLATFORM, digest
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources import Adyen, Identity, Rejected, Unreadable, Verified
from webhook_inbox.testing.signers import SIGNERS, Draft
from webhook_inbox.testing.signing import sign_hmac

SOURCE = Adyen(ADYEN_KEY)


def item(**fields: Any) -> dict[str, Any]:
    """Write an item as Adyen does."""
    return {
        "pspReference": "PSP1",
        "eventCode": "AUTHORISATION",
        "success": "true",
        "eventDate": "2026-01-01T00:00:00+01:00",
        "merchantAccountCode": "FakeMerchant",
        "merchantReference": "order-1",
        "amount": {"value": 1130, "currency": "EUR"},
    } | fields


def signed(*items: dict[str, Any], key: str = ADYEN_KEY, **top: Any) -> dict[str, Any]:
    """Sign each item."""
    payload = {
        "live": "false",
        "notificationItems": [{"NotificationRequestItem": each} for each in items],
    } | top
    draft = Draft(body=json.dumps(payload).encode(), secret=key, event_id="", timestamp=NOW)
    made: dict[str, Any] = json.loads(SIGNERS["adyen"](draft).body)
    return made


def ask(payload: object, *headers: tuple[str, str]) -> Verified | Rejected:
    """Deliver *payload*."""
    return verdict(SOURCE, delivery(json.dumps(payload).encode(), headers))


def test_an_item_is_an_event_of_the_merchant_s() -> None:
    """Its id holds the success too, so that a later verdict on one payment is not dropped as a copy of the first."""
    payload = signed(item(), item(success="false"))
    assert ask(payload) == Verified("secret-1")
    body = json.dumps(payload).encode()
    first, second = SOURCE.identify(delivery(body))
    assert isinstance(first, Identity)
    assert isinstance(second, Identity)
    assert (first.event_id, first.event_type, first.account) == (
        "PSP1|AUTHORISATION|true",
        "AUTHORISATION",
        "FakeMerchant",
    )
    assert first.created_at == datetime(2025, 12, 31, 23, tzinfo=UTC)
    assert second.event_id == "PSP1|AUTHORISATION|false"
    assert first.span is not None
    assert json.loads(body[slice(*first.span)]) == payload["notificationItems"][0]


def test_whether_it_is_live_is_not_signed_and_decides_nothing() -> None:
    """Nor do the other fields that nobody signs; another body under one id is kept as evidence."""
    for live in ("true", "false"):
        (reading,) = SOURCE.identify(delivery(json.dumps(signed(item(), live=live)).encode()))
        assert isinstance(reading, Identity)
        assert reading.environment == ""
    assert not SOURCE.signed_id


def test_one_item_that_is_not_signed_has_the_whole_body_refused() -> None:
    """The official library looks at the first alone."""
    good, forged = signed(item(), item(pspReference="PSP2")), {}
    for change in ({"success": "false"}, {"amount": {"value": 999_999, "currency": "EUR"}}):
        forged = json.loads(json.dumps(good))
        forged["notificationItems"][1]["NotificationRequestItem"] |= change
        got = ask(forged)
        assert got == Rejected("signature_mismatch", "an item's signature does not match its fields")
    del forged["notificationItems"][1]["NotificationRequestItem"]["additionalData"]
    assert ask(forged) == Rejected("signature_missing", "an item without additionalData.hmacSignature")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "signature_missing"),
        ([], "signature_missing"),
        ({"notificationItems": []}, "signature_missing"),
        ({"notificationItems": [1]}, "signature_missing"),
        ({"notificationItems": [{}]}, "signature_missing"),
        ({"notificationItems": [{"NotificationRequestItem": {"additionalData": 1}}]}, "signature_missing"),
        (
            {"notificationItems": [{"NotificationRequestItem": {"additionalData": {"hmacSignature": "no"}}}]},
            "signature_malformed",
        ),
        (
            {"notificationItems": [{"NotificationRequestItem": {"additionalData": {"hmacSignature": 1}}}]},
            "signature_missing",
        ),
    ],
)
def test_a_body_without_signed_items_is_refused(payload: object, reason: str) -> None:
    """P-CALM: an empty list proves nothing."""
    got = ask(payload)
    assert isinstance(got, Rejected)
    assert got.reason == reason


@pytest.mark.parametrize(
    "fields",
    [
        {"merchantReference": "a:b"},
        {"originalReference": "PSP0"},
        {"merchantReference": None},
        {"amount": {"value": 0, "currency": "EUR"}},
        {"amount": {}},
        {"merchantReference": "é"},
    ],
)
def test_fields_are_signed_as_they_are(fields: dict[str, Any]) -> None:
    """Absent is empty, a colon is not escaped, a number is its digits."""
    assert ask(signed(item(**fields))) == Verified("secret-1")


@pytest.mark.parametrize(
    "forged",
    [
        {"pspReference": "PSP1:", "merchantAccountCode": "a", "merchantReference": "b"}
        | {"originalReference": "FakeMerchant"},
        {"merchantAccountCode": "FakeMerchant:a", "merchantReference": "b"},
        {"originalReference": [1]},
        {"originalReference": 1.5},
        {"originalReference": {"other": "PSP0"}},
    ],
)
def test_one_signature_stands_for_one_set_of_fields(forged: dict[str, Any]) -> None:
    """Nothing tells the fields apart but a colon: they cannot be cut elsewhere, nor hold what would not be signed."""
    payload = signed(item(merchantReference="a:b"))
    payload["notificationItems"][0]["NotificationRequestItem"] |= forged
    got = ask(payload)
    assert isinstance(got, Rejected)
    assert got.reason == "signature_malformed"


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false")])
def test_a_truth_is_signed_as_json_writes_it(value: bool, text: str) -> None:
    """Adyen sends texts; were it to send truths, they would be signed as the texts are."""
    payload = signed(item(success=text))
    payload["notificationItems"][0]["NotificationRequestItem"]["success"] = value
    assert payload == signed(item(success=value))
    assert ask(payload) == Verified("secret-1")
    (reading,) = SOURCE.identify(delivery(json.dumps(payload).encode()))
    assert isinstance(reading, Identity)
    assert reading.event_id == f"PSP1|AUTHORISATION|{text}"


def test_each_item_may_be_signed_with_either_key_while_a_new_one_spreads() -> None:
    """The label is that of the last."""
    old, new = "AB" * 32, ADYEN_KEY
    payload = signed(item())
    payload["notificationItems"] += signed(item(pspReference="PSP2"), key=old)["notificationItems"]
    source = Adyen([new, old])
    assert verdict(source, delivery(json.dumps(payload).encode())) == Verified("secret-2")


def test_banking_and_management_sign_the_whole_body_in_a_header() -> None:
    """Their mode is inside what is signed; they have no id, so their bytes are it."""
    headers = sign_hmac(ADYEN_PLATFORM, bytes.fromhex(ADYEN_KEY), "HmacSignature", encoding="base64")
    assert verdict(SOURCE, delivery(ADYEN_PLATFORM, headers)) == Verified("secret-1")
    assert SOURCE.identify(delivery(ADYEN_PLATFORM, headers)) == (
        Identity(
            event_id=digest(ADYEN_PLATFORM), event_type="balancePlatform.transfer.created", environment="test"
        ),
    )


def test_a_header_does_not_make_items_pass_unsigned() -> None:
    """With the header it is the body that counts, whatever stands in it."""
    payload = signed(item())
    got = ask(payload, ("hmacsignature", "bm8="))
    assert isinstance(got, Rejected)
    (reading,) = SOURCE.identify(delivery(json.dumps(payload).encode(), [("hmacsignature", "x")]))
    assert isinstance(reading, Unreadable)


@pytest.mark.parametrize("key", ["not hex", "ABC", "whsec_ABCD"])
def test_a_key_that_is_not_hex_stops_the_start(key: str) -> None:
    """The Customer Area shows hex."""
    with pytest.raises(ConfigurationError, match="adyen: secret-1 is not hex"):
        Adyen(key)
