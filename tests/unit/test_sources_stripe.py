"""Stripe is believed when, and only when, Stripe signed it; its events are named by what it signed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.deliveries import NOW, PAYLOADS, STRIPE_SECRET, delivery, payload_files, secrets, verdict
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources import Identity, Rejected, Stripe, Unreadable, Verified

OLD, NEW = "whsec_fake_old_000000", "whsec_fake_new_111111"
BODY = b'{"id":"evt_x","object":"event","type":"order.paid","created":1700000000,"livemode":true}'
SOURCE = Stripe(STRIPE_SECRET)
MALFORMED = "stripe-signature header malformed"


def digest(body: bytes = BODY, secret: str = STRIPE_SECRET, timestamp: str = str(NOW)) -> str:
    """Sign as docs.stripe.com says: HMAC-SHA256 of time, full stop and body."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def ask(
    header: str | list[str], source: Stripe = SOURCE, body: bytes = BODY, now: float = NOW
) -> Verified | Rejected:
    """Deliver *body* with the given signature headers."""
    headers = [header] if isinstance(header, str) else header
    return verdict(source, delivery(body, [("Stripe-Signature", value) for value in headers], now=now))


GOOD = digest()


def test_what_stripe_signed_is_believed() -> None:
    """P-RAW: on the exact bytes; the field reports' own vector with its time and secret."""
    body = b'{"id":"evt_v1","type":"order.paid","data":{"amount":500}}'
    source = Stripe("whsec_dGVzdC1zZWNyZXQtb25l")
    header = "t=1700000000,v1=544d9a505952b49c6663c154b4e46fea9c21507ec8ac3f27c0f97af821fa0a36"
    assert ask(header, source, body, now=1_700_000_000) == Verified("secret-1")


@pytest.mark.parametrize(
    ("header", "refused"),
    [
        ([], Rejected("signature_missing", "no stripe-signature header")),
        ("", Rejected("signature_missing", "no stripe-signature header")),
        (
            [f"t={NOW},v1={GOOD}", f"t={NOW},v1={GOOD}"],
            Rejected("signature_malformed", "more than one stripe-signature header"),
        ),
        ("not-a-signature", Rejected("signature_malformed", MALFORMED)),
        (f"t={NOW},v1={GOOD},", Rejected("signature_malformed", MALFORMED)),
        (f"t,v1={GOOD}", Rejected("signature_malformed", MALFORMED)),
        (f"v1={GOOD}", Rejected("timestamp_missing", f"{MALFORMED}: no t")),
        (f"T={NOW},v1={GOOD}", Rejected("timestamp_missing", f"{MALFORMED}: no t")),
        (f"t=,v1={GOOD}", Rejected("timestamp_malformed", f"{MALFORMED}: t is not one unix time")),
        (f"t=abc,v1={GOOD}", Rejected("timestamp_malformed", f"{MALFORMED}: t is not one unix time")),
        (
            f"t=1_767_225_600,v1={GOOD}",
            Rejected("timestamp_malformed", f"{MALFORMED}: t is not one unix time"),
        ),
        (f"t={NOW}.0,v1={GOOD}", Rejected("timestamp_malformed", f"{MALFORMED}: t is not one unix time")),
        (f"t= {NOW},v1={GOOD}", Rejected("timestamp_malformed", f"{MALFORMED}: t is not one unix time")),
        (
            f"t={NOW},t={NOW},v1={GOOD}",
            Rejected("timestamp_malformed", f"{MALFORMED}: t is not one unix time"),
        ),
        (
            f"t={NOW},t={NOW - 9999},v1={GOOD}",
            Rejected("timestamp_malformed", f"{MALFORMED}: t is not one unix time"),
        ),
        (
            f"t={NOW}",
            Rejected("signature_version", "no supported signature version in the stripe-signature header"),
        ),
        (
            f"t={NOW},v0={GOOD}",
            Rejected("signature_version", "no supported signature version in the stripe-signature header"),
        ),
        (
            f"t={NOW}, v1={GOOD}",
            Rejected("signature_version", "no supported signature version in the stripe-signature header"),
        ),
        (f"t={NOW},v1=", Rejected("signature_malformed", f"{MALFORMED}: no 32 bytes in lower-case hex")),
        (f"t={NOW},v1=\xe9", Rejected("signature_malformed", f"{MALFORMED}: no 32 bytes in lower-case hex")),
        (
            f"t={NOW},v1={GOOD.upper()}",
            Rejected("signature_malformed", f"{MALFORMED}: no 32 bytes in lower-case hex"),
        ),
        (
            f"t={NOW},v1={GOOD[:63]}",
            Rejected("signature_malformed", f"{MALFORMED}: no 32 bytes in lower-case hex"),
        ),
        (
            f"t={NOW},v1={base64.b64encode(bytes.fromhex(GOOD)).decode()}",
            Rejected("signature_malformed", f"{MALFORMED}: no 32 bytes in lower-case hex"),
        ),
        (
            f"t={NOW}" + ",v1=" * 17,
            Rejected("signature_malformed", f"{MALFORMED}: more than 16 signatures"),
        ),
        (
            f"t={NOW}" + f",v1={GOOD}" * 10_000,
            Rejected("signature_malformed", f"{MALFORMED}: longer than 4096 characters"),
        ),
        (f"t={NOW},v1={'0' * 64}", Rejected("signature_mismatch", "")),
    ],
)
def test_a_hostile_or_malformed_header_is_refused_for_its_own_reason(
    header: str | list[str], refused: Rejected
) -> None:
    """C03, P-CALM: never an exception, never a belief; the sentence is constant and says what to mend."""
    got = ask(header)
    assert isinstance(got, Rejected)
    assert got.reason == refused.reason
    assert got.status == 400
    if refused.message:
        assert got.message == refused.message


