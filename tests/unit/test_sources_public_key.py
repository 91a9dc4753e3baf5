"""Discord and SendGrid sign with a private key; the public one is what the user configures."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.deliveries import NOW, delivery, verdict
from tests.source_examples import DISCORD, DISCORD_COMMAND, SENDGRID, digest, written
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources import Discord, Identity, Rejected, SendGrid, Unreadable, Verified
from webhook_inbox.testing.key_pairs import Pair, ec_pair, ed25519_pair
from webhook_inbox.testing.signers import SIGNERS, Draft

ED25519, P256 = ed25519_pair(3), ec_pair(3)
DISCORD_SOURCE, SENDGRID_SOURCE = Discord(ED25519.public), SendGrid(P256.public)
SOURCES = {"discord": DISCORD_SOURCE, "sendgrid": SENDGRID_SOURCE}
HEADERS = {
    "discord": ("x-signature-ed25519", "x-signature-timestamp"),
    "sendgrid": ("x-twilio-email-event-webhook-signature", "x-twilio-email-event-webhook-timestamp"),
}


def sent(name: str, body: bytes, pair: Pair, *, at: int = NOW) -> Delivery:
    """Sign as the provider."""
    made = SIGNERS[name](Draft(body=body, secret=pair.private, event_id="", timestamp=at))
    return delivery(made.body, made.headers)


def with_headers(name: str, body: bytes, signature: str, time_text: str) -> Delivery:
    """Make a delivery with these two headers."""
    return delivery(body, list(zip(HEADERS[name], (signature, time_text), strict=True)))


@pytest.mark.parametrize(
    ("name", "pair", "body"), [("discord", ED25519, DISCORD), ("sendgrid", P256, SENDGRID)]
)
def test_no_byte_can_pass_between_time_and_body(name: str, pair: Pair, body: bytes) -> None:
    """Nothing stands between them, so one signature would be good for two bodies; a time has ten digits."""
    good = sent(name, b"1" + body, pair)
    signature, time_header = HEADERS[name]
    assert isinstance(verdict(SOURCES[name], good), Verified)
    moved = with_headers(name, body, good.headers[signature], good.headers[time_header] + "1")
    got = verdict(SOURCES[name], moved)
    assert isinstance(got, Rejected)
    assert got.reason == "timestamp_malformed"


@pytest.mark.parametrize("time_text", ["", "now", "-767225600", "1767225600.0", "\u0661" * 10, "0x69558C80"])
def test_a_time_that_is_none_is_refused(time_text: str) -> None:
    """P-CALM: by its reason, without an exception."""
    got = verdict(DISCORD_SOURCE, with_headers("discord", DISCORD, "0" * 128, time_text))
    assert isinstance(got, Rejected)
    assert got.reason == ("timestamp_malformed" if time_text else "timestamp_missing")


def test_discord_hears_401_for_whatever_is_not_believed() -> None:
    """Anything else, and the URL is removed: it sends bad signatures on purpose."""
    late = sent("discord", DISCORD, ED25519, at=NOW - 3_601)
    for bad in (delivery(DISCORD), late, with_headers("discord", DISCORD, "0" * 128, str(NOW))):
        got = verdict(DISCORD_SOURCE, bad)
        assert isinstance(got, Rejected)
        assert got.status == 401


def test_a_tolerance_of_the_user_s_own_counts() -> None:
    """In the past and in the future."""
    source = Discord(ED25519.public, tolerance_seconds=10)
    for off, believed in ((10, True), (-10, True), (11, False), (-11, False)):
        got = verdict(source, sent("discord", DISCORD, ED25519, at=NOW + off))
        assert isinstance(got, Verified) is believed
    for make, key in ((Discord, ED25519), (SendGrid, P256)):
        with pytest.raises(ConfigurationError, match=r"tolerance_seconds=\.\.\."):
            make(key.public, tolerance_seconds=0)


def test_a_webhook_event_of_discord_s_is_its_bytes() -> None:
    """It has no id; its type and time are those of the event inside."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert DISCORD_SOURCE.identify(delivery(DISCORD)) == (
        Identity(event_id=digest(DISCORD), event_type="APPLICATION_AUTHORIZED", created_at=at),
    )


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (2, "APPLICATION_COMMAND"),
        (3, "MESSAGE_COMPONENT"),
        (4, "APPLICATION_COMMAND_AUTOCOMPLETE"),
        (5, "MODAL_SUBMIT"),
        (99, "99"),
    ],
)
def test_an_interaction_is_named_as_discord_s_page_names_its_number(number: int, name: str) -> None:
    """A number that is not on the page stays a number."""
    body = written({"id": "7", "type": number})
    assert DISCORD_SOURCE.identify(delivery(body)) == (Identity(event_id="7", event_type=name),)


