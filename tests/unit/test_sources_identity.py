"""What counts as an id, a type, an account and a time is one rule for every source."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from webhook_inbox.sources import identity
from webhook_inbox.sources.identity import Places, Reader, name_event, text_of, time_of
from webhook_inbox.sources.source import Identity, Unreadable

READER = Reader(("id",), ("data", "type"), ("data", "at", "s"))


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b'{"id":"a","data":{"type":"t","at":{"s":1}}}', ("a", "t", 1)),
        (b' {"x":[1,2,{}],"id":null,"data":{"type":2.5}}\r\n', (None, 2.5, None)),
        (b"{}", (None, None, None)),
        (b'{"data":[]}', (None, None, None)),
        (b'{"data":{"at":"text"}}', (None, None, None)),
        (b'{"data":"text","id":true}', (True, None, None)),
        (b'{"id":"a","id":"b","data":{"type":1},"data":{}}', ("b", None, None)),
        (rb'{"\u0069d":"a"}', ("a", None, None)),
        (b'{"id":123456789012345678901234567890}', (123456789012345678901234567890, None, None)),
        (b'{"id":"a","x":123456789012345678901234567890}', ("a", None, None)),
        (rb'{"id":"a","x":"\ud83d"}', ("a", None, None)),
        (rb'{"id":"a\ud83d"}', ("a\ud83d", None, None)),
        (b'{"id":"a","x":1e400}', ("a", None, None)),
        (b'{"id":1e400}', (Decimal("1e400"), None, None)),
        (b'{"id":"a","x":1e9999999999999999999}', ("a", None, None)),
    ],
)
def test_values_are_read_from_their_places(body: bytes, values: tuple[object, ...]) -> None:
    """Absent and null are the same; of a repeated name the last counts; what msgspec cannot hold is read too."""
    assert READER.read(body) == values


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "expected a JSON object"),
        (b'[{"id":"a"}]', "expected a JSON object"),
        (b"null", "expected a JSON object"),
        (b'"text"', "expected a JSON object"),
        (b"17", "expected a JSON object"),
        (b"", "not JSON at character 0"),
        (b'{"id":"a"', "not JSON at character 9"),
        (b'{"id":"a"} {}', "not JSON at character 11"),
        (b'{"id":"a","x":NaN}', "not JSON: NaN is no number in JSON"),
        (b'{"id":"a","x":"\xff"}', "not UTF-8 at byte 15"),
        (b'{"id":"a","\xff":1}', "not UTF-8 at byte 11"),
        (b'{"id":"a","x":"\n"}', "not JSON at character 15"),
        (rb'{"id":"a","x":"\x"}', "not JSON at character 15"),
        (b"\xff\xfe{\0}\0", "not UTF-8 at byte 0"),
        (
            b"\xef\xbb\xbf{}",
            "starts with a byte order mark; JSON is sent without one (RFC 8259, section 8.1)",
        ),
        (b'{"id":"a","x":' + b"[" * 200 + b"]" * 200 + b"}", "nested deeper than 200"),
        (b'{"id":' + b"[" * 500, "nested deeper than 200"),
    ],
)
def test_what_a_handler_could_not_read_is_unreadable_at_once(body: bytes, reason: str) -> None:
    """C05, C18, C21: receiver and handler agree, also about what stands in no place that is read."""
    assert READER.read(body) == Unreadable(reason=reason)


def test_depth_up_to_the_limit_is_read() -> None:
    """C18: 200 levels, the object itself included."""
    body = b'{"id":"a","x":' + b"[" * 199 + b"]" * 199 + b"}"
    assert READER.read(body) == ("a", None, None)


def test_where_the_stack_is_almost_used_up_there_is_still_a_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-CALM: msgspec's RecursionError is as good a reason to read carefully as any."""

    class Exhausted:
        def decode(self, body: bytes) -> object:
            raise RecursionError(len(body))

    reader = Reader(("id",))
    monkeypatch.setattr(reader, "_decoder", Exhausted())
    assert reader.read(b'{"id":"a"}') == ("a",)


