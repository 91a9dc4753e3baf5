"""Standard Webhooks: the kind of key chooses the algorithm, the signed id names the event, and nothing raises."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.deliveries import NOW, STANDARD_SECRET, delivery, payload_files, secrets, verdict
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.secret import Secret
from webhook_inbox.sources import Identity, Rejected, StandardWebhooks, Unreadable, Verified

OTHER_SECRET = "whsec_YW5vdGhlci1mYWtlLXNlY3JldC0yNGJ5"
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = "whpk_" + base64.b64encode(PRIVATE.public_key().public_bytes_raw()).decode()
BODY = b'{"type":"user.created","timestamp":"2022-11-03T20:26:10.344522Z","data":{"id":"u_1"}}'
ID = "msg_1"
SOURCE = StandardWebhooks(STANDARD_SECRET)
NO_VERSION = Rejected("signature_version", "no supported signature version in the webhook-signature header")
NO_DIGEST = Rejected("signature_malformed", "webhook-signature header malformed: no 32 bytes in base64")


def content(body: bytes = BODY, event_id: str = ID, timestamp: str = str(NOW)) -> bytes:
    """Give what is signed, as the specification says."""
    return event_id.encode("latin-1") + b"." + timestamp.encode() + b"." + body


def v1(signed: bytes | None = None, secret: str = STANDARD_SECRET) -> str:
    """Sign with HMAC-SHA256 under the decoded secret."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, content() if signed is None else signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def v1a(signed: bytes | None = None, key: Ed25519PrivateKey = PRIVATE) -> str:
    """Sign with Ed25519."""
    return "v1a," + base64.b64encode(key.sign(content() if signed is None else signed)).decode()


def ask(
    signature: str,
    source: StandardWebhooks = SOURCE,
    *,
    body: bytes = BODY,
    event_id: str = ID,
    timestamp: str = str(NOW),
    now: float = NOW,
    family: str = "webhook",
) -> Verified | Rejected:
    """Deliver *body* with the three headers."""
    headers = [
        (f"{family}-id", event_id),
        (f"{family}-timestamp", timestamp),
        (f"{family}-signature", signature),
    ]
    return verdict(source, delivery(body, headers, now=now))


GOOD = v1()
GOOD_A = v1a()


def test_the_specification_s_scheme_is_believed() -> None:
    """P-RAW: id, time and exact bytes; the field reports' own vector."""
    body = b'{"id":"evt_v1","type":"order.paid","data":{"amount":500}}'
    got = ask(
        "v1,Sg1vT3wvFUDOg/xtj/C3zjwuqdauvLJkxRPlO31F+Y4=",
        StandardWebhooks("whsec_dGVzdC1zZWNyZXQtb25l"),
        body=body,
        event_id="msg_v1",
        timestamp="1700000000",
        now=1_700_000_000,
    )
    assert got == Verified("secret-1")


def test_svix_header_names_are_the_same_scheme() -> None:
    """One family or the other, never a mixture of both."""
    assert ask(GOOD, family="svix") == Verified("secret-1")
    mixed = [("webhook-id", ID), ("webhook-timestamp", str(NOW)), ("svix-signature", GOOD)]
    assert verdict(SOURCE, delivery(BODY, mixed)) == Rejected("id_missing", "no svix-id header")
    both = [
        ("svix-signature", GOOD),
        ("svix-id", ID),
        ("svix-timestamp", str(NOW)),
        ("webhook-signature", "v1,x"),
    ]
    assert verdict(SOURCE, delivery(BODY, both)) == Rejected("id_missing", "no webhook-id header")