@pytest.mark.parametrize("length", range(64))
def test_no_truncation_of_a_good_signature_is_believed(length: int) -> None:
    """Sixty-four prefixes: the digest counts at full length or not at all."""
    assert isinstance(ask(f"t={NOW},v1={GOOD[:length]}"), Rejected)


@pytest.mark.parametrize("bit", range(256))
def test_no_flipped_bit_of_a_good_signature_is_believed(bit: int) -> None:
    """Every single one of the 256 bits counts."""
    flipped = (int(GOOD, 16) ^ (1 << bit)).to_bytes(32).hex()
    got = ask(f"t={NOW},v1={flipped}")
    assert isinstance(got, Rejected)
    assert got.reason == "signature_mismatch"


@pytest.mark.parametrize(
    ("configured", "header", "believed"),
    [
        ([NEW], f"t={NOW},v1={digest(secret=OLD)},v1={digest(secret=NEW)},v0=00", "secret-1"),
        ([NEW], f"t={NOW},v1={digest(secret=NEW)},v1={digest(secret=OLD)}", "secret-1"),
        ([OLD, NEW], f"t={NOW},v1={digest(secret=OLD)}", "secret-1"),
        ([OLD, NEW], f"t={NOW},v1={digest(secret=NEW)}", "secret-2"),
        ([OLD, NEW], f"t={NOW},v1={digest(secret=NEW)},v1={digest(secret=OLD)}", "secret-1"),
        ([Secret(OLD, label="until May"), NEW], f"t={NOW},v1={digest(secret=OLD)}", "until May"),
        ([NEW], f"v0={'0' * 64},v1={digest(secret=NEW)},t={NOW},v2=x", "secret-1"),
        ([NEW], f"t={NOW},v1=,v1={digest(secret=NEW)}", "secret-1"),
        ([NEW], f"t={NOW},v1={digest(secret=OLD)}", None),
        ([NEW], f"t={NOW},v0={digest(secret=NEW)}", None),
    ],
)
def test_while_a_secret_is_rolled_either_is_believed(
    configured: list[str | Secret], header: str, believed: str | None
) -> None:
    """C06: whichever of several secrets made any of several ``v1`` is named by its label; ``v0`` never counts."""
    got = ask(header, Stripe(configured))
    assert (got.label if isinstance(got, Verified) else None) == believed


