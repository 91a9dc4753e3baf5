"""Any HMAC scheme can be described; what the description says holds, and nothing beyond it is believed."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import pytest

from tests.deliveries import NOW, delivery, verdict
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources import Hmac, Rejected, Verified

KEY = "fake-hmac-key-0123456789"
BODY = b'{"id":"e1","type":"t.one","v":[1,2]}'
SLACK: Mapping[str, Any] = {
    "header": "X-Slack-Signature",
    "prefix": "v0=",
    "signed": "v0:{timestamp}:{body}",
    "timestamp": "header:X-Slack-Request-Timestamp",
    "tolerance_seconds": 300,
}
LIST: Mapping[str, Any] = {
    "header": "X-Sig",
    "separator": ";",
    "prefix": "h1=",
    "signed": "{timestamp}:{body}",
    "timestamp": "part:ts",
    "tolerance_seconds": 5,
}
WITH_ID: Mapping[str, Any] = {
    "header": "X-Sig",
    "signed": "{id}.{timestamp}.{body}",
    "timestamp": "header:X-Ts",
    "tolerance_seconds": 300,
    "event_id": "header:X-Id",
}


def make(given: object = KEY, **options: Any) -> Hmac:
    """Describe a source that reads ``X-Sig`` unless told otherwise."""
    return Hmac("acme", secrets=given, **({"header": "X-Sig"} | options))  # type: ignore[arg-type]  # for wrong ones too


def digest(signed: bytes = BODY, key: bytes = KEY.encode(), algorithm: str = "sha256") -> bytes:
    """Sign plainly."""
    return hmac.new(key, signed, algorithm).digest()


def ask(source: Hmac, *headers: tuple[str, str], body: bytes = BODY, now: float = NOW) -> Verified | Rejected:
    """Deliver *body* with *headers*."""
    return verdict(source, delivery(body, headers, now=now))


GOOD = digest().hex()


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("encoding", ["hex", "hex-upper", "base64"])
def test_every_hash_and_spelling_is_believed_at_full_length_only(algorithm: str, encoding: str) -> None:
    """P-RAW: no prefix of the text, no flipped bit of the digest."""
    source = make(algorithm=algorithm, encoding=encoding)
    raw = digest(algorithm=algorithm)

    def spell(value: bytes) -> str:
        return {
            "hex": value.hex(),
            "hex-upper": value.hex().upper(),
            "base64": base64.b64encode(value).decode(),
        }[encoding]

    good = spell(raw)
    assert ask(source, ("x-sig", good)) == Verified("secret-1")
    for length in range(len(good)):
        assert isinstance(ask(source, ("x-sig", good[:length])), Rejected)
    for bit in range(8 * len(raw)):
        flipped = (int.from_bytes(raw) ^ (1 << bit)).to_bytes(len(raw))
        got = ask(source, ("x-sig", spell(flipped)))
        assert isinstance(got, Rejected)
        assert got.reason == "signature_mismatch"
    assert isinstance(ask(source, ("x-sig", good.swapcase())), Rejected)


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (None, Rejected("signature_missing", "no x-sig header")),
        ("", Rejected("signature_missing", "no x-sig header")),
        (GOOD, Rejected("signature_version", "no supported signature version in the x-sig header")),
        (
            f"sha512={GOOD}",
            Rejected("signature_version", "no supported signature version in the x-sig header"),
        ),
        (
            f" sha256={GOOD}",
            Rejected("signature_version", "no supported signature version in the x-sig header"),
        ),
        (
            f"SHA256={GOOD}",
            Rejected("signature_version", "no supported signature version in the x-sig header"),
        ),
        ("sha256=", Rejected("signature_malformed", "x-sig header malformed: no 32 bytes in lower-case hex")),
        (
            "sha256=\xe9",
            Rejected("signature_malformed", "x-sig header malformed: no 32 bytes in lower-case hex"),
        ),
        (
            f"sha256={GOOD},sha256={GOOD}",
            Rejected("signature_malformed", "x-sig header malformed: no 32 bytes in lower-case hex"),
        ),
        ("a" * 5_000, Rejected("signature_malformed", "x-sig header malformed: longer than 4096 characters")),
    ],
)
def test_a_header_that_is_not_as_described_is_refused(value: str | None, refused: Rejected) -> None:
    """C03: GitHub-like; the prefix is exact, the reason is true, the sentence constant."""
    source = make(prefix="sha256=")
    assert ask(source, *([("X-Sig", value)] if value is not None else [])) == refused
    assert ask(source, ("x-sig", f"sha256={GOOD}")) == Verified("secret-1")


def test_the_header_sent_twice_is_refused() -> None:
    """Whichever of the two is good."""
    assert ask(make(), ("x-sig", GOOD), ("X-Sig", GOOD)) == Rejected(
        "signature_malformed", "more than one x-sig header"
    )


def test_any_of_several_secrets_is_believed_and_named() -> None:
    """C06: rotation; the label tells when the old one has stopped being used."""
    source = make(["fake-other", Secret(KEY, label="old")])
    assert ask(source, ("x-sig", GOOD)) == Verified("old")
    got = ask(make("fake-other"), ("x-sig", GOOD))
    assert isinstance(got, Rejected)
    assert got.message.startswith(f"the signature does not match these {len(BODY)} bytes; ")
    assert isinstance(verdict(source, delivery(BODY, [("x-sig", GOOD)]), given=()), Rejected)


@pytest.mark.parametrize(
    ("form", "prefix", "secret", "key"),
    [
        ("text", "", KEY, KEY.encode()),
        ("text", "", "clé-é", "clé-é".encode()),
        ("text", "sec_", f"sec_{KEY}", KEY.encode()),
        ("hex", "", "00ff10AB", b"\x00\xff\x10\xab"),
        ("hex", "k:", "k:00ff", b"\x00\xff"),
        ("base64", "", "AP8QqzEy", b"\x00\xff\x10\xab12"),
        ("base64", "whsec_", "whsec_AP8=", b"\x00\xff"),
    ],
)
def test_the_key_is_spelled_as_described(form: str, prefix: str, secret: str, key: bytes) -> None:
    """As text, hex or base64, with or without something before it."""
    source = make(secret, key=form, key_prefix=prefix)
    assert ask(source, ("x-sig", digest(key=key).hex())) == Verified("secret-1")
    assert isinstance(ask(source, ("x-sig", digest(key=key + b"x").hex())), Rejected)


@pytest.mark.parametrize(
    ("form", "prefix", "secret", "flaw"),
    [
        ("text", "sec_", KEY, "does not start with sec_"),
        ("text", "sec_", "sec_", "holds nothing after sec_"),
        ("hex", "", "0", "is not hex"),
        ("hex", "", "00 ff", "is not hex"),
        ("hex", "", "0\u0661", "is not hex"),
        ("hex", "", "xyz0", "is not hex"),
        ("hex", "k:", "k:", "holds nothing after k:"),
        ("base64", "", "AP8", "is not standard base64, padding included"),
        ("base64", "", "A-_=", "is not standard base64, padding included"),
        ("base64", "", "AP8Q!qzEy!!!", "is not standard base64, padding included"),
        ("base64", "", "\xe9\xe9\xe9\xe9", "is not standard base64, padding included"),
        ("base64", "w_", "w_", "holds nothing after w_"),
    ],
)
def test_a_secret_from_which_no_key_can_be_read_stops_the_start(
    form: str, prefix: str, secret: str, flaw: str
) -> None:
    """C09: no path leads to an empty or shortened key; the value is not shown (P-QUIET)."""
    with pytest.raises(ConfigurationError) as raised:
        make(["sec_ok" if prefix == "sec_" else secret, secret], key=form, key_prefix=prefix)
    label = "secret-2" if prefix == "sec_" else "secret-1"
    assert str(raised.value) == f"acme: {label} {flaw}"


def test_a_secret_that_no_check_let_through_believes_nothing() -> None:
    """P-CALM: not even the empty key, and without an exception."""
    source = make("00ff", key="hex")
    empty = digest(key=b"").hex()
    assert isinstance(
        verdict(source, delivery(BODY, [("x-sig", empty)]), given=(Secret("no hex"),)), Rejected
    )


def slack(timestamp: str = str(NOW), body: bytes = BODY) -> tuple[tuple[str, str], tuple[str, str]]:
    """Sign as Slack does."""
    signed = b"v0:" + timestamp.encode() + b":" + body
    return ("x-slack-signature", f"v0={digest(signed).hex()}"), ("x-slack-request-timestamp", timestamp)


def test_a_time_in_a_header_is_signed_and_bounded() -> None:
    """P-CLOCK: Slack-like; up to the tolerance either way, and as sent."""
    source = make(**SLACK)
    for now in (NOW - 300, NOW, NOW + 300):
        assert ask(source, *slack(), now=now) == Verified("secret-1")
    for now, said in ((NOW + 301, "ago"), (NOW - 301, "in the future")):
        got = ask(source, *slack(), now=now)
        assert isinstance(got, Rejected)
        assert got.reason == "timestamp_out_of_tolerance"
        assert got.message.startswith(f"signed 301 seconds {said}, the tolerance is 300 seconds; ")


@pytest.mark.parametrize(
    ("headers", "reason", "message"),
    [
        ([slack()[0]], "timestamp_missing", "no x-slack-request-timestamp header"),
        (
            [*slack(), slack()[1]],
            "timestamp_malformed",
            "more than one x-slack-request-timestamp header",
        ),
        (
            slack(f"0{NOW}"),
            "timestamp_malformed",
            "no signed time can be read at header:x-slack-request-timestamp",
        ),
        (
            slack("now"),
            "timestamp_malformed",
            "no signed time can be read at header:x-slack-request-timestamp",
        ),
        (
            slack(f"{NOW}.0"),
            "timestamp_malformed",
            "no signed time can be read at header:x-slack-request-timestamp",
        ),
        (
            slack(f"-{NOW}"),
            "timestamp_malformed",
            "no signed time can be read at header:x-slack-request-timestamp",
        ),
        ([slack()[1]], "signature_missing", "no x-slack-signature header"),
    ],
)
def test_a_time_that_cannot_be_read_is_refused(
    headers: list[tuple[str, str]], reason: str, message: str
) -> None:
    """C03: strict digits; the signature over them does not help."""
    assert ask(make(**SLACK), *headers) == Rejected(reason, message)


def test_milliseconds_are_milliseconds() -> None:
    """HubSpot-like: seconds in their place are half a century off."""
    source = make(**{**SLACK, "timestamp_unit": "ms"})
    assert ask(source, *slack(f"{NOW}000"), now=NOW + 300) == Verified("secret-1")
    assert isinstance(ask(source, *slack(f"{NOW - 1}999"), now=NOW + 300), Rejected)
    seconds = ask(source, *slack())
    assert isinstance(seconds, Rejected)
    assert seconds.reason == "timestamp_out_of_tolerance"


def test_iso_times_are_read_with_their_offset() -> None:
    """Zendesk-like: 2026-01-01T00:00:00Z."""
    source = make(**{**SLACK, "timestamp_unit": "iso"})
    for text in (
        "2026-01-01T00:00:00Z",
        "2026-01-01T02:00:00+02:00",
        "2026-01-01T00:00:00.500Z",
        "20260101T000000+00",
    ):
        assert ask(source, *slack(text), now=NOW + 300) == Verified("secret-1"), text
    for text in (
        str(NOW),
        "2026-01-01",
        "2026-01-01 00:00:00Z",
        "2026-13-01T00:00:00Z",
        "x" * 20,
        "2026-01-01T00:00:00Z" * 3,
    ):
        assert ask(source, *slack(text)) == Rejected(
            "timestamp_malformed", "no signed time can be read at header:x-slack-request-timestamp"
        ), text


def listed(signature: str, timestamp: str = str(NOW)) -> str:
    """Give a header like Paddle's."""
    return f"ts={timestamp};h1={signature}"