@pytest.mark.parametrize(
    ("signature", "answer"),
    [
        (f"v1,BAD v1a,AAAA {GOOD}", Verified("secret-1")),
        (f"{v1(secret=OTHER_SECRET)} {GOOD}", Verified("secret-1")),
        (f"{GOOD} {v1(secret=OTHER_SECRET)}", Verified("secret-1")),
        (f"  {GOOD}   {GOOD} ", Verified("secret-1")),
        (f"{GOOD} v2,new", Verified("secret-1")),
        ("v1a,AAAA", NO_VERSION),
        (GOOD.replace("v1,", "v1a,"), NO_VERSION),
        (GOOD.replace("v1,", "v2,"), NO_VERSION),
        (GOOD.replace("v1,", "V1,"), NO_VERSION),
        (GOOD.replace("v1,", ","), NO_VERSION),
        (" ", NO_VERSION),
        ("v1,", NO_DIGEST),
        ("v1,abc", NO_DIGEST),
        (f"{GOOD},", NO_DIGEST),
        (f"{GOOD}\t{GOOD}", NO_DIGEST),
        (GOOD.rstrip("="), NO_DIGEST),
        (GOOD.replace("=", "\xe9"), NO_DIGEST),
        ("v1," + hmac.new(b"", content(), "sha256").hexdigest(), NO_DIGEST),
        (GOOD_A.replace("v1a,", "v1,"), NO_DIGEST),
        (
            GOOD.removeprefix("v1,"),
            Rejected("signature_malformed", "webhook-signature header malformed: an entry without a version"),
        ),
        (
            f"{GOOD} x",
            Rejected("signature_malformed", "webhook-signature header malformed: an entry without a version"),
        ),
        ("", Rejected("signature_missing", "no webhook-signature header")),
        (
            "v1,a " * 17,
            Rejected("signature_malformed", "webhook-signature header malformed: more than 16 signatures"),
        ),
        (
            f"{GOOD} " * 10_000,
            Rejected(
                "signature_malformed", "webhook-signature header malformed: longer than 4096 characters"
            ),
        ),
    ],
)
def test_each_list_of_signatures_has_one_answer(signature: str, answer: Verified | Rejected) -> None:
    """C03, C06: several entries, extra blanks, other versions; a well-formed match or a reason."""
    assert ask(signature) == answer


@pytest.mark.parametrize("length", range(len(GOOD)))
def test_no_truncation_of_a_good_entry_is_believed(length: int) -> None:
    """RUSTSEC-2024-0010: ``v1,`` alone was once believed."""
    assert isinstance(ask(GOOD[:length]), Rejected)


@pytest.mark.parametrize("bit", range(256))
def test_no_flipped_bit_of_a_good_digest_is_believed(bit: int) -> None:
    """Every one of the 256 bits counts."""
    digest = int.from_bytes(base64.b64decode(GOOD.removeprefix("v1,"))) ^ (1 << bit)
    got = ask("v1," + base64.b64encode(digest.to_bytes(32)).decode())
    assert isinstance(got, Rejected)
    assert got.reason == "signature_mismatch"


def test_no_changed_character_of_a_good_entry_is_believed() -> None:
    """Not even the bits of base64 that a lenient decoder throws away."""
    for position in range(len(GOOD)):
        for bit in range(8):
            changed = GOOD[:position] + chr(ord(GOOD[position]) ^ (1 << bit)) + GOOD[position + 1 :]
            assert isinstance(ask(changed), Rejected), changed


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"body": BODY + b"\n"}, "signature_mismatch"),
        ({"body": b""}, "signature_mismatch"),
        ({"event_id": "msg_2"}, "signature_mismatch"),
        ({"event_id": "MSG_1"}, "signature_mismatch"),
        ({"timestamp": str(NOW + 1)}, "signature_mismatch"),
        ({"timestamp": f"0{NOW}"}, "timestamp_malformed"),
        ({"event_id": ""}, "id_missing"),
        ({"event_id": "x" * 4_097}, "id_malformed"),
        ({"event_id": "msg\u0394"}, "id_malformed"),
        ({"timestamp": ""}, "timestamp_missing"),
        ({"timestamp": "soon"}, "timestamp_malformed"),
        ({"timestamp": f"{NOW}.5"}, "timestamp_malformed"),
        ({"timestamp": f"{NOW}_0"}, "timestamp_malformed"),
        ({"timestamp": f"+{NOW}"}, "timestamp_malformed"),
    ],
)
def test_id_time_and_body_are_all_signed(changed: dict[str, str | bytes], reason: str) -> None:
    """A replay under another id, or at another time, is another content."""
    got = ask(GOOD, **changed)  # type: ignore[arg-type]  # one argument changed at a time
    assert isinstance(got, Rejected)
    assert got.reason == reason


def test_the_reasons_name_the_header() -> None:
    """An operator who connects a new sender reads which header is wrong."""
    assert ask(GOOD, timestamp="soon", family="svix") == Rejected(
        "timestamp_malformed", "svix-timestamp header malformed: no unix time"
    )
    assert ask("v1,x", family="svix") == Rejected(
        "signature_malformed", "svix-signature header malformed: no 32 bytes in base64"
    )
    assert verdict(SOURCE, delivery(BODY)) == Rejected("signature_missing", "no webhook-signature header")
    twice = [("webhook-signature", GOOD)] * 2
    assert verdict(SOURCE, delivery(BODY, twice)) == Rejected(
        "signature_malformed", "more than one webhook-signature header"
    )