def test_without_any_secret_nothing_is_believed() -> None:
    """C10: an empty list of keys is no reason to skip the check."""
    source = delivery(BODY, [("stripe-signature", f"t={NOW},v1={GOOD}")])
    assert isinstance(verdict(SOURCE, source, given=()), Rejected)


def test_a_body_signed_with_the_empty_key_is_refused() -> None:
    """C10: what an unset variable would have accepted."""
    empty = hmac.new(b"", f"{NOW}.".encode() + BODY, hashlib.sha256).hexdigest()
    assert isinstance(ask(f"t={NOW},v1={empty}"), Rejected)


def test_another_provider_s_header_is_no_signature() -> None:
    """C10: the header that this source reads is the only one."""
    other = delivery(BODY, [("x-hub-signature-256", f"sha256={GOOD}"), ("webhook-signature", f"v1,{GOOD}")])
    assert verdict(SOURCE, other) == Rejected("signature_missing", "no stripe-signature header")


@pytest.mark.parametrize("now", [NOW - 300, NOW - 0.5, NOW, NOW + 299.9, NOW + 300])
def test_up_to_the_tolerance_on_either_side_is_in_time(now: float) -> None:
    """P-CLOCK: 300 seconds are still 300 seconds."""
    assert ask(f"t={NOW},v1={GOOD}", now=now) == Verified("secret-1")


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (NOW + 301, "signed 301 seconds ago"),
        (NOW - 301, "signed 301 seconds in the future"),
        (NOW + 300.01, "signed 3"),
    ],
)
def test_beyond_the_tolerance_on_either_side_is_refused(now: float, said: str) -> None:
    """P-CLOCK: a replay is refused; so is a time that a replay could wait for."""
    got = ask(f"t={NOW},v1={GOOD}", now=now)
    assert isinstance(got, Rejected)
    assert got.reason == "timestamp_out_of_tolerance"
    assert got.message.startswith(said)


def test_the_tolerance_can_be_set() -> None:
    """A queue in between may need more; what is configured is what holds."""
    source = Stripe(STRIPE_SECRET, tolerance_seconds=10)
    assert ask(f"t={NOW},v1={GOOD}", source, now=NOW + 10) == Verified("secret-1")
    late = ask(f"t={NOW},v1={GOOD}", source, now=NOW + 11)
    assert isinstance(late, Rejected)
    assert "the tolerance is 10 seconds" in late.message


def test_a_stranger_learns_nothing_about_the_clock() -> None:
    """The time is judged only after the signature: a forged header gets one answer, whatever its time."""
    got = ask(f"t=1,v1={'0' * 64}")
    assert isinstance(got, Rejected)
    assert got.reason == "signature_mismatch"


ODD = (
    b'{"id":"evt_c01","object":"event","type":"order.paid","created":1700000000,\n  "livemode":true,"data":{"object":'
    b'{"id":"or_1","qty":1.0,"price":10.00,"note":"a\\/b \\u0026 \\u00e9","meta":{},"tags":[]}}}\n'
)


def test_only_the_bytes_as_received_verify() -> None:
    """C01, P-RAW: the body as sent is believed; re-encoded, or without its last line feed, it is not."""
    compact = json.dumps(json.loads(ODD), separators=(",", ":")).encode()
    assert ask(f"t={NOW},v1={digest(ODD)}", body=ODD) == Verified("secret-1")
    for sent, signed in ((ODD, compact), (ODD[:-1], ODD)):
        assert ask(f"t={NOW},v1={digest(signed)}", body=sent) == Rejected(
            "signature_mismatch",
            f"the signature does not match these {len(sent)} bytes; either a proxy or middleware changed the body, "
            "or it was signed with another secret",
        )


