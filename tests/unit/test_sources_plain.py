"""What is peculiar to the providers that sign the body, or time and body, with one HMAC."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.deliveries import NOW, delivery, verdict
from tests.source_examples import (
    CALENDLY,
    DOCUSIGN,
    INTERCOM,
    JIRA,
    LINEAR,
    MOLLIE,
    WOO,
    XERO,
    ZENDESK,
    ZOOM,
    digest,
    written,
)
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sources import (
    Bitbucket,
    Calendly,
    DocuSign,
    Identity,
    Intercom,
    Jira,
    LemonSqueezy,
    Linear,
    Mollie,
    Paddle,
    Rejected,
    Slack,
    Unreadable,
    Verified,
    WooCommerce,
    Xero,
    Zendesk,
    Zoom,
)
from webhook_inbox.testing.signing import sign_hmac

SECRET = "fake-plain-secret"
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("algorithm", "method", "reason"),
    [
        ("sha256", "sha256", ""),
        ("sha512", "sha512", ""),
        ("sha1", "sha1", "signature_version"),
        ("sha256", "sha512", "signature_malformed"),
        ("sha256", "SHA256", "signature_version"),
        ("sha256", "", "signature_version"),
    ],
)
def test_jira_names_its_hash_and_the_weak_one_is_refused(algorithm: str, method: str, reason: str) -> None:
    """The header chooses among hashes of one secret, never another scheme."""
    options = {"algorithm": algorithm, "prefix": f"{method}=" if method else ""}
    headers = sign_hmac(JIRA, SECRET, "X-Hub-Signature", **options)  # type: ignore[arg-type]  # one of the three
    got = verdict(Jira(SECRET), delivery(JIRA, headers))
    assert isinstance(got, Verified) if not reason else (isinstance(got, Rejected) and got.reason == reason)


def test_jira_s_id_is_in_a_header_that_it_does_not_sign() -> None:
    """A second body under it is kept as evidence; the time of the event is in milliseconds."""
    (reading,) = Jira(SECRET).identify(delivery(JIRA, [("X-Atlassian-Webhook-Identifier", "i-1")]))
    assert reading == Identity(event_id="i-1", event_type="jira:issue_created", created_at=START)
    assert not Jira(SECRET).signed_id


def woo(body: bytes, delivery_id: str, topic: str = "order.updated") -> Identity | Unreadable:
    """Name what a shop sends."""
    headers = [
        ("X-WC-Webhook-Delivery-ID", delivery_id),
        ("X-WC-Webhook-Topic", topic),
        ("X-WC-Webhook-ID", "142"),
    ]
    (reading,) = WooCommerce(SECRET).identify(delivery(body, headers))
    return reading


def test_two_woocommerce_events_within_a_second_are_two() -> None:
    """They share the delivery id; a custom topic's bodies may be the same, then the second tells them apart."""
    other = written({"id": 728})
    ids = {
        reading.event_id
        for reading in (woo(WOO, "d1"), woo(other, "d1"), woo(WOO, "d2"))
        if isinstance(reading, Identity)
    }
    assert ids == {f"d1|{digest(WOO)}", f"d1|{digest(other)}", f"d2|{digest(WOO)}"}
    assert woo(WOO, "d1") == woo(WOO, "d1")
    assert isinstance(woo(WOO, " "), Unreadable)


def test_woocommerce_s_hash_is_the_shop_s_to_choose() -> None:
    """And ours to be told: a header names none."""
    long = sign_hmac(WOO, SECRET, "X-WC-Webhook-Signature", encoding="base64", algorithm="sha512")
    assert isinstance(verdict(WooCommerce(SECRET, algorithm="sha512"), delivery(WOO, long)), Verified)
    assert isinstance(verdict(WooCommerce(SECRET), delivery(WOO, long)), Rejected)
    with pytest.raises(
        ConfigurationError, match=r"^WooCommerce\(algorithm=\.\.\.\) must be 'sha256' or 'sha512'$"
    ):
        WooCommerce(SECRET, algorithm="md5")  # type: ignore[arg-type]  # what is tested


def test_each_of_xero_s_events_is_the_tenant_s_own() -> None:
    """In one body; the bytes of each are its id."""
    readings = Xero(SECRET).identify(delivery(XERO))
    assert [
        (reading.event_type, reading.account, reading.created_at)
        for reading in readings
        if isinstance(reading, Identity)
    ] == [("CONTACT.UPDATE", "t", START), ("INVOICE.UPDATE", "t", START)]
    for reading in readings:
        assert reading.span is not None
        assert isinstance(reading, Identity)
        assert reading.event_id == digest(XERO[slice(*reading.span)])