@pytest.mark.parametrize("event_id", ["a.1", "a.1767225600", "a.1767225600.b", "a.b.0.c", ".1"])
def test_an_id_that_could_be_cut_in_two_places_is_refused(event_id: str) -> None:
    """The specification's warning: "a.1" and "a" with a body that begins "1." sign alike; one signature is one id."""
    for family in ("webhook", "svix"):
        assert ask(v1(content(event_id=event_id)), event_id=event_id, family=family) == Rejected(
            "id_malformed", f"{family}-id header malformed: holds what could pass for the signed time"
        )


@pytest.mark.parametrize("event_id", ["a.b", "a.1b", "1", "a.", "..", "a.1234567890123456", "msg 1", "m\xe9"])
def test_any_other_id_is_signed_like_any_other(event_id: str) -> None:
    """Full stops as such do no harm; latin-1 is what HTTP servers hand on."""
    assert ask(v1(content(event_id=event_id)), event_id=event_id) == Verified("secret-1")


@pytest.mark.parametrize("now", [NOW - 300, NOW, NOW + 300])
def test_up_to_the_tolerance_is_in_time(now: float) -> None:
    """P-CLOCK: both ways, the limit included."""
    assert ask(GOOD, now=now) == Verified("secret-1")


@pytest.mark.parametrize(("now", "said"), [(NOW + 301, "ago"), (NOW - 301, "in the future")])
def test_beyond_the_tolerance_is_refused(now: float, said: str) -> None:
    """P-CLOCK: both ways, and for both kinds of key."""
    for source, signature in ((SOURCE, GOOD), (StandardWebhooks(PUBLIC), GOOD_A)):
        assert ask(signature, source, now=now) == Rejected(
            "timestamp_out_of_tolerance",
            f"signed 301 seconds {said}, the tolerance is 300 seconds; "
            "if it was sent just now, this host's clock is wrong",
        )
    assert ask(GOOD, StandardWebhooks(STANDARD_SECRET, tolerance_seconds=301), now=now) == Verified(
        "secret-1"
    )


def test_a_public_key_believes_ed25519_and_nothing_else() -> None:
    """The key's kind decides, never the header: no HMAC made with the public text is believed."""
    source = StandardWebhooks(PUBLIC)
    assert ask(GOOD_A, source) == Verified("secret-1")
    assert ask(f"v1,AAAA {GOOD_A}", source) == Verified("secret-1")
    confused = v1(secret=PUBLIC.replace("whpk_", "whsec_"))
    assert ask(confused, source) == NO_VERSION
    assert ask(confused.replace("v1,", "v1a,"), source) == Rejected(
        "signature_malformed", "webhook-signature header malformed: no 64 bytes in base64"
    )
    assert ask(GOOD_A.replace("v1a,", "v1,"), source) == NO_VERSION
    stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
    for forged in (v1a(key=stranger), v1a(content(body=b"{}"))):
        got = ask(forged, source)
        assert isinstance(got, Rejected)
        assert got.reason == "signature_mismatch"
    assert ask(f"{v1a(key=stranger)} {GOOD_A}", source) == Verified("secret-1")


@pytest.mark.parametrize("bit", range(0, 512, 7))
def test_no_flipped_bit_of_an_ed25519_signature_is_believed(bit: int) -> None:
    """A sample over the 512 bits."""
    changed = int.from_bytes(base64.b64decode(GOOD_A.removeprefix("v1a,"))) ^ (1 << bit)
    got = ask("v1a," + base64.b64encode(changed.to_bytes(64)).decode(), StandardWebhooks(PUBLIC))
    assert isinstance(got, Rejected)


def test_both_kinds_of_key_may_stand_side_by_side() -> None:
    """A sender that moves from one to the other; the refusal that says most is the one that is told."""
    source = StandardWebhooks([PUBLIC, STANDARD_SECRET, OTHER_SECRET])
    assert ask(GOOD_A, source) == Verified("secret-1")
    assert ask(GOOD, source) == Verified("secret-2")
    assert ask(v1(secret=OTHER_SECRET), source) == Verified("secret-3")
    assert ask("v2,x", source) == NO_VERSION
    assert ask("v1,x", source) == NO_VERSION
    wrong = v1(content(body=b"{}"))
    for order in ([PUBLIC, STANDARD_SECRET], [STANDARD_SECRET, PUBLIC]):
        got = ask(wrong, StandardWebhooks(order))
        assert isinstance(got, Rejected)
        assert got.reason == "signature_mismatch"
        assert got.message.startswith(f"the signature does not match these {len(BODY)} bytes; ")