LISTED = digest(f"{NOW}:".encode() + BODY).hex()


@pytest.mark.parametrize(
    ("header", "answer"),
    [
        (listed(LISTED), Verified("secret-1")),
        (f"h1={LISTED};ts={NOW}", Verified("secret-1")),
        (f"ts={NOW};h1={'0' * 64};h1={LISTED}", Verified("secret-1")),
        (f"ts={NOW};h1=dummy;h1={LISTED};h2=x;y", Verified("secret-1")),
        (
            f"h1={LISTED}",
            Rejected("timestamp_missing", "signature header malformed: 0 parts start with ts=, expected one"),
        ),
        (
            f"ts={NOW};ts={NOW};h1={LISTED}",
            Rejected(
                "timestamp_malformed", "signature header malformed: 2 parts start with ts=, expected one"
            ),
        ),
        (f"ts=;h1={LISTED}", Rejected("timestamp_malformed", "no signed time can be read at part:ts")),
        (f"ts={NOW}", Rejected("signature_version", "no supported signature version in the x-sig header")),
        (
            f"ts={NOW},h1={LISTED}",
            Rejected("signature_version", "no supported signature version in the x-sig header"),
        ),
        (
            f"ts={NOW}; h1={LISTED}",
            Rejected("signature_version", "no supported signature version in the x-sig header"),
        ),
        (
            f"ts={NOW}" + ";h1=" * 17,
            Rejected("signature_malformed", "x-sig header malformed: more than 16 signatures"),
        ),
    ],
)
def test_a_header_may_be_a_list_of_parts(header: str, answer: Verified | Rejected) -> None:
    """Paddle-, Calendly- or Stripe-like: exactly one time, any of several signatures."""
    assert ask(make(**LIST), ("x-sig", header)) == answer