def test_a_plain_body_is_read_without_building_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver's hot path: the careful reading is only for what msgspec does not take."""
    fast = Reader(("id",), ("data", "type"))

    def build(_: bytes) -> object:
        raise AssertionError("built")

    monkeypatch.setattr(identity, "parse_payload", build)
    assert fast.read(b'{"id":"a","x":[1e400,{}],"data":{"type":2}}') == ("a", 2)
    with pytest.raises(AssertionError, match="built"):
        fast.read(rb'{"id":"a","x":"\ud83d"}')


def test_a_reader_of_nothing_still_wants_an_object() -> None:
    """A source whose ids all stand in headers accepts no other body than one whose ids do not."""
    assert Reader().read(b'{"a":1}') == ()
    assert Reader().read(b"[]") == Unreadable(reason="expected a JSON object")


def text(value: object) -> str | Unreadable:
    """Read *value* as an event id at ``$.id``."""
    return text_of(value, what="event id", where="$.id")


@pytest.mark.parametrize(
    ("value", "id_"),
    [
        ("evt_1", "evt_1"),
        (" evt_1 ", " evt_1 "),
        ("EVT_1", "EVT_1"),
        ("é😊", "é😊"),
        ("a\nb\x1b", "a\nb\x1b"),
        ("x" * 255, "x" * 255),
        ("😊" * 255, "😊" * 255),
        (123, "123"),
        (0, "0"),
        (-5, "-5"),
        (123456789012345678901234567890, "123456789012345678901234567890"),
    ],
)
def test_a_usable_id_is_kept_to_the_letter(value: object, id_: str) -> None:
    """C22: white space and letter case are significant; an integer is its decimal digits."""
    assert text(value) == id_


@pytest.mark.parametrize(
    "value", [None, "", " ", "\t\n\u3000", 123.0, 1.5, True, False, Decimal("1e400"), {"a": 1}, [], ["evt_1"]]
)
def test_what_names_nothing_is_no_id(value: object) -> None:
    """C22: null, empty, blank, a fraction, a truth, an object: never stored, never deduplicated against each other."""
    assert text(value) == Unreadable(reason="no event id at $.id")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x" * 256, "event id at $.id is 256 characters, limit 255"),
        ("x" * 2_900, "event id at $.id is 2900 characters, limit 255"),
        (10**255, "event id at $.id is 256 characters, limit 255"),
        ("a\0b", "event id at $.id holds a NUL character, which PostgreSQL cannot store"),
        ("a\ud83d", "event id at $.id holds half a surrogate pair, which is no character"),
        ("\udfff", "event id at $.id holds half a surrogate pair, which is no character"),
        ("é\ud800", "event id at $.id holds half a surrogate pair, which is no character"),
    ],
)
def test_what_cannot_be_a_key_says_why(value: object, reason: str) -> None:
    """C22: the unique index and the database's text have limits; an id beyond them is quarantined, not an error."""
    assert text(value) == Unreadable(reason=reason)


def test_characters_beside_the_surrogates_are_characters() -> None:
    """The range that is refused is exact."""
    assert text("\ud7ff\ue000") == "\ud7ff\ue000"


PLACES = Places(event_id="$.i", event_type="$.t", account="$.a")


def test_a_whole_identity_is_named() -> None:
    """Every part comes from its own argument."""
    assert name_event(
        PLACES,
        event_id=7,
        event_type="invoice.paid",
        account="acct_1",
        environment="live",
        created=0,
        ignore="not ours",
    ) == Identity(
        event_id="7",
        event_type="invoice.paid",
        account="acct_1",
        environment="live",
        created_at=datetime(1970, 1, 1, tzinfo=UTC),
        ignore="not ours",
    )


