"""Plaid signs a token, by a key that it gives to those who have an account; nobody else is asked for it."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_private_key

from tests.deliveries import NOW, delivery, verdict
from tests.source_examples import PLAID, PLAID_KEYS, PLAID_OTHER_KEYS
from webhook_inbox import Inbox, Receipt, Secret
from webhook_inbox.errors import ConfigurationError, VerificationKeyError
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.secret import secrets_of
from webhook_inbox.sources import Identity, Plaid, Rejected, Unreadable, Verified, plaid
from webhook_inbox.sources.fetched import Fetched
from webhook_inbox.testing.signers import SIGNERS, Draft


def base64url(content: bytes) -> str:
    """Write as a token is written."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


SOURCE = Plaid(keys=PLAID_KEYS.public)
KEY = json.loads(PLAID_KEYS.public)
LONG = base64url(bytes(1) + base64.urlsafe_b64decode(KEY["x"] + "="))
CLAIMS = {"iat": NOW, "request_body_sha256": sha256(PLAID).hexdigest()}
NO_DATABASE = "postgresql://nobody@127.0.0.1:1/nowhere"
UNKNOWN_KEY = b'{"error_type":"INVALID_INPUT","error_code":"INVALID_WEBHOOK_VERIFICATION_KEY_ID"}'


def token(header: Any = (), claims: Any = None, *, private: str = PLAID_KEYS.private) -> str:
    """Sign any header and any claims with ES256, whatever they say; pairs change the ordinary header."""
    if isinstance(header, dict | tuple):
        header = {"alg": "ES256", "kid": "fake-kid-1"} | dict(header)
    content = ".".join(
        base64url(part if isinstance(part, bytes) else json.dumps(part).encode())
        for part in (header, CLAIMS if claims is None else claims)
    )
    key = load_der_private_key(base64.b64decode(private), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    halves = decode_dss_signature(key.sign(content.encode(), ECDSA(SHA256())))
    return f"{content}.{base64url(b''.join(half.to_bytes(32) for half in halves))}"


def sent(text: str, body: bytes = PLAID) -> Delivery:
    """Give the delivery with this token."""
    return delivery(body, [("plaid-verification", text)])


def refusal(text: str, source: Plaid = SOURCE, body: bytes = PLAID) -> str:
    """Give the reason."""
    got = verdict(source, sent(text, body))
    assert isinstance(got, Rejected)
    return got.reason


def test_what_plaid_signs_is_believed() -> None:
    """By our signer's token and by this file's."""
    made = SIGNERS["plaid"](Draft(body=PLAID, secret=PLAID_KEYS.private, event_id="", timestamp=NOW))
    assert verdict(SOURCE, delivery(PLAID, made.headers)) == Verified("secret-1")
    assert verdict(SOURCE, sent(token())) == Verified("secret-1")


GOOD = token()
HEADER, BODY, SIGNATURE = GOOD.split(".")
HALVES = base64.urlsafe_b64decode(f"{SIGNATURE}==")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "signature_missing"),
        ("a.b", "signature_malformed"),
        (f"{GOOD}.x", "signature_malformed"),
        (f"{GOOD}=", "signature_malformed"),
        (f"Bearer {GOOD}", "signature_malformed"),
        (f"{HEADER}.{BODY}.", "signature_mismatch"),
        (f"{HEADER}.{BODY}.{base64url(bytes(63))}", "signature_mismatch"),
        (f"{HEADER}.{BODY}.{base64url(bytes(66))}", "signature_mismatch"),
        (f"{HEADER}.{BODY}.{base64url(HALVES[:32] + bytes(1) + HALVES[32:])}", "signature_mismatch"),
        (f"{HEADER}.{BODY}.{base64url(bytes(64))}", "signature_mismatch"),
        (f"{HEADER}..{SIGNATURE}", "signature_mismatch"),
        (token({"alg": "none"}), "signature_version"),
        (token({"alg": "HS256"}), "signature_version"),
        (token({"alg": "es256"}), "signature_version"),
        (token({"alg": None}), "signature_malformed"),
        (token({"kid": "../../item/remove"}), "signature_malformed"),
        (token({"kid": ""}), "signature_malformed"),
        (token({"kid": 7}), "signature_malformed"),
        (token({"kid": "other"}), "signature_mismatch"),
        (token(["ES256"]), "signature_malformed"),
        (token(b"[" * 3_000), "signature_malformed"),
        (token(b"\xff"), "signature_malformed"),
        (token((), private=PLAID_OTHER_KEYS.private), "signature_mismatch"),
        (token((), CLAIMS | {"request_body_sha256": sha256(b"").hexdigest()}), "signature_mismatch"),
        (token((), CLAIMS | {"request_body_sha256": "\ud800"}), "timestamp_malformed"),
        (token((), CLAIMS | {"iat": str(NOW)}), "timestamp_malformed"),
        (token((), CLAIMS | {"iat": NOW + 0.5}), "timestamp_malformed"),
        (token((), CLAIMS | {"iat": True}), "timestamp_malformed"),
        (token((), CLAIMS | {"iat": -1}), "timestamp_malformed"),
        (token((), CLAIMS | {"iat": 10**30}), "timestamp_malformed"),
        (token((), {"iat": NOW}), "timestamp_malformed"),
        (token((), CLAIMS | {"iat": NOW - 301}), "timestamp_out_of_tolerance"),
        (token((), CLAIMS | {"iat": NOW + 301}), "timestamp_out_of_tolerance"),
    ],
)
def test_anything_but_a_whole_token_is_refused(text: str, reason: str) -> None:
    """P-CALM: by its reason, without an exception; what the token says of itself chooses no algorithm."""
    assert refusal(text) == reason