def test_a_time_in_the_signed_body_is_bounded_too() -> None:
    """P-CLOCK: Linear-like; read only after the signature over the body was found good."""
    source = make(timestamp="$.at.ms", timestamp_unit="ms", tolerance_seconds=60)

    def sent(text: str, *, key: bytes = KEY.encode(), now: float = NOW) -> Verified | Rejected:
        body = f'{{"at":{{"ms":{text}}}}}'.encode()
        return ask(source, ("x-sig", digest(body, key).hex()), body=body, now=now)

    assert sent(f"{NOW}000", now=NOW + 60) == Verified("secret-1")
    assert sent(f'"{NOW}000"') == Verified("secret-1")
    late = sent(f"{NOW}000", now=NOW + 61)
    assert isinstance(late, Rejected)
    assert late.reason == "timestamp_out_of_tolerance"
    for text in ("null", '"soon"', "true", "1.5e12", "{}", "[1]", "", str(10**15)):
        assert sent(text) == Rejected("timestamp_malformed", "no signed time can be read at $.at.ms"), text
    forged = sent("null", key=b"wrong")
    assert isinstance(forged, Rejected)
    assert forged.reason == "signature_mismatch"


@pytest.mark.parametrize(("unit", "text"), [("s", str(NOW)), ("iso", '"2026-01-01T00:00:00Z"')])
def test_a_time_in_the_body_may_be_in_any_unit(unit: str, text: str) -> None:
    """P-CLOCK: the same units as in a header."""
    source = make(timestamp="$.at", timestamp_unit=unit, tolerance_seconds=60)
    body = f'{{"at":{text}}}'.encode()
    signed = ("x-sig", digest(body).hex())
    assert ask(source, signed, body=body, now=NOW + 60) == Verified("secret-1")
    assert isinstance(ask(source, signed, body=body, now=NOW + 61), Rejected)


