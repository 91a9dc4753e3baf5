"""The bytes of an event are JSON or they are not; the answer depends on nothing but the bytes."""

from __future__ import annotations

import json
import operator
import sys
import time
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

import pytest

from tests.deliveries import PAYLOADS
from webhook_inbox.errors import PayloadError
from webhook_inbox.model.payload import DEPTH_MAX, check_text, nested_deeper_than, parse_payload


@pytest.fixture
def fewest_digits() -> Iterator[None]:
    """Set the interpreter's limit for the digits of an integer to the lowest there is."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(sys.int_info.str_digits_check_threshold)
    yield
    sys.set_int_max_str_digits(before)


def nested(depth: int) -> bytes:
    """Give arrays and objects in turn, *depth* deep."""
    pairs = [(b"[", b"]") if level % 2 else (b'{"a":', b"}") for level in range(depth)]
    return b"".join([opening for opening, _ in pairs] + [b"1"] + [closing for _, closing in reversed(pairs)])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON at character 0"),
        (b" ", "not JSON at character 1"),
        (b'{"a":1', "not JSON at character 6"),
        (b"{'a':1}", "not JSON at character 1"),
        (b'{"a":1} x', "not JSON at character 8"),
        ('{"é":x}'.encode(), "not JSON at character 5"),
        (b'{"a":NaN}', "not JSON: NaN is no number in JSON"),
        (b'{"a":-Infinity}', "not JSON: -Infinity is no number in JSON"),
        (b'{"a":"\xff\xfe"}', "not UTF-8 at byte 6"),
        (
            b'\xef\xbb\xbf{"a":1}',
            "starts with a byte order mark; JSON is sent without one (RFC 8259, section 8.1)",
        ),
        ('{"a":1}'.encode("utf-16"), "not UTF-8 at byte 0"),
        ('{"a":1}'.encode("utf-16-le"), "not JSON at character 1"),
        ('{"a":1}'.encode("utf-32-be"), "not JSON at character 0"),
        (nested(DEPTH_MAX + 1), "nested deeper than 200"),
        (b"[" * 100_000, "nested deeper than 200"),
    ],
)
def test_what_is_no_json_is_refused_with_the_reason(body: bytes, reason: str) -> None:
    """C05, C18, C21: each kind of unreadable body has one answer, which never quotes it (P-QUIET)."""
    with pytest.raises(PayloadError) as raised:
        parse_payload(body)
    assert str(raised.value) == reason
    assert raised.value.code == "payload"


def test_depth_up_to_the_limit_is_read() -> None:
    """C18: the limit is ours, not the interpreter's."""
    value = parse_payload(nested(DEPTH_MAX))
    for level in range(DEPTH_MAX):
        value = value[0] if level % 2 else value["a"]
    assert value == 1


@pytest.mark.parametrize(
    ("body", "limit", "deeper"),
    [
        (b"", 0, False),
        (b"[]", 0, True),
        (b"[]", 1, False),
        (b"{}", 0, True),
        (b"[{}]", 1, True),
        (b"[{}]", 2, False),
        (b"[[],[],[],{}]", 2, False),
        (b"[[],[[]]]", 2, True),
        (b"{}{}{}", 1, False),
        (b'["[[[[{{{{"]', 1, False),
        (b'["\\"[[[["]', 1, False),
        (b'["\\\\",[[]]]', 2, True),
        (b'["\n[[["]', 1, False),
    ],
)
def test_only_brackets_outside_strings_nest(body: bytes, limit: int, deeper: bool) -> None:
    """A text full of brackets is not deep, and siblings do not add up."""
    assert nested_deeper_than(body, limit) is deeper


@pytest.mark.timeout(10)  # a search that begins anew at every quote would take hours
@pytest.mark.parametrize(
    ("hostile", "deeper"),
    [
        (b'"' + b"\\" * 1_000_000, False),
        (b'"' + b'\\"' * 500_000, False),
        (b'"' * 1_000_001, False),
        (b'"' * 1_000_000, True),
        (b"[]" * 500_000, True),
        (b'"' + b"[" * 1_000_000, False),
    ],
)
def test_looking_for_depth_takes_no_time_that_a_sender_can_stretch(hostile: bytes, deeper: bool) -> None:
    """P-CALM: escapes, quotes and brackets without end are one pass; a text that never ends holds no brackets."""
    assert nested_deeper_than(b"[" * 150 + hostile + b"[" * 60, DEPTH_MAX) is deeper