def test_xero_s_key_is_used_as_text() -> None:
    """It looks like base64, and is not decoded; a bad signature hears 401."""
    key = "ZmFrZS14ZXJvLWtleQ=="
    as_text = sign_hmac(XERO, key, "x-xero-signature", encoding="base64")
    decoded = sign_hmac(XERO, b"fake-xero-key", "x-xero-signature", encoding="base64")
    assert isinstance(verdict(Xero(key), delivery(XERO, as_text)), Verified)
    got = verdict(Xero(key), delivery(XERO, decoded))
    assert isinstance(got, Rejected)
    assert (got.reason, got.status) == ("signature_mismatch", 401)


def docusign(*names: str, secret: str = SECRET) -> list[tuple[str, str]]:
    """Sign under each of *names*; with other keys under all but the last."""
    return [
        (
            name,
            sign_hmac(DOCUSIGN, secret if name == names[-1] else f"fake-{name}", name, encoding="base64")[0][
                1
            ],
        )
        for name in names
    ]


@pytest.mark.parametrize(
    ("names", "believed"),
    [
        (("X-DocuSign-Signature-1",), True),
        (("X-DocuSign-Signature-1", "x-docusign-signature-2"), True),
        (tuple(f"X-DocuSign-Signature-{number}" for number in range(1, 101)), True),
        (tuple(f"X-DocuSign-Signature-{number}" for number in range(1, 102)), False),
        (("X-DocuSign-Signature",), False),
        (("X-DocuSign-Signature-0",), False),
        (("X-DocuSign-Signature-01",), False),
        (("X-DocuSign-Signature-one",), False),
        (("X-DocuSign-Signature-1-x",), False),
    ],
)
def test_any_of_docusign_s_numbered_headers_may_match(names: tuple[str, ...], believed: bool) -> None:
    """One for each active key, up to a hundred; a header of another shape is none of them."""
    got = verdict(DocuSign(SECRET), delivery(DOCUSIGN, docusign(*names)))
    assert isinstance(got, Verified) is believed


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<DocuSignEnvelopeInformation/>", "not JSON at character 0"),
        (
            b'{"event":"click-agreed","data":{"accountId":"a"}}',
            "no event id at $.data.envelopeId | $.event | $.generatedDateTime",
        ),
    ],
)
def test_what_is_no_envelope_s_event_is_quarantined(body: bytes, reason: str) -> None:
    """XML, and what is about no envelope."""
    assert DocuSign(SECRET).identify(delivery(body)) == (Unreadable(reason=reason),)


@pytest.mark.parametrize(
    "body", [b'{"ticket":1}', b"<ticket/>", b"a=1", b'{"type":"other"}', b'{"type":7}', b""]
)
def test_a_trigger_of_zendesk_s_has_the_customer_s_body_whatever_it_is(body: bytes) -> None:
    """JSON, XML or a form: the invocation is the id; without one it is quarantined."""
    sent = [("X-Zendesk-Webhook-Invocation-Id", "i-1")]
    assert Zendesk(SECRET).identify(delivery(body, sent)) == (Identity(event_id="i-1", event_type="trigger"),)
    for missing in ([], sent * 2):
        assert isinstance(Zendesk(SECRET).identify(delivery(body, missing))[0], Unreadable)


def test_an_event_of_zendesk_s_has_its_own_id() -> None:
    """Signed; the invocation's does not count."""
    sent = [("X-Zendesk-Webhook-Invocation-Id", "i-1")]
    assert Zendesk(SECRET).identify(delivery(ZENDESK, sent)) == (
        Identity(event_id="z_1", event_type="zen:event-type:ticket.created", created_at=START),
    )


@pytest.mark.parametrize(
    ("stamp", "believed"),
    [
        (NOW * 1000, True),
        (NOW * 1000 - 60_000, True),
        (NOW * 1000 - 60_001, False),
        (NOW * 1000 + 60_001, False),
        (NOW, False),
        ("soon", False),
        (None, False),
    ],
)
def test_linear_s_time_is_in_the_body_in_milliseconds(stamp: object, believed: bool) -> None:
    """60 s both ways; seconds in place of milliseconds are 1970."""
    body = written({"type": "Issue", "action": "create", "webhookTimestamp": stamp})
    got = verdict(Linear(SECRET), delivery(body, sign_hmac(body, SECRET, "Linear-Signature")))
    assert isinstance(got, Verified) is believed


def test_linear_s_webhook_id_is_no_event_s() -> None:
    """The delivery's header is; without it the event is quarantined."""
    assert Linear(SECRET).identify(delivery(LINEAR, [("Linear-Delivery", "u-1")])) == (
        Identity(event_id="u-1", event_type="Issue.create"),
    )
    (reading,) = Linear(SECRET).identify(delivery(LINEAR[:-1] + b',"webhookId":"w"}'))
    assert isinstance(reading, Unreadable)
    assert not Linear(SECRET).signed_id


