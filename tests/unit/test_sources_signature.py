"""The pieces that every verifier is made of are strict, total and silent."""

from __future__ import annotations

import base64
import hmac

import pytest

from webhook_inbox.model.headers import Headers
from webhook_inbox.sources.signature import (
    HEADER_CHARS_MAX,
    SIGNATURES_MAX,
    any_equal,
    digests,
    lower_hex,
    mismatch,
    only_header,
    outside_tolerance,
    strict_base64,
    unix_time,
    upper_hex,
)
from webhook_inbox.sources.source import Rejected


def test_the_one_value_of_a_header_is_given_whatever_its_letter_case() -> None:
    """A signature header is found as HTTP says, and given as it was sent."""
    assert only_header(Headers([("X-Sig", " a ")]), "x-sig") == " a "
    assert only_header(Headers([("x-sig", "\xe9")]), "x-sig") == "\xe9"
    assert only_header(Headers([("x-sig", "a" * HEADER_CHARS_MAX)]), "x-sig") == "a" * 4_096


@pytest.mark.parametrize(
    ("pairs", "reason", "message"),
    [
        ([], "signature_missing", "no x-sig header"),
        ([("x-sig", "")], "signature_missing", "no x-sig header"),
        ([("x-sig", "a"), ("X-Sig", "b")], "signature_malformed", "more than one x-sig header"),
        ([("x-sig", ""), ("x-sig", "b")], "signature_malformed", "more than one x-sig header"),
        (
            [("x-sig", "a" * 4_097)],
            "signature_malformed",
            "x-sig header malformed: longer than 4096 characters",
        ),
        (
            [("x-sig", "a\u0100")],
            "signature_malformed",
            "x-sig header malformed: no header holds such characters",
        ),
    ],
)
def test_none_several_or_an_absurd_one_is_refused(
    pairs: list[tuple[str, str]], reason: str, message: str
) -> None:
    """C03: the answer is short and constant, and quotes nothing."""
    assert only_header(Headers(pairs), "x-sig") == Rejected(reason, message)


def test_the_reason_says_which_part_it_was() -> None:
    """The same for the headers that carry the id and the time."""
    assert only_header(Headers(), "x-id", part="id") == Rejected("id_missing", "no x-id header")
    twice = Headers([("x-ts", "1"), ("x-ts", "1")])
    assert only_header(twice, "x-ts", part="timestamp") == Rejected(
        "timestamp_malformed", "more than one x-ts header"
    )
    for value in ("a" * 5_000, "\u0100"):
        refused = only_header(Headers([("x-id", value)]), "x-id", part="id")
        assert isinstance(refused, Rejected)
        assert refused.reason == "id_malformed"


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("1767225600", 1_767_225_600), ("9" * 15, 10**15 - 1)]
)
def test_whole_ascii_digits_are_a_time(text: str, number: int) -> None:
    """One to fifteen of them."""
    assert unix_time(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        "-1",
        "+1",
        "1_700",
        "\u0661\u0667\u0660\u0660",
        "\uff11\uff17",
        "²",
        "1.5",
        "1e9",
        "0x1",
        "00",
        "01767225600",
        "9" * 16,
        "1767225600\0",
    ],
)
def test_what_int_would_also_take_is_no_time(text: str) -> None:
    """C03: no sign, no underscore, no blank, no digits of other scripts, no length without bound."""
    assert unix_time(text) is None


@pytest.mark.parametrize("age", [-300, -299.5, 0, 0.25, 300])
def test_within_the_tolerance_is_in_time(age: float) -> None:
    """P-CLOCK: exactly at the limit, on either side, still counts."""
    assert outside_tolerance(1_000_000, 1_000_000 + age, 300) is None


@pytest.mark.parametrize(
    ("age", "text"),
    [
        (300.4, "signed 300 seconds ago"),
        (301, "signed 301 seconds ago"),
        (-301, "signed 301 seconds in the future"),
        (86_400, "signed 86400 seconds ago"),
    ],
)
def test_outside_the_tolerance_either_way_is_refused(age: float, text: str) -> None:
    """P-CLOCK: too old and too new alike; the operator learns how far, and to look at the clock."""
    assert outside_tolerance(1_000_000, 1_000_000 + age, 300) == Rejected(
        "timestamp_out_of_tolerance",
        f"{text}, the tolerance is 300 seconds; if it was sent just now, this host's clock is wrong",
    )


def test_a_tolerance_of_a_fraction_is_shown_as_it_is() -> None:
    """Two and a half seconds are not two, and three quarters of one are in the past."""
    refused = outside_tolerance(0, 3, 2.5)
    assert refused
    assert "the tolerance is 2.5 seconds;" in refused.message
    close = outside_tolerance(0, 0.75, 0.5)
    assert close
    assert close.message.startswith("signed 1 seconds ago, the tolerance is 0.5 seconds;")


def test_a_clock_that_is_no_number_believes_nothing() -> None:
    """NaN compares with nothing, so it must not pass as in time."""
    assert outside_tolerance(1, float("nan"), 300) is not None


DIGEST = bytes(range(170, 202))