def test_multibyte_characters_are_bytes_like_any_others() -> None:
    """C02: emoji, accents and a raw line separator; nothing is decoded before it is verified."""
    body = '{"id":"evt_c02","type":"x","title":"Café 😊 mânecă\u2028"}'.encode()
    assert ask(f"t={NOW},v1={digest(body)}", body=body) == Verified("secret-1")
    assert SOURCE.identify(delivery(body)) == (Identity(event_id="evt_c02", event_type="x"),)


@pytest.mark.parametrize(
    ("secret", "kind"),
    [
        ("sk_test_fake", "a secret API key"),
        ("sk_live_fake", "a secret API key"),
        ("rk_live_fake", "a restricted API key"),
        ("pk_test_fake", "a publishable API key"),
        ("we_fake", "the id of a webhook endpoint"),
        ("whsec_", "the prefix whsec_ with nothing after it"),
        ("fake_without_prefix", "no signing secret"),
        ("v1,whsec_fake", "no signing secret"),
        ("WHSEC_fake", "no signing secret"),
    ],
)
def test_what_is_no_signing_secret_stops_the_start(secret: str, kind: str) -> None:
    """C09: the kind that was pasted is named, the value is not (P-QUIET)."""
    with pytest.raises(
        ConfigurationError,
        match=f"^stripe: secret-2 is {kind}; the signing secret of a webhook endpoint starts with whsec_$",
    ) as raised:
        Stripe([STRIPE_SECRET, secret])
    if len(secret) > len("whsec_"):
        assert secret not in str(raised.value)


def test_no_secret_stops_the_start() -> None:
    """C10: unset, empty, blank, one empty among good ones, or an empty list."""
    for given in (None, "", "  ", [STRIPE_SECRET, ""], []):
        with pytest.raises(ConfigurationError, match=r"^Stripe\(secrets=\.\.\.\)"):
            Stripe(given)


def test_a_callable_is_asked_later() -> None:
    """A secret manager may answer per delivery."""

    def ask_manager(_: object) -> str:
        return STRIPE_SECRET

    assert Stripe(ask_manager).secrets is ask_manager


@pytest.mark.parametrize("environment", ["", "LIVE", "production", True, []])
def test_an_unknown_environment_stops_the_start(environment: object) -> None:
    """A typing error must not become a source that ignores everything, or nothing."""
    with pytest.raises(
        ConfigurationError, match=r"^Stripe\(environment=\.\.\.\) must be 'live', 'test' or None$"
    ):
        Stripe(STRIPE_SECRET, environment=environment)  # type: ignore[arg-type]  # what is tested


def test_a_tolerance_that_bounds_nothing_stops_the_start() -> None:
    """The official library reads 0 as "do not check"; this one does not."""
    with pytest.raises(
        ConfigurationError, match=r"^Stripe\(tolerance_seconds=\.\.\.\) must be a number of seconds above 0$"
    ):
        Stripe(STRIPE_SECRET, tolerance_seconds=0)


def test_what_the_source_says_of_itself() -> None:
    """Part of every event key, and what inline mode relies on."""
    assert (SOURCE.provider, SOURCE.redelivers, SOURCE.signed_id) == ("stripe", True, True)
    assert (SOURCE.body_bytes_max, SOURCE.secret_headers, SOURCE.methods) == (
        1_048_576,
        frozenset(),
        frozenset(),
    )
    assert SOURCE.answer(delivery(BODY), secrets(SOURCE)) is None
    assert STRIPE_SECRET not in repr(SOURCE)
    assert STRIPE_SECRET not in repr(secrets(SOURCE))


def identify(body: bytes, source: Stripe = SOURCE) -> Identity | Unreadable:
    """Ask for the one reading of *body*."""
    (reading,) = source.identify(delivery(body))
    return reading


