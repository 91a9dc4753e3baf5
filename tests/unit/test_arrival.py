"""An event on its way in: the digest of its bytes, headers that jsonb takes, and the event that handlers get."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest

from tests.fixtures.arrivals import arrival, key
from webhook_inbox.model.arrival import storable
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.states import Origin

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_what_cannot_be_identified_is_kept_under_its_digest() -> None:
    """The same bytes have the same id, whatever else came with them; account and endpoint stay."""
    given = arrival(key=key("", account="a"), body=b"odd")
    digest = hashlib.sha256(b"odd").digest()
    assert given.digest == digest
    kept = given.under_digest()
    assert kept.key == key(f"sha256:{digest.hex()}", account="a")
    assert (kept.body, kept.headers, given.key.event_id) == (b"odd", given.headers, "")


@pytest.mark.parametrize(
    ("pairs", "kept"),
    [
        ([], []),
        ([("X-A", "1"), ("x-b", "2"), ("X-A", "3")], [["x-a", "1"], ["x-b", "2"], ["x-a", "3"]]),
        ([("x", "a\x00b")], [["x", "a\N{REPLACEMENT CHARACTER}b"]]),
        ([("x\x00", "é\N{SNOWMAN}")], [["x\N{REPLACEMENT CHARACTER}", "é\N{SNOWMAN}"]]),
        ([("x", "\ud83d!")], [["x", "?!"]]),
        ([("x", '"\\u0000')], [["x", '"\\u0000']]),
    ],
)
def test_headers_are_kept_in_order_as_jsonb_takes_them(
    pairs: list[tuple[str, str]], kept: list[list[str]]
) -> None:
    """Repeated ones too; what PostgreSQL cannot store is replaced: they are evidence, not identity."""
    text = arrival(headers=Headers(pairs)).headers_json
    assert json.loads(text) == kept
    text.encode()


def test_headers_are_written_in_their_own_characters() -> None:
    """No escapes, which a database in another encoding refuses."""
    assert arrival(headers=Headers([("x", "é")])).headers_json == '[["x", "é"]]'


@pytest.mark.parametrize(
    ("given", "kept"),
    [("a\x00b", "a\N{REPLACEMENT CHARACTER}b"), ("\ud83d", "?"), ("é\N{SNOWMAN}", "é\N{SNOWMAN}"), ("", "")],
)
def test_a_text_is_made_storable(given: str, kept: str) -> None:
    """Only what no text of PostgreSQL's can hold is replaced."""
    assert storable(given) == kept


def test_the_event_that_handlers_get_is_what_came() -> None:
    """Each field from its place."""
    given = arrival(
        key=key("evt_1", account="a"),
        created_at=NOW,
        origin=Origin.RECONCILE,
        body=b'{"n":1}',
        event_type="t",
    )
    event = given.event(received_at=NOW.replace(day=3), attempt=4)
    assert event.key == given.key
    assert (event.type, event.body, event.headers, event.payload) == (
        "t",
        b'{"n":1}',
        given.headers,
        {"n": 1},
    )
    assert (event.created_at, event.received_at, event.attempt, event.origin) == (
        NOW,
        NOW.replace(day=3),
        4,
        Origin.RECONCILE,
    )