def with_id(event_id: str, timestamp: str = str(NOW), signed_id: str | None = None) -> list[tuple[str, str]]:
    """Sign id, time and body, as Svix does."""
    content = (
        (event_id if signed_id is None else signed_id).encode("latin-1") + f".{timestamp}.".encode() + BODY
    )
    return [("x-sig", digest(content).hex()), ("x-id", event_id), ("x-ts", timestamp)]


def test_an_id_in_a_header_can_be_signed() -> None:
    """Then a stranger cannot give an old delivery a new id, and the source says so."""
    source = make(**WITH_ID)
    assert source.signed_id
    assert ask(source, *with_id("msg_1")) == Verified("secret-1")
    assert ask(source, *with_id("msg \xe9")) == Verified("secret-1")
    other = ask(source, *with_id("msg_2", signed_id="msg_1"))
    assert isinstance(other, Rejected)
    assert other.reason == "signature_mismatch"
    assert ask(source, *with_id("msg_1")[::2]) == Rejected("id_missing", "no x-id header")
    assert ask(source, *with_id("a.b")) == Rejected(
        "id_malformed", "x-id header malformed: holds the separator"
    )


def test_method_and_address_can_be_signed() -> None:
    """Square- and HubSpot-like, as the server saw them; or an address written out, as it was registered."""
    source = make(signed="{method} {url} {body}")
    signed = digest(b"PUT https://a.example/x?y=1 " + BODY).hex()

    def sent(method: str, url: str) -> Verified | Rejected:
        return verdict(source, delivery(BODY, [("x-sig", signed)], method=method, url=url))

    assert sent("PUT", "https://a.example/x?y=1") == Verified("secret-1")
    assert isinstance(sent("POST", "https://a.example/x?y=1"), Rejected)
    assert isinstance(sent("PUT", "https://a.example/x?y=2"), Rejected)
    assert isinstance(sent("P\ud83d", "https://\udfff"), Rejected)
    fixed = make(signed="https://a.example/x{body}")
    assert ask(fixed, ("x-sig", digest(b"https://a.example/x" + BODY).hex())) == Verified("secret-1")