def test_a_snapshot_event_is_named() -> None:
    """Id and type as sent, live by ``livemode``, time from ``created``."""
    assert identify(BODY) == Identity(
        event_id="evt_x",
        event_type="order.paid",
        environment="live",
        created_at=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    )


def test_a_connected_account_is_part_of_the_identity() -> None:
    """Connect: the top-level ``account``; a snapshot's ``context`` is not one."""
    body = (
        b'{"id":"evt_x","object":"event","type":"t","account":"acct_1","context":"acct_9","livemode":false}'
    )
    assert identify(body) == Identity(event_id="evt_x", event_type="t", account="acct_1", environment="test")
    alone = b'{"id":"evt_x","object":"event","type":"t","context":"acct_9"}'
    assert identify(alone) == Identity(event_id="evt_x", event_type="t")


def test_a_thin_event_is_named_by_its_context() -> None:
    """C35: the type literally, the account from ``context``, the time from an ISO text."""
    body = (
        b'{"id":"evt_test_65c35","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered",'
        b'"created":"2024-11-26T17:46:22.134Z","livemode":false,"context":"acct_9","account":"acct_1",'
        b'"related_object":{"id":"mtr_1","type":"billing.meter","url":"/v1/billing/meters/mtr_1"}}'
    )
    assert identify(body) == Identity(
        event_id="evt_test_65c35",
        event_type="v1.billing.meter.error_report_triggered",
        account="acct_9",
        environment="test",
        created_at=datetime(2024, 11, 26, 17, 46, 22, 134_000, tzinfo=UTC),
    )
    plain = b'{"id":"evt_1","object":"v2.core.event","type":"v2.core.account[requirements].updated","context":null}'
    assert identify(plain) == Identity(event_id="evt_1", event_type="v2.core.account[requirements].updated")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"id":"a","object":"event","type":"t","account":5.5}', "no account at $.account"),
        (b'{"id":"a","object":"v2.core.event","type":"t","context":{}}', "no account at $.context"),
        (b'{"object":"event","type":"t"}', "no event id at $.id"),
        (b'{"id":"a"}', "no event type at $.type"),
        (b"[]", "expected a JSON object"),
        (b"", "not JSON at character 0"),
    ],
)
def test_an_authentic_body_that_names_no_event_says_why(body: bytes, reason: str) -> None:
    """C05, C22: it will be quarantined with this reason."""
    assert identify(body) == Unreadable(reason=reason)


@pytest.mark.parametrize("created", ["null", "1e18", '"soon"', "true", "{}", "99999999999999999999999", "-5"])
def test_an_absurd_time_does_not_refuse_the_event(created: str) -> None:
    """C35: created is information; the event is there without it."""
    assert identify(f'{{"id":"a","type":"t","created":{created}}}'.encode()) == Identity(
        event_id="a", event_type="t"
    )


@pytest.mark.parametrize(
    ("configured", "livemode", "environment", "ignore"),
    [
        (None, "true", "live", ""),
        (None, "false", "test", ""),
        (None, "null", "", ""),
        ("live", "true", "live", ""),
        ("test", "false", "test", ""),
        ("live", "false", "test", "a test event, but this source is set to environment='live'"),
        ("test", "true", "live", "a live event, but this source is set to environment='test'"),
        ("live", "null", "", ""),
        ("live", '"false"', "", ""),
        ("test", "0", "", ""),
        ("live", "1", "", ""),
    ],
)
def test_the_other_mode_is_ignored_with_a_reason(
    configured: str | None, livemode: str, environment: str, ignore: str
) -> None:
    """C26: not refused (that would get the endpoint disabled) and no effect; what says no mode is taken."""
    source = Stripe(STRIPE_SECRET, environment=configured)  # type: ignore[arg-type]  # from a table
    got = identify(f'{{"id":"a","type":"t","livemode":{livemode}}}'.encode(), source)
    assert got == Identity(event_id="a", event_type="t", environment=environment, ignore=ignore)