def test_another_body_under_a_good_token_is_refused() -> None:
    """The hash is of the bytes as they came: written anew, they are others."""
    assert refusal(GOOD, body=json.dumps(json.loads(PLAID)).encode()) == "signature_mismatch"


def test_a_key_counts_only_until_it_expires() -> None:
    """By this host's clock at the arrival."""
    for expired_at, believed in ((None, True), (NOW + 1, True), (NOW, False), (NOW - 1, False)):
        source = Plaid(keys=json.dumps(KEY | {"expired_at": expired_at}))
        assert isinstance(verdict(source, sent(GOOD)), Verified) is believed


def test_of_several_keys_the_one_that_the_token_names_counts() -> None:
    """While Plaid changes them."""
    other = json.dumps(json.loads(PLAID_OTHER_KEYS.public) | {"kid": "fake-kid-2"})
    source = Plaid(keys=[other, PLAID_KEYS.public])
    assert verdict(source, sent(GOOD)) == Verified("secret-2")
    named = token({"kid": "fake-kid-2"}, private=PLAID_OTHER_KEYS.private)
    assert verdict(source, sent(named)) == Verified("secret-1")


def test_two_sendings_of_the_same_bytes_are_two_events() -> None:
    """Plaid says twice that there is something new; were the second a duplicate, it would be lost."""
    ids = []
    for at in (NOW, NOW + 1):
        (reading,) = SOURCE.identify(sent(token((), CLAIMS | {"iat": at})))
        assert isinstance(reading, Identity)
        assert reading.event_type == "TRANSACTIONS.SYNC_UPDATES_AVAILABLE"
        ids.append(reading.event_id)
    assert ids == [f"sha256:{sha256(PLAID).hexdigest()}|{at}" for at in (NOW, NOW + 1)]
    for unreadable in (delivery(PLAID), sent(GOOD, b"{}")):
        assert [type(each) for each in SOURCE.identify(unreadable)] == [Unreadable]


class Api:
    """Plaid's, as the tests have it answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: int, content: bytes) -> None:
        self.answer = (status, content)
        self.asked: list[tuple[str, Any]] = []
        monkeypatch.setattr(plaid, "ask", self.ask)

    def ask(self, url: str, *, post: bytes) -> tuple[int, bytes]:
        """Note what was asked."""
        self.asked.append((url, json.loads(post)))
        if self.answer[0] == 0:
            raise VerificationKeyError("fake outage")
        return self.answer


def received(text: str) -> Receipt:
    """Give an inbox's answer whose source asks for its keys; its database cannot be reached."""
    inbox = Inbox(NO_DATABASE, connection_wait_seconds=0.5)
    inbox.endpoint("plaid", Plaid("fake-client", Secret("fake-credential"), tolerance_seconds=10**10))
    try:
        return inbox.receive_sync(
            "plaid", method="POST", url="https://h/p", headers=[("plaid-verification", text)], body=PLAID
        )
    finally:
        inbox.close()