def test_without_any_usable_secret_nothing_is_believed() -> None:
    """C10: no secret, or one that no check let through, is a refusal and not an exception."""
    asked = delivery(
        BODY, [("webhook-id", ID), ("webhook-timestamp", str(NOW)), ("webhook-signature", f"{GOOD} v1,AAAA")]
    )
    for given in ((), (Secret("fake, no base64"),)):
        got = verdict(SOURCE, asked, given=given)
        assert isinstance(got, Rejected)
        assert got.reason == "signature_mismatch"
    beside = (Secret("fake, no base64"), Secret(STANDARD_SECRET, label="good"))
    assert verdict(SOURCE, asked, given=beside) == Verified("good")


@pytest.mark.parametrize(
    "secret",
    [
        STANDARD_SECRET,
        STANDARD_SECRET.removeprefix("whsec_"),
        "whsec_dGVzdC1zZWNyZXQ",
        "whsec_dGVzdC1zZWNyZXQ=",
        "whsec_" + base64.b64encode(b"8 bytes!").decode(),
        PUBLIC,
        PUBLIC.rstrip("="),
    ],
)
def test_every_form_that_senders_print_is_taken(secret: str) -> None:
    """C09: the prefix may be missing, and so may the padding."""
    assert StandardWebhooks(secret).secrets


@pytest.mark.parametrize(
    ("secret", "flaw"),
    [
        (
            "v1,whsec_dGVzdC1zZWNyZXQtb25l",
            "starts like a signature; leave out everything before whsec_ or whpk_",
        ),
        (
            "whsk_" + base64.b64encode(bytes(64)).decode(),
            "is the sender's private key (whsk_); the receiver takes the public one, whpk_...",
        ),
        ("whsec_!!!!", "is not standard base64 after its prefix; expected whsec_... or whpk_..."),
        (
            '"whsec_dGVzdC1zZWNyZXQtb25l"',
            "is not standard base64 after its prefix; expected whsec_... or whpk_...",
        ),
        ("whsec_-_-_-_-_-_-_-_-_", "is not standard base64 after its prefix; expected whsec_... or whpk_..."),
        (
            "whsec_dGVzdC1zZWNyZXQ==",
            "is not standard base64 after its prefix; expected whsec_... or whpk_...",
        ),
        ("whsec_caf\xe9", "is not standard base64 after its prefix; expected whsec_... or whpk_..."),
        ("whsec_whsec_dGVz", "is not standard base64 after its prefix; expected whsec_... or whpk_..."),
        ("sk_test_fake", "is not standard base64 after its prefix; expected whsec_... or whpk_..."),
        ("whsec_", "holds 0 bytes; fewer than 8 can be guessed (senders should use 24 to 64)"),
        ("whsec_c2V2ZW4gNw==", "holds 7 bytes; fewer than 8 can be guessed (senders should use 24 to 64)"),
        ("whpk_", "holds 0 bytes after whpk_; an Ed25519 public key has 32"),
        (
            "whpk_" + base64.b64encode(bytes(33)).decode(),
            "holds 33 bytes after whpk_; an Ed25519 public key has 32",
        ),
    ],
)
def test_a_secret_in_the_wrong_form_stops_the_start(secret: str, flaw: str) -> None:
    """C09: what is wrong is named, the value is not (P-QUIET); no path leads to an empty or shortened key."""
    with pytest.raises(ConfigurationError) as raised:
        StandardWebhooks([STANDARD_SECRET, secret])
    assert str(raised.value) == f"standard-webhooks: secret-2 {flaw}"


def test_no_secret_or_a_boundless_tolerance_stops_the_start() -> None:
    """C10, and what a reader of 0 as "off" would expect."""
    for given in (None, "", " ", f"{STANDARD_SECRET}\n"):
        with pytest.raises(ConfigurationError, match=r"^StandardWebhooks\(secrets=\.\.\.\)"):
            StandardWebhooks(given)
    with pytest.raises(
        ConfigurationError, match=r"^StandardWebhooks\(tolerance_seconds=\.\.\.\) must be a number"
    ):
        StandardWebhooks(STANDARD_SECRET, tolerance_seconds=0)


def test_a_place_that_cannot_be_read_stops_the_start() -> None:
    """A slip in a path is found before an event is."""
    with pytest.raises(ConfigurationError, match=r"^StandardWebhooks\(event_type=\.\.\.\) must"):
        StandardWebhooks(STANDARD_SECRET, event_type="type")
    with pytest.raises(ConfigurationError, match=r"^StandardWebhooks\(created=\.\.\.\) must"):
        StandardWebhooks(STANDARD_SECRET, created="$")