def test_live_and_test_never_share_a_key() -> None:
    """C26: the same fixed test id in both modes is two events."""
    live, test = (
        identify(f'{{"id":"evt_00000000000000","type":"t","livemode":{mode}}}'.encode())
        for mode in ("true", "false")
    )
    assert isinstance(live, Identity)
    assert isinstance(test, Identity)
    assert (live.environment, test.environment) == ("live", "test")


@pytest.mark.parametrize(
    "path",
    payload_files("stripe/events", "stripe/events-connect", "stripe/events-assembled"),
    ids=lambda path: path.name,
)
def test_every_real_event_is_named_as_python_s_json_reads_it(path: Path) -> None:
    """The 103 collected events, snapshot and Connect: the fast reading is the plain one."""
    body = path.read_bytes()
    read = json.loads(body)
    assert identify(body) == Identity(
        event_id=read["id"],
        event_type=read["type"],
        account=read.get("account") or "",
        environment="live" if read["livemode"] else "test",
        created_at=datetime.fromtimestamp(read["created"], UTC),
    )


EDGE: dict[str, Identity | Unreadable] = {
    "big-numbers.json": Identity(event_id="evt_edge_num", event_type="edge.numbers"),
    "crlf-pretty.json": Identity(event_id="evt_edge_crlf", event_type="edge.crlf"),
    "deep-nesting-100000.json": Unreadable(reason="nested deeper than 200"),
    "deep-nesting-500.json": Unreadable(reason="nested deeper than 200"),
    "duplicate-keys.json": Identity(event_id="evt_b", event_type="edge.dup"),
    "empty-array.json": Unreadable(reason="expected a JSON object"),
    "empty-object.json": Unreadable(reason="no event id at $.id"),
    "id-empty.json": Unreadable(reason="no event id at $.id"),
    "id-is-number.json": Identity(event_id="123456789", event_type="edge.numeric_id"),
    "id-missing.json": Unreadable(reason="no event id at $.id"),
    "id-very-long.json": Unreadable(reason="event id at $.id is 5004 characters, limit 255"),
    "large-600kb.json": Identity(event_id="evt_edge_large", event_type="edge.large"),
    "latin1-bytes.json": Unreadable(reason="not UTF-8 at byte 56"),
    "lone-surrogate.json": Identity(event_id="evt_edge_sur", event_type="edge.surrogate"),
    "nan-infinity.json": Unreadable(reason="not JSON: NaN is no number in JSON"),
    "not-json.txt": Unreadable(reason="not JSON at character 0"),
    "nul-in-string.json": Identity(event_id="evt_edge_nul", event_type="edge.nul"),
    "top-level-array.json": Unreadable(reason="expected a JSON object"),
    "top-level-null.json": Unreadable(reason="expected a JSON object"),
    "top-level-string.json": Unreadable(reason="expected a JSON object"),
    "truncated.json": Unreadable(reason="not JSON at character 69"),
    "type-missing.json": Unreadable(reason="no event type at $.type"),
    "unicode-escaped.json": Identity(event_id="evt_edge_unicode", event_type="edge.unicode"),
    "unicode.json": Identity(event_id="evt_edge_unicode", event_type="edge.unicode"),
    "utf8-bom.json": Unreadable(
        reason="starts with a byte order mark; JSON is sent without one (RFC 8259, section 8.1)"
    ),
}


def test_every_edge_file_has_its_expected_reading() -> None:
    """None is left out."""
    assert {path.name for path in payload_files("edge")} == set(EDGE)


@pytest.mark.parametrize("name", sorted(EDGE))
def test_a_hard_body_is_believed_by_its_bytes_and_read_as_documented(name: str) -> None:
    """C05, C18, C21, C22: signed, each is believed; what cannot be read says why and raises nothing."""
    body = (PAYLOADS / "edge" / name).read_bytes()
    assert ask(f"t={NOW},v1={digest(body)}", body=body) == Verified("secret-1")
    assert identify(body) == EDGE[name]
