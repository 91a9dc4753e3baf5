"""Twilio, Square and HubSpot sign the URL that they have, which is not always the one that arrives."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.conformance.signature_vectors import VECTORS
from tests.deliveries import NOW, delivery, verdict
from tests.source_examples import EXAMPLES, FORM, HUBSPOT, SQUARE, TWILIO, TWILIO_SINK, digest, written
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.headers import Headers
from webhook_inbox.sources import HubSpot, Identity, Rejected, Source, Square, Twilio, Unreadable, Verified
from webhook_inbox.testing.signers import SIGNERS, Draft

SECRET = "fake-url-secret"
PUBLIC = "https://hooks.example.test/in"
INSIDE = "http://10.0.0.7:8000/in"
BODIES = {"twilio": TWILIO, "square": SQUARE, "hubspot": HUBSPOT}
MAKERS: dict[str, Callable[..., Source]] = {"twilio": Twilio, "square": Square, "hubspot": HubSpot}
ALL = pytest.mark.parametrize("name", sorted(MAKERS))


def sent(name: str, url: str = PUBLIC, body: bytes = b"", *, arrived: str = "", at: int = NOW) -> Delivery:
    """Sign as the provider, for *url*; it *arrived* there unless told."""
    draft = Draft(
        body=body or BODIES[name], secret=SECRET, event_id="tok_1", timestamp=at, event_type="", url=url
    )
    made = SIGNERS[name](draft)
    return delivery(made.body, made.headers, url=arrived or url)


def refusal(source: Source, of: Delivery) -> Rejected:
    """Give the refusal; there is one."""
    got = verdict(source, of)
    assert isinstance(got, Rejected)
    return got


@ALL
def test_behind_a_proxy_the_url_is_what_the_user_says(name: str) -> None:
    """C17: the query comes through unchanged, so it is the request's."""
    for query in ("", "?tenant=7&x=%20a"):
        proxied = sent(name, PUBLIC + query, arrived=INSIDE + query)
        assert isinstance(verdict(MAKERS[name](SECRET, public_url=PUBLIC), proxied), Verified)
        assert refusal(MAKERS[name](SECRET), proxied).reason == "signature_mismatch"
    other = sent(name, f"{PUBLIC}?tenant=7", arrived=f"{INSIDE}?tenant=8")
    assert refusal(MAKERS[name](SECRET, public_url=PUBLIC), other).reason == "signature_mismatch"


@ALL
def test_a_header_of_a_stranger_s_changes_no_url(name: str) -> None:
    """C17: only the HTTP server knows which proxies to believe; nothing is read from the headers here."""
    proxied = sent(name, arrived=INSIDE)
    forged = [
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "hooks.example.test"),
        ("host", "hooks.example.test"),
    ]
    headers = Headers([*proxied.headers.pairs, *forged, ("forwarded", "proto=https;host=hooks.example.test")])
    assert refusal(MAKERS[name](SECRET), replace(proxied, headers=headers)).reason == "signature_mismatch"


@ALL
def test_where_the_url_is_configured_that_of_the_request_does_not_count(name: str) -> None:
    """What was signed for another host is refused, whatever the request says that its host is."""
    elsewhere = sent(name, "https://other.example.test/in")
    assert isinstance(verdict(MAKERS[name](SECRET), elsewhere), Verified)
    assert refusal(MAKERS[name](SECRET, public_url=PUBLIC), elsewhere).reason == "signature_mismatch"


@ALL
def test_a_mismatch_says_which_url_was_rebuilt(name: str) -> None:
    """C17: without its query, which may hold secrets (P-QUIET); of any length, in ASCII, on one line."""
    got = refusal(MAKERS[name](SECRET), sent(name, arrived=f"{INSIDE}?token=fake-query-token"))
    size = len(BODIES[name])
    assert got.message == (
        f"the signature does not match these {size} bytes sent to {INSIDE}; "
        "if that is not the URL that the provider has, set public_url"
    )
    hostile = refusal(MAKERS[name](SECRET), sent(name, arrived="http://h/\n\u00e9\ud800" + "a" * 10_000))
    assert hostile.message.isascii()
    assert hostile.message.isprintable()
    assert len(hostile.message) < 200