@pytest.mark.parametrize("account", [None, ""])
def test_what_is_not_said_is_empty(account: object) -> None:
    """No account is the empty account."""
    assert name_event(PLACES, event_id="a", event_type="b", account=account) == Identity(
        event_id="a", event_type="b"
    )


@pytest.mark.parametrize(
    ("event_id", "event_type", "account", "reason"),
    [
        (None, None, None, "no event id at $.i"),
        ("a", None, None, "no event type at $.t"),
        ("a", " ", None, "no event type at $.t"),
        ("a", "x" * 256, None, "event type at $.t is 256 characters, limit 255"),
        ("a", "b", " ", "no account at $.a"),
        ("a", "b", 0.5, "no account at $.a"),
        ("a", "b", False, "no account at $.a"),
        ("a", "b", "x" * 256, "account at $.a is 256 characters, limit 255"),
    ],
)
def test_the_first_unusable_part_is_named(
    event_id: object, event_type: object, account: object, reason: str
) -> None:
    """An operator reads which part it was and where it was looked for."""
    got = name_event(PLACES, event_id=event_id, event_type=event_type, account=account)
    assert got == Unreadable(reason=reason)


def test_places_are_by_default_where_most_providers_put_them() -> None:
    """``$.id``, ``$.type`` and ``$.account``."""
    assert Places() == Places(event_id="$.id", event_type="$.type", account="$.account")


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1_767_225_600, datetime(2026, 1, 1, tzinfo=UTC)),
        (1_767_225_600.5, datetime(2026, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)),
        (32_503_679_999, datetime(2999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        (1_767_225_600_123, datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)),
        (32_503_680_000, datetime(1971, 1, 12, 4, 48, tzinfo=UTC)),
        (32_503_679_999_999, datetime(2999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
        (Decimal("1767225600.00000000000000001"), datetime(2026, 1, 1, tzinfo=UTC)),
        ("2024-11-26T17:46:22.134Z", datetime(2024, 11, 26, 17, 46, 22, 134_000, tzinfo=UTC)),
        ("2024-11-26T17:46:22+02:00", datetime(2024, 11, 26, 15, 46, 22, tzinfo=UTC)),
        ("2024-11-26T17:46:22", datetime(2024, 11, 26, 17, 46, 22, tzinfo=UTC)),
        ("2024-11-26 17:46:22.1234567Z", datetime(2024, 11, 26, 17, 46, 22, 123_456, tzinfo=UTC)),
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        ("2999-12-31T23:59:59.999999Z", datetime(2999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("2024-11-26T17:46:22.134" + "0" * 40 + "Z", datetime(2024, 11, 26, 17, 46, 22, 134_000, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_from_numbers_and_texts(value: object, moment: datetime) -> None:
    """C35: whole seconds, milliseconds and ISO 8601 all become one aware instant."""
    got = time_of(value)
    assert got == moment
    assert got.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        -1,
        32_503_680_000_000,
        10**18,
        1e18,
        float("nan"),
        float("inf"),
        10**400,
        Decimal("1e400"),
        Decimal("sNaN"),
        Decimal(-1),
        "",
        "yesterday",
        "1767225600",
        "1969-12-31T23:59:59Z",
        "3000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2024-13-01",
        "2024-11-26T17:46:22.134" + "0" * 41 + "Z",
        "\ud83d",
        {"s": 1},
        [2024],
    ],
)
def test_an_absurd_time_is_no_time(value: object) -> None:
    """C35: it never breaks storage or listing; the event itself is not refused for it."""
    assert time_of(value) is None


def test_a_time_without_an_offset_is_utc_wherever_the_server_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's time zone decides nothing."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert time_of("2024-05-01T12:00:00") == datetime(2024, 5, 1, 12, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_instant_is_the_same_whatever_its_offset() -> None:
    """Another offset is another spelling."""
    one = datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=-9, minutes=-30)))
    assert time_of(one.isoformat()) == one