def test_each_digest_has_exactly_one_spelling() -> None:
    """Full length, one letter case, canonical base64."""
    assert lower_hex(DIGEST.hex(), 32) == DIGEST
    assert upper_hex(DIGEST.hex().upper(), 32) == DIGEST
    assert strict_base64(base64.b64encode(DIGEST).decode(), 32) == DIGEST
    assert strict_base64(base64.b64encode(DIGEST[:20]).decode(), 20) == DIGEST[:20]


@pytest.mark.parametrize(
    "text",
    [
        "",
        DIGEST.hex()[:-1],
        DIGEST.hex()[:-2],
        DIGEST.hex() + "00",
        DIGEST.hex().upper(),
        DIGEST.hex()[:-1] + "g",
        DIGEST.hex()[:-1] + "\xe9",
        DIGEST.hex()[:-1] + "\n",
        " " + DIGEST.hex()[1:],
        DIGEST.hex()[:-2] + "\u0661\u0661",
    ],
)
def test_any_other_hex_is_none(text: str) -> None:
    """C03: short, long, of the other case, not ASCII: no digest, and no exception."""
    assert lower_hex(text, 32) is None
    if text != DIGEST.hex().upper():
        assert upper_hex(text.upper(), 32) is None
    assert upper_hex(DIGEST.hex(), 32) is None


GOOD = base64.b64encode(DIGEST).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=",
        "A",
        "A===",
        GOOD[:-1],
        GOOD[:-2] + "==",
        GOOD + "=",
        GOOD + "AAAA",
        f" {GOOD}",
        f"{GOOD}\n",
        GOOD.replace("=", "\xe9"),
        GOOD[:4] + " " + GOOD[4:],
        base64.b64encode(DIGEST[:31]).decode(),
        base64.b64encode(DIGEST + b"\0").decode(),
        DIGEST.hex(),
        GOOD.swapcase(),
    ],
)
def test_any_other_base64_is_not_the_digest(text: str) -> None:
    """No padding, more padding, blanks, other lengths: None; other letters: other bytes."""
    assert strict_base64(text, 32) != DIGEST
    if text != GOOD.swapcase():
        assert strict_base64(text, 32) is None


def test_unused_bits_of_the_last_character_must_be_zero() -> None:
    """Otherwise one digest would have four spellings, and a flipped bit in the header would go unnoticed."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = alphabet.index(GOOD[-2])
    spellings = [GOOD[:-2] + alphabet[last ^ bits] + "=" for bits in range(4)]
    assert {base64.b64decode(text) for text in spellings} == {DIGEST}
    assert [strict_base64(text, 32) for text in spellings] == [DIGEST, None, None, None]


def test_every_well_formed_digest_is_a_candidate() -> None:
    """C06: one bad entry does not spoil the good one beside it."""
    good = DIGEST.hex()
    assert digests(["", good, "zz", good], encoding="hex", size=32, header="x-sig") == [DIGEST, DIGEST]
    assert digests([good.upper()], encoding="hex-upper", size=32, header="x-sig") == [DIGEST]
    assert digests([GOOD], encoding="base64", size=32, header="x-sig") == [DIGEST]
    assert digests(["bad"] * 15 + [good], encoding="hex", size=32, header="x-sig") == [DIGEST]


@pytest.mark.parametrize(
    ("texts", "reason", "message"),
    [
        ([], "signature_version", "no supported signature version in the x-sig header"),
        (["", "abc"], "signature_malformed", "x-sig header malformed: no 32 bytes in lower-case hex"),
        (
            [DIGEST.hex()] * 17,
            "signature_malformed",
            "x-sig header malformed: more than 16 signatures",
        ),
    ],
)
def test_no_digest_at_all_is_refused(texts: list[str], reason: str, message: str) -> None:
    """An absent version, no digest in it, or more than any sender makes, are three findings."""
    assert SIGNATURES_MAX == 16
    assert digests(texts, encoding="hex", size=32, header="x-sig") == Rejected(reason, message)


def test_the_refusal_names_the_spelling_that_is_wanted() -> None:
    """Hex in place of base64 is found at a glance."""
    for encoding, spelled in (("hex-upper", "upper-case hex"), ("base64", "base64")):
        refused = digests(["zz"], encoding=encoding, size=20, header="x-sig")  # type: ignore[arg-type]  # from a loop
        assert refused == Rejected("signature_malformed", f"x-sig header malformed: no 20 bytes in {spelled}")


def test_one_match_among_several_is_enough_and_none_is_not() -> None:
    """C06: the comparison is over whole digests."""
    other = bytes(32)
    assert any_equal(DIGEST, [other, DIGEST])
    assert not any_equal(DIGEST, [other, DIGEST[:31], DIGEST + b"\0", b""])
    assert not any_equal(DIGEST, [])


def test_comparing_takes_the_same_time_wherever_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only ``hmac.compare_digest``, only on bytes."""
    compared: list[tuple[object, object]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert not any_equal(DIGEST, [b"one", DIGEST])
    assert compared == [(DIGEST, b"one"), (DIGEST, DIGEST)]


def test_a_mismatch_says_what_probably_happened_and_no_digest() -> None:
    """C01, P-QUIET: the length tells a changed body apart; the digest would tell a stranger how to forge."""
    assert mismatch(b"x" * 57) == Rejected(
        "signature_mismatch",
        "the signature does not match these 57 bytes; either a proxy or middleware changed the body, "
        "or it was signed with another secret",
        400,
    )