def test_a_callable_is_asked_later() -> None:
    """A secret manager may answer per delivery."""

    def ask_manager(_: object) -> str:
        return STANDARD_SECRET

    assert StandardWebhooks(ask_manager).secrets is ask_manager


def test_what_the_source_says_of_itself() -> None:
    """Part of every event key; the id is signed, so a second body under one id cannot come from a stranger."""
    assert (SOURCE.provider, SOURCE.redelivers, SOURCE.signed_id) == ("standard-webhooks", True, True)
    assert STANDARD_SECRET not in repr(SOURCE)
    assert SOURCE.answer(delivery(BODY), secrets(SOURCE)) is None


def identify(
    body: bytes, headers: list[tuple[str, str]], source: StandardWebhooks = SOURCE
) -> Identity | Unreadable:
    """Ask for the one reading of *body*."""
    (reading,) = source.identify(delivery(body, headers))
    return reading


@pytest.mark.parametrize("family", ["webhook", "svix"])
def test_the_signed_id_names_the_event(family: str) -> None:
    """The header, not a member ``id``: the header is what is equal on every attempt."""
    headers = [(f"{family}-signature", "v1,"), (f"{family.title()}-Id", "msg_1")]
    source = StandardWebhooks(STANDARD_SECRET)
    assert identify(BODY.replace(b"{", b'{"id":"other",', 1), headers, source) == Identity(
        event_id="msg_1",
        event_type="user.created",
        created_at=datetime(2022, 11, 3, 20, 26, 10, 344_522, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("body", "event_id", "reason"),
    [
        (b"[]", "a", "expected a JSON object"),
        (b'{"type":"t"', "a", "not JSON at character 11"),
        (b'{"kind":"t"}', "a", "no event type at $.type"),
        (b'{"type":"t"}', " ", "no event id at header:webhook-id"),
        (b'{"type":"t"}', "x" * 256, "event id at header:webhook-id is 256 characters, limit 255"),
        (
            b'{"type":"t"}',
            "a\0",
            "event id at header:webhook-id holds a NUL character, which PostgreSQL cannot store",
        ),
    ],
)
def test_an_authentic_body_that_names_no_event_says_why(body: bytes, event_id: str, reason: str) -> None:
    """C05, C22: quarantined with the place that was looked at."""
    assert identify(body, [("webhook-signature", "v1,"), ("webhook-id", event_id)]) == Unreadable(
        reason=reason
    )


def test_a_missing_id_header_is_a_reading_not_an_error() -> None:
    """P-CALM: identify is total even where verify would have refused."""
    source = StandardWebhooks(STANDARD_SECRET)
    assert identify(b'{"type":"t"}', [], source) == Unreadable(reason="no event id at header:webhook-id")
    assert identify(b'{"type":"t"}', [("svix-signature", "x")], source) == Unreadable(
        reason="no event id at header:svix-id"
    )


def test_type_and_time_may_stand_elsewhere() -> None:
    """GitLab names the type in a header, OpenAI the time in ``created_at``."""
    source = StandardWebhooks(STANDARD_SECRET, event_type="header:X-Gitlab-Event", created="$.created_at")
    headers = [("webhook-signature", ""), ("webhook-id", "m"), ("X-Gitlab-Event", "Push Hook")]
    assert identify(b'{"created_at":0,"type":"no"}', headers, source) == Identity(
        event_id="m", event_type="Push Hook", created_at=datetime(1970, 1, 1, tzinfo=UTC)
    )
    nested = StandardWebhooks(STANDARD_SECRET, event_type="$.event.name")
    assert identify(b'{"event":{"name":"n"}}', headers[:2], nested) == Identity(event_id="m", event_type="n")
    assert identify(b"{}", headers[:2], source) == Unreadable(reason="no event type at header:x-gitlab-event")


def test_every_edge_file_is_believed_by_its_bytes_and_read_without_raising() -> None:
    """P-CALM: signed, each is believed; where there is an event in it, the header names it."""
    named = 0
    for path in payload_files("edge"):
        body = path.read_bytes()
        assert ask(v1(content(body)), body=body) == Verified("secret-1"), path.name
        got = identify(body, [("webhook-signature", "v1,"), ("webhook-id", path.name)])
        if isinstance(got, Identity):
            named += 1
            assert got.event_id == path.name
    assert named == 12