def test_intercom_s_ping_has_no_effect() -> None:
    """Signed like any notification; the account is the app."""
    (event,) = Intercom(SECRET).identify(delivery(INTERCOM))
    assert event == Identity(event_id="notif_1", event_type="conversation.user.created", account="a")
    (ping,) = Intercom(SECRET).identify(delivery(b'{"id":"notif_2","topic":"ping"}'))
    assert isinstance(ping, Identity)
    assert ping.ignore == "a ping: Intercom tries the webhook"


@pytest.mark.parametrize(
    ("mode", "environment"), [("true", "test"), ("false", "live"), ("null", ""), ('"yes"', "")]
)
def test_lemon_squeezy_says_its_mode_the_other_way_round(mode: str, environment: str) -> None:
    """``test_mode`` is true for test."""
    body = f'{{"meta":{{"event_name":"order_created","test_mode":{mode}}}}}'.encode()
    assert LemonSqueezy(SECRET).identify(delivery(body)) == (
        Identity(event_id=digest(body), event_type="order_created", environment=environment),
    )


def test_mollie_may_send_a_signature_for_each_secret() -> None:
    """For a day after a rotation; the label is that of the one that is known here."""
    pairs = [
        sign_hmac(MOLLIE, secret, "X-Mollie-Signature", prefix="sha256=")[0]
        for secret in ("fake-new", SECRET)
    ]
    assert verdict(Mollie(SECRET), delivery(MOLLIE, pairs)) == Verified("secret-1")
    assert verdict(Mollie(["fake-x", "fake-new"]), delivery(MOLLIE, pairs)) == Verified("secret-2")
    many = verdict(Mollie(SECRET), delivery(MOLLIE, pairs * 9))
    assert many == Rejected(
        "signature_malformed", "x-mollie-signature header malformed: more than 16 signatures"
    )
    empty = verdict(Mollie(SECRET), delivery(MOLLIE, [*pairs, ("X-Mollie-Signature", "")]))
    assert empty == Rejected("signature_missing", "no x-mollie-signature header")
    for comma in (",", ", ", "\t,  "):  # as WSGI and proxies join headers of one name
        joined = [("X-Mollie-Signature", comma.join(value for _, value in pairs))]
        assert verdict(Mollie(SECRET), delivery(MOLLIE, joined)) == Verified("secret-1")
    classic = verdict(Mollie(SECRET), delivery(b"id=tr_fake5B8cwPMGnU"))
    assert classic == Rejected("signature_missing", "no x-mollie-signature header")


def test_the_bytes_are_the_id_where_the_provider_sends_none() -> None:
    """A redelivery of the same bytes is the same event, another event is not."""
    assert Zoom(SECRET).identify(delivery(ZOOM)) == (
        Identity(event_id=digest(ZOOM), event_type="meeting.started", created_at=START),
    )
    assert Calendly(SECRET).identify(delivery(CALENDLY)) == (
        Identity(event_id=digest(CALENDLY), event_type="invitee.created", created_at=START),
    )


def test_bitbucket_s_id_and_type_are_in_headers() -> None:
    """The hook's own id is no event's; nothing is sent again worth counting on."""
    sent = [
        ("X-Request-UUID", "r-1"),
        ("X-Event-Key", "repo:push"),
        ("X-Hook-UUID", "h"),
        ("X-Attempt-Number", "2"),
    ]
    source = Bitbucket(SECRET)
    assert source.identify(delivery(b"{}", sent)) == (Identity(event_id="r-1", event_type="repo:push"),)
    assert (source.redelivers, source.signed_id) == (False, False)


@pytest.mark.parametrize("make", [Slack, Paddle, Calendly, Linear, Zendesk, Zoom])
def test_a_tolerance_that_bounds_nothing_stops_the_start(make: type[Slack]) -> None:
    """By the name of the class."""
    for tolerance in (0, -1, float("inf"), float("nan"), None, True):
        with pytest.raises(ConfigurationError, match=rf"{make.__name__}\(tolerance_seconds=...\)"):
            make(SECRET, tolerance_seconds=tolerance)  # type: ignore[arg-type]  # what is tested


def test_a_tolerance_is_the_instance_s_own() -> None:
    """Two endpoints may differ."""
    wide, narrow = Slack(SECRET, tolerance_seconds=900), Slack(SECRET)
    headers = [
        ("x-slack-request-timestamp", str(NOW)),
        *sign_hmac(b"{}", SECRET, "x-slack-signature", prefix="v0=", before=f"v0:{NOW}:".encode()),
    ]
    late = delivery(b"{}", headers, now=NOW + 600)
    assert isinstance(verdict(wide, late), Verified)
    assert isinstance(verdict(narrow, late), Rejected)