@pytest.mark.parametrize(
    "body",
    [b"{}", b"[]", b'{"id":"1"}', b'{"id":"1","type":true}', b'{"type":2}', b'{"type":1,"event":{}}'],
)
def test_what_discord_signed_and_nobody_can_name_is_quarantined(body: bytes) -> None:
    """Authentic, so it is kept."""
    (reading,) = DISCORD_SOURCE.identify(delivery(body))
    assert isinstance(reading, Unreadable)
    assert DISCORD_SOURCE.answer(delivery(body), ()) is None


@pytest.mark.parametrize("body", [DISCORD, DISCORD_COMMAND, b'{"type":false}', b'{"type":true,"id":"1"}'])
def test_only_a_ping_is_answered_as_one(body: bytes) -> None:
    """An event has the number of the other kind's PING."""
    assert DISCORD_SOURCE.answer(delivery(body), ()) is None


def test_sendgrid_s_events_are_named_one_by_one() -> None:
    """Each with its own bytes, none with the line end that is signed after them."""
    readings = SENDGRID_SOURCE.identify(delivery(SENDGRID))
    named = [reading for reading in readings if isinstance(reading, Identity)]
    assert [(each.event_id, each.event_type) for each in named] == [("sg1", "delivered"), ("sg2", "bounce")]
    for each in named:
        assert each.span is not None
        assert SENDGRID[slice(*each.span)].startswith(b"{")
        assert SENDGRID[slice(*each.span)].endswith(b"}")
        assert each.created_at == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_signature_whose_bytes_are_no_ecdsa_signature_is_malformed() -> None:
    """P-CALM: the provider's own library raises here."""
    der = base64.b64encode(b"\x30\x06\x02\x01\x01\x02\x01\x01").decode()
    for text, reason in (
        ("abc", "signature_malformed"),
        ("AQEB", "signature_malformed"),
        (der, "signature_mismatch"),
    ):
        got = verdict(SENDGRID_SOURCE, with_headers("sendgrid", SENDGRID, text, str(NOW)))
        assert isinstance(got, Rejected)
        assert got.reason == reason


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (Discord, "fake"),
        (Discord, "0" * 63),
        (Discord, "z" * 64),
        (SendGrid, "fake"),
        (SendGrid, ED25519.public),
        (SendGrid, "MCowBQYDK2VwAyEA" + "A" * 42 + "="),
        (SendGrid, "MCowBQYDK2VwAyEA" + "A" * 43 + "="),
        (SendGrid, ec_pair(3, ec.SECP384R1()).public),
        (SendGrid, P256.private),
    ],
)
def test_a_secret_that_is_no_key_of_the_kind_is_refused_at_the_start(
    make: type[Discord | SendGrid], given: str
) -> None:
    """And is not shown (P-QUIET)."""
    with pytest.raises(ConfigurationError, match=r"secret-1 is (no|a) public key") as caught:
        make(given)
    assert given not in str(caught.value)


def test_discord_s_key_may_be_written_in_capitals() -> None:
    """It is the same key."""
    source = Discord(ED25519.public.upper())
    assert isinstance(verdict(source, sent("discord", DISCORD, ED25519)), Verified)


def test_a_key_of_another_kind_from_a_callable_believes_nothing() -> None:
    """P-CALM: what is asked per request is not checked at the start."""
    source = SendGrid(lambda _: P256.public)
    got = source.verify(sent("sendgrid", SENDGRID, P256), (Secret("fake", label="x"),))
    assert isinstance(got, Rejected)
    assert got.reason == "signature_mismatch"