@pytest.mark.parametrize(
    ("status", "content", "answered", "reason"),
    [
        (0, b"", 503, "verification_key"),
        (200, PLAID_KEYS.public.encode(), 503, "verification_key"),
        (200, b'{"key":null}', 503, "verification_key"),
        (200, b"no JSON", 503, "verification_key"),
        (200, b'{"key":%s}' % PLAID_OTHER_KEYS.public.encode(), 400, "signature_mismatch"),
        (400, UNKNOWN_KEY, 400, "secret_unknown"),
        (400, b'{"error_type":"INVALID_INPUT","error_code":"INVALID_API_KEYS"}', 503, "verification_key"),
        (429, b'{"error_type":"RATE_LIMIT_EXCEEDED","error_code":"RATE_LIMIT"}', 503, "verification_key"),
        (500, UNKNOWN_KEY, 503, "verification_key"),
        (302, b"", 503, "verification_key"),
    ],
)
def test_a_key_that_cannot_be_had_is_no_reason_to_lose_an_event(
    monkeypatch: pytest.MonkeyPatch, status: int, content: bytes, answered: int, reason: str
) -> None:
    """Unreachable, busy, or our own credentials wrong: 503, and Plaid sends again; an id unknown to it: refused."""
    api = Api(monkeypatch, status, content)
    receipt = received(GOOD)
    assert (receipt.status, receipt.reason) == (answered, reason)
    assert api.asked == [
        (
            "https://production.plaid.com/webhook_verification_key/get",
            {"client_id": "fake-client", "secret": "fake-credential", "key_id": "fake-kid-1"},
        )
    ]


def test_an_operator_reads_what_plaid_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P-QUIET: by its status, with what to look at; without credentials."""
    Api(monkeypatch, 400, b'{"error_type":"INVALID_INPUT","error_code":"INVALID_API_KEYS"}')
    received(GOOD)
    said = "production.plaid.com answers 400; are client_id and secret of this environment?"
    assert f"endpoint plaid: verification_key: {said}" in caplog.messages
    assert not any("INVALID" in message for message in caplog.messages)


@pytest.mark.parametrize(
    "text",
    ["", "a.b", token({"alg": "HS256"}), token({"kid": "https://evil.example/"}), token({"kid": "a" * 65})],
)
def test_a_stranger_s_token_has_nobody_asked(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """What is no token of Plaid's form is refused without a question."""
    api = Api(monkeypatch, 200, b"{}")
    assert received(text).status == 400
    assert api.asked == []


def test_the_key_that_the_token_names_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the sandbox where that is configured; and the event says by which key it was believed."""
    api = Api(monkeypatch, 200, b'{"key":%s,"request_id":"r"}' % PLAID_KEYS.public.encode())
    source = Plaid("fake-client", "fake-credential", environment="test")
    assert callable(source.secrets)
    for _ in range(2):
        found = secrets_of(source.secrets(sent(GOOD)), setting="test")
        assert verdict(source, sent(GOOD), found) == Verified("fake-kid-1")
    assert [url for url, _ in api.asked] == ["https://sandbox.plaid.com/webhook_verification_key/get"]


def test_an_unknown_key_is_remembered_for_a_short_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger who names it again has nobody asked."""
    api = Api(monkeypatch, 400, UNKNOWN_KEY)
    source = Plaid("fake-client", "fake-credential")
    assert callable(source.secrets)
    assert [source.secrets(sent(GOOD)) for _ in range(3)] == [[], [], []]
    assert len(api.asked) == 1


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({}, "must have client_id and secret, or keys"),
        ({"client_id": "c"}, "has no signing secret|is empty"),
        (
            {"client_id": "c", "secret": "s", "keys": PLAID_KEYS.public},
            "must have client_id and secret, or keys",
        ),
        ({"client_id": "c", "secret": "s", "environment": "sandbox"}, "must be 'live' or 'test'"),
        ({"client_id": "c", "secret": "s", "tolerance_seconds": 0}, "above 0"),
        ({"keys": []}, "empty list"),
        ({"keys": "fake"}, "no JSON Web Key on the curve P-256"),
        ({"keys": json.dumps(KEY | {"crv": "P-384"})}, "no JSON Web Key"),
        ({"keys": json.dumps(KEY | {"kty": "RSA"})}, "no JSON Web Key"),
        ({"keys": json.dumps(KEY | {"x": KEY["y"]})}, "no JSON Web Key"),
        ({"keys": json.dumps(KEY | {"x": "AAAA"})}, "no JSON Web Key"),
        ({"keys": json.dumps(KEY | {"x": LONG})}, "no JSON Web Key"),
        ({"keys": json.dumps(KEY | {"y": "é"})}, "no JSON Web Key"),
        ({"keys": json.dumps(KEY | {"expired_at": "soon"})}, "no JSON Web Key"),
    ],
)
def test_what_cannot_work_is_refused_at_the_start(given: dict[str, Any], match: str) -> None:
    """By its name, and no key or credential is shown."""
    with pytest.raises(ConfigurationError, match=match) as caught:
        Plaid(**given)
    assert KEY["x"] not in str(caught.value)


def test_no_credential_is_shown() -> None:
    """P-QUIET: neither by the source nor by what it keeps."""
    source = Plaid("fake-client", "fake-credential", fetched=Fetched(lambda _: None))
    assert "fake-credential" not in repr(vars(source))