def test_many_names_take_no_time_that_a_sender_can_stretch() -> None:
    """P-CALM: 100,000 of them, as a table without a key of its own would put into one place, are read at once."""
    names = [str(number << 20) for number in range(100_000)]
    body = json.dumps(dict.fromkeys(names, 0)).encode()
    began = time.perf_counter()
    assert len(parse_payload(body)) == len(names)
    assert time.perf_counter() - began < 2.0


def test_text_is_given_back_as_it_is() -> None:
    """``check_text`` builds nothing and changes nothing; what it does not look at, the parser does."""
    assert check_text('{"a":"é😊"'.encode()) == '{"a":"é😊"'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12345678901234567890", 12345678901234567890),
        ("-7", -7),
        ("9" * 640, int("9" * 640)),
        ("9" * 641, Decimal("9" * 641)),
        ("1" * 5_000, Decimal("1" * 5_000)),
        ("0.1", 0.1),
        ("10.00", 10.0),
        ("-0.0", -0.0),
        ("1e308", 1e308),
        ("0.12345678901234", 0.12345678901234),
        ("0.30000000000000004", 0.30000000000000004),
        ("0.1000000000000000055511151231257827", Decimal("0.1000000000000000055511151231257827")),
        ("12345678901234567890.5", Decimal("12345678901234567890.5")),
        ("1e400", Decimal("1e400")),
        ("-1e400", Decimal("-1e400")),
        ("1e-400", Decimal("1e-400")),
        ("1.2345e-320", Decimal("1.2345e-320")),
        ("5e-324", 5e-324),
        ("1e131072", Decimal("1e131072")),
        ("2.2250738585072014e-308", 2.2250738585072014e-308),
    ],
)
@pytest.mark.usefixtures("fewest_digits")
def test_no_number_is_changed(text: str, value: float | Decimal) -> None:
    """C21: what an int or a float would change comes back as Decimal, whatever the interpreter's own limits."""
    read = parse_payload(f"[{text}]".encode())[0]
    assert read == value
    assert type(read) is type(value)
    assert repr(read) == repr(value)


@pytest.mark.parametrize(
    "text", ["1e" + "9" * 30, "-1e" + "9" * 30, "1e-" + "9" * 30, "1E1000000000000000000"]
)
def test_a_number_that_nothing_can_hold_is_read_and_fails_where_it_is_used(text: str) -> None:
    """C21: the body is JSON, so it is an event; only a handler that computes with the number hears of it."""
    number = parse_payload(f'{{"a":1,"x":{text}}}'.encode())["x"]
    assert number.is_snan()
    for use in (int, float):
        with pytest.raises(ValueError, match="NaN"):
            use(number)
    for operate in (operator.add, operator.eq, operator.lt):
        with pytest.raises(InvalidOperation):
            operate(number, 1)


def test_of_a_repeated_name_the_last_one_counts() -> None:
    """The rule of Python's json, of msgspec and of PostgreSQL's jsonb."""
    assert parse_payload(b'{"a":1,"a":2}') == {"a": 2}


def test_characters_are_read_as_they_were_sent() -> None:
    """C02: emoji, accents, separators, NUL and half a surrogate pair; nothing is replaced."""
    assert parse_payload((PAYLOADS / "edge" / "lone-surrogate.json").read_bytes())["text"] == "\ud83d"
    assert parse_payload((PAYLOADS / "edge" / "nul-in-string.json").read_bytes())["text"] == "a\0b"
    assert parse_payload('"Café 😊 mânecă\u2028"'.encode()) == "Café 😊 mânecă\u2028"


def test_where_the_stack_is_almost_used_up_the_answer_is_still_an_answer() -> None:
    """P-CALM: a caller deep in its own recursion gets a PayloadError, no RecursionError."""

    def dive(levels: int) -> str:
        if levels:
            return dive(levels - 1)
        try:
            parse_payload(nested(DEPTH_MAX))
        except PayloadError as error:
            return str(error)
        return "read"

    frame, used = sys._getframe(), 0
    while frame.f_back:
        frame, used = frame.f_back, used + 1
    assert dive(sys.getrecursionlimit() - used - 60) in {"read", "nested deeper than 200"}