def test_the_field_reports_own_vectors_are_believed() -> None:
    """GitHub-, Shopify- and Slack-like, over the same 57 bytes."""
    body = b'{"id":"evt_v1","type":"order.paid","data":{"amount":500}}'
    github = Hmac("github", secrets="gh-secret-one", header="X-Hub-Signature-256", prefix="sha256=")
    shopify = Hmac("shopify", secrets="shop-secret-one", header="X-Shopify-Hmac-Sha256", encoding="base64")
    slack_like = Hmac("slack", secrets="slack-secret-one", **SLACK)
    for source, headers in (
        (
            github,
            [
                (
                    "x-hub-signature-256",
                    "sha256=2e5433af85bc635312b114938ba2b086c4c626077eafa874d8bc1786eb4b989c",
                )
            ],
        ),
        (shopify, [("x-shopify-hmac-sha256", "YkkEgg+GShOHLo1GLw+YVIvGwa3B6U+uFQyAaC2ukJM=")]),
        (
            slack_like,
            [
                ("x-slack-signature", "v0=3021a2ed7dd84d39b42da85bc00b7a5077054952e2844af27e45ee53354577ee"),
                ("x-slack-request-timestamp", "1700000000"),
            ],
        ),
    ):
        assert ask(source, *headers, body=body, now=1_700_000_000) == Verified("secret-1")


def test_hashlib_knows_the_sizes() -> None:
    """Twenty, thirty-two and sixty-four bytes: what the decoders are told."""
    assert [hashlib.new(name).digest_size for name in ("sha1", "sha256", "sha512")] == [20, 32, 64]


@pytest.mark.parametrize(
    ("unit", "signed", "time_text", "body"),
    [
        ("s", "{timestamp}{body}", str(NOW), b'{"id":"e1"}'),
        ("s", "{body}{timestamp}", str(NOW), b'{"id":"e1"}'),
        ("ms", "{timestamp}{body}", f"{NOW}000", b'{"id":"e1"}'),
        ("iso", "{timestamp}{body}", "2026-01-01T00:00:00Z", b'{"id":"e1"}'),
        ("iso", "{timestamp}{body}", "2026-01-01T00:00:00.000Z", b'{"id":"e1"}'),
    ],
)
def test_where_nothing_stands_between_no_character_can_pass_from_one_to_the_other(
    unit: str, signed: str, time_text: str, body: bytes
) -> None:
    """P-RAW: one signature stands for one time and one body, however wide the tolerance is."""
    options = {
        "signed": signed,
        "timestamp": "header:X-Ts",
        "timestamp_unit": unit,
        "tolerance_seconds": 10**13,
    }
    before = signed == "{timestamp}{body}"
    content = time_text.encode() + body if before else body + time_text.encode()
    source, signature = make(**options), digest(content).hex()
    assert ask(source, ("X-Sig", signature), ("X-Ts", time_text), body=body) == Verified("secret-1")
    moved = (
        [content[:at] for at in range(1, len(content))]
        if before
        else [content[at:] for at in range(1, len(content))]
    )
    for time_bytes in moved:
        rest = content[len(time_bytes) :] if before else content[: -len(time_bytes)]
        if time_bytes == time_text.encode():
            continue
        got = ask(source, ("X-Sig", signature), ("X-Ts", time_bytes.decode()), body=rest)
        assert isinstance(got, Rejected), time_bytes