@ALL
@pytest.mark.parametrize(
    "url",
    [
        "hooks.example.test/in",
        "/in",
        "ftp://h/in",
        "https://h",
        "https://user:fake-password@h/in",
        "https://h/in?x=1",
        "https://h/in#x",
        "https://h/in x",
        "https://h/{in}",
        "https://h/in\n",
        "https://h/\u00e9",
    ],
)
def test_a_public_url_that_cannot_be_one_is_refused_at_the_start(name: str, url: str) -> None:
    """And not shown, since it may hold credentials."""
    with pytest.raises(ConfigurationError, match=r"\(public_url=\.\.\.\) must read like") as caught:
        MAKERS[name](SECRET, public_url=url)
    assert "fake-password" not in str(caught.value)


@pytest.mark.parametrize("name", ["square", "hubspot"])
def test_url_and_body_cannot_be_cut_elsewhere(name: str) -> None:
    """Nothing stands between them: what begins the body stands in no URL, and every body begins so."""
    good = sent(name, f"{PUBLIC}?x=")
    body = good.body
    longer = replace(good, url=f"{good.url}{body[:5].decode()}", body=body[5:])
    assert refusal(MAKERS[name](SECRET), longer).reason == "signature_mismatch"
    shorter = replace(good, url=good.url[:-2], body=good.url[-2:].encode() + body)
    assert refusal(MAKERS[name](SECRET), shorter).reason == "signature_mismatch"
    nested = sent(name, f"{PUBLIC}?x=", b'{"a":{"id":1}}')
    assert isinstance(verdict(MAKERS[name](SECRET), nested), Verified)
    inner = replace(nested, url=f'{nested.url}{{"a":', body=b'{"id":1}}')
    assert refusal(MAKERS[name](SECRET), inner).reason == "signature_mismatch"


def test_square_signs_no_empty_body() -> None:
    """As its own library has it."""
    empty = replace(sent("square", f"{PUBLIC}x", b"{}"), body=b"")
    assert refusal(Square(SECRET), empty).reason == "signature_mismatch"


def test_square_s_event_is_the_merchant_s() -> None:
    """By the id in the signed body."""
    assert Square(SECRET).identify(delivery(SQUARE)) == (
        Identity(event_id="sq_1", event_type="payment.updated", account="M1"),
    )


def test_an_older_signature_of_hubspot_s_counts_only_where_it_is_asked_for() -> None:
    """They sign no time: a delivery whose newer header was taken off could be sent again for ever."""
    secret = VECTORS["hubspot/v1-valid"].secrets
    for version in ("v1", "v2"):
        older = VECTORS[f"hubspot/{version}-valid"].delivery
        assert refusal(HubSpot(secret), older).reason == "signature_missing"
        for told in ("v1", "v2"):
            got = verdict(HubSpot(secret, version=told), older)
            assert isinstance(got, Verified) is (told == version)
            assert isinstance(got, Verified) or got.reason == "signature_version"
    newer = VECTORS["hubspot/v3-valid"].delivery
    assert refusal(HubSpot(secret, version="v1"), newer).reason == "signature_missing"


def test_an_older_signature_is_a_whole_one() -> None:
    """Of another secret, another body, another URL, or none."""
    older = VECTORS["hubspot/v2-valid"].delivery
    secret = VECTORS["hubspot/v2-valid"].secrets
    source = HubSpot(secret, version="v2")
    assert refusal(HubSpot("fake-other", version="v2"), older).reason == "signature_mismatch"
    assert refusal(source, replace(older, body=older.body + b" ")).reason == "signature_mismatch"
    assert "sent to http://h/" in refusal(source, replace(older, url="http://h/")).message
    for text in ("", "0" * 63, "A" * 64):
        pairs = [("x-hubspot-signature-version", "v2"), ("x-hubspot-signature", text)]
        got = refusal(source, replace(older, headers=Headers(pairs)))
        assert got.reason == ("signature_malformed" if text else "signature_missing")


def test_hubspot_s_options_are_checked_at_the_start() -> None:
    """A word that is no version, a tolerance that bounds nothing."""
    with pytest.raises(ConfigurationError, match=r"HubSpot\(version=\.\.\.\) must be"):
        HubSpot(SECRET, version="v4")  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ConfigurationError, match=r"HubSpot\(tolerance_seconds=\.\.\.\)"):
        HubSpot(SECRET, tolerance_seconds=0)


def test_a_retry_of_hubspot_s_is_the_same_event() -> None:
    """Though its bytes differ in the number of the attempt; ``eventId`` alone is not unique."""
    item = {
        "eventId": 1,
        "subscriptionId": 2,
        "occurredAt": NOW * 1000,
        "subscriptionType": "x",
        "portalId": 5,
    }
    first, again, other = (
        HubSpot(SECRET).identify(delivery(written([item | more])))[0]
        for more in ({"attemptNumber": 0}, {"attemptNumber": 1}, {"subscriptionId": 3})
    )
    assert isinstance(first, Identity)
    assert isinstance(again, Identity)
    assert isinstance(other, Identity)
    assert (first.event_id, first.account) == (again.event_id, again.account) == (f"2|1|{NOW}000", "5")
    assert other.event_id != first.event_id


def test_the_escapes_that_hubspot_decodes_are_decoded_and_no_others() -> None:
    """In either case of their letters."""
    url = f"{PUBLIC}?a=%3a%2F%20%7B"
    signed = sent("hubspot", f"{PUBLIC}?a=:/%20%7B")
    assert isinstance(verdict(HubSpot(SECRET), replace(signed, url=url)), Verified)
    encoded = replace(signed, url=f"{PUBLIC}?a=:/ %7B")
    assert refusal(HubSpot(SECRET), encoded).reason == "signature_mismatch"


@pytest.mark.parametrize(
    ("signed", "arrived", "believed"),
    [
        ("https://h:443/in", "https://h/in", True),
        ("https://h/in", "https://h:443/in", True),
        ("http://h:80/in?a=1", "http://h/in?a=1", True),
        ("https://h:443", "https://h", True),
        ("https://[::1]:443/in", "https://[::1]/in", True),
        ("https://h:444/in", "https://h/in", False),
        ("https://h/in", "http://h:443/in", False),
        ("https://h:443/in", "https://h.other/in", False),
    ],
)
def test_twilio_signs_with_or_without_the_port(signed: str, arrived: str, *, believed: bool) -> None:
    """As its own library has it."""
    got = verdict(Twilio(SECRET), sent("twilio", signed, arrived=arrived))
    assert isinstance(got, Verified) is believed


def test_a_body_that_twilio_s_signature_leaves_out_is_refused() -> None:
    """JSON without its hash in the URL, with another's, or with two; and a form that is called something else."""
    right, wrong = (hashlib.sha256(body).hexdigest() for body in (TWILIO_SINK, b"[]"))
    for query, believed in (
        (f"?bodySHA256={right}", True),
        (f"?a=1&bodySHA256={right}#x", True),
        ("", False),
        (f"?bodySHA256={right.upper()}", False),
        (f"?bodySHA256={wrong}", False),
        (f"?bodySHA256={right}&bodySHA256={wrong}", False),
        (f"?bodySHA256={wrong}&bodySHA256={right}", False),
        (f"?notbodySHA256={right}", False),
        ("?bodySHA256=\ud800", False),
    ):
        made = delivery(TWILIO_SINK, url=f"{PUBLIC}{query}")
        content = made.url.encode("utf-8", "surrogatepass")
        headers = SIGNERS["intercom"](Draft(body=content, secret=SECRET, event_id="", timestamp=0)).headers
        hexed = headers[0][1].removeprefix("sha1=")
        signed = replace(made, headers=Headers([("x-twilio-signature", base64_of(hexed))]))
        assert isinstance(verdict(Twilio(SECRET), signed), Verified) is believed
    plain = sent("twilio").headers.without({"content-type"})
    assert refusal(Twilio(SECRET), replace(sent("twilio"), headers=plain)).reason == "signature_mismatch"


def base64_of(hexed: str) -> str:
    """Spell the same bytes in base64."""
    return base64.b64encode(bytes.fromhex(hexed)).decode()


def test_a_signed_json_url_is_no_empty_form() -> None:
    """What holds a hash is held to it, whatever the body is called."""
    url = f"{PUBLIC}?bodySHA256={hashlib.sha256(TWILIO_SINK).hexdigest()}"
    as_form = replace(sent("twilio", url, TWILIO_SINK), body=b"")
    headers = Headers([*as_form.headers.pairs, FORM])
    assert refusal(Twilio(SECRET), replace(as_form, headers=headers)).reason == "signature_mismatch"


@pytest.mark.parametrize("body", [b"a=%FF", b"a=\xc3\xa9", b"&".join([b"a=1"] * 1_001)])
def test_a_form_that_cannot_be_read_is_refused_by_twilio_s(body: bytes) -> None:
    """P-CALM: without an exception; were it signed, it would be quarantined."""
    broken = replace(sent("twilio"), body=body)
    assert refusal(Twilio(SECRET), broken).reason == "signature_mismatch"
    (reading,) = Twilio(SECRET).identify(broken)
    assert isinstance(reading, Unreadable)


def test_twilio_s_hash_is_one_of_two() -> None:
    """The header chooses among hashes of one secret; one that is unknown, or sent twice, is refused."""
    shared = VECTORS["twilio/valid-sharedkey-sha256"]
    name = "x-twilio-webhooks-signature-settings"
    bare = shared.delivery.headers.without({name})
    reasons = {
        (): "signature_malformed",  # 32 bytes are no SHA-1
        ("key=a,algorithm=HMAC_SHA1",): "signature_version",
        ("",): "signature_missing",
        ("algorithm=HMAC_SHA256", "algorithm=HMAC_SHA256"): "signature_malformed",
    }
    for settings, reason in reasons.items():
        headers = Headers([*bare.pairs, *((name, value) for value in settings)])
        assert refusal(Twilio(shared.secrets), replace(shared.delivery, headers=headers)).reason == reason


@pytest.mark.parametrize(
    ("members", "kind"),
    [
        ("SmsStatus=received&MessageSid=SM1", "message.received"),
        ("MessageStatus=sent&SmsStatus=sent", "message.sent"),
        ("CallStatus=ringing", "call.ringing"),
        ("CallStatus=completed&RecordingStatus=completed", "recording.completed"),
        ("TranscriptionStatus=failed", "transcription.failed"),
        ("EventType=onMessageAdded", "onMessageAdded"),
        ("StatusCallbackEvent=participant-join&CallStatus=in-progress", "participant-join"),
        ("CallStatus=&Digits=1", "webhook"),
    ],
)
def test_a_form_of_twilio_s_is_called_by_what_happened(members: str, kind: str) -> None:
    """It has no type of its own, and one that says nothing is still an event."""
    body = members.encode()
    assert Twilio(SECRET).identify(delivery(body, [FORM])) == (
        Identity(event_id=digest(body), event_type=kind),
    )


def test_a_form_of_twilio_s_is_named_by_its_token() -> None:
    """One that is sent twice is none; the signature covers neither, and the source says so."""
    token = ("i-twilio-idempotency-token", "tok_1")
    for headers, event_id in (([token], "tok_1"), ([token, token], digest(TWILIO))):
        (reading,) = Twilio(SECRET).identify(delivery(TWILIO, [FORM, *headers]))
        assert isinstance(reading, Identity)
        assert reading.event_id == event_id
    assert not Twilio.signed_id
    assert not Twilio.redelivers


def test_one_signature_stands_for_every_form_that_runs_together_alike() -> None:
    """Twilio's scheme has nothing between names and values; that is why its id counts as unsigned."""
    good = sent("twilio", PUBLIC, b"Body=ab&From=c")
    for body in (b"Bod=yab&From=c", b"BodyabFro=mc", b"From=c&Body=ab"):
        assert isinstance(verdict(Twilio(SECRET), replace(good, body=body)), Verified)


def test_a_single_cloud_event_is_read_as_well_as_an_array() -> None:
    """Event Streams sends an array of one today."""
    alone = TWILIO_SINK[1:-1]
    (reading,) = Twilio(SECRET).identify(delivery(alone))
    assert reading == Identity(event_id="EV1", event_type="com.twilio.messaging.message.sent")
    assert EXAMPLES["twilio, sink"].event_ids == ("EV1",)
