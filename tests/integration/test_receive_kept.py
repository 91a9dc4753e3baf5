"""What is kept of a delivery: quarantine, evidence, digests, types without a handler, and bytes that no jsonb holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.fixtures.receiving import Bench, books, plain_hmac, stripe_event
from webhook_inbox import GiveUp, Outcome, State

Steps: TypeAlias = Generator[Any, Any, None]
EDGE = Path(__file__).parents[2] / ".." / "shared" / "payloads" / "edge"


#: One way in is enough where only what is kept matters; under an odd name it shows that as well.
one_way = pytest.mark.parametrize("open_bench", ["loop"], indirect=True)


UNUSABLE = {
    "empty": b"",
    "no JSON": b"hello",
    "null": b"null",
    "an array": b"[]",
    "a text": b'"evt_1"',
    "no members": b"{}",
    "no id": b'{"type":"x"}',
    "empty id": b'{"id":"","type":"x"}',
    "null id": b'{"id":null,"type":"x"}',
    "an object for an id": b'{"id":{"a":1},"type":"x"}',
    "long id": b'{"id":"%s","type":"x"}' % (b"x" * 256),
    "NUL in the id": b'{"id":"a\\u0000b","type":"x"}',
    "half a pair in the id": b'{"id":"\\ud83d","type":"x"}',
    "no type": b'{"id":"evt_1"}',
    "long type": b'{"id":"evt_1","type":"%s"}' % (b"x" * 256),
    "not UTF-8": b'{"id":"evt_1","type":"x","n":"\xff\xfe"}',
    "UTF-16": '{"id":"evt_1","type":"x"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"id":"evt_1","type":"x"}',
    "NaN": b'{"id":"evt_1","type":"x","n":NaN}',
    "deep": b'{"id":"evt_1","type":"x","n":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "cut short": b'{"id":"evt_1","type":"x"',
}


@one_way
@pytest.mark.parametrize("body", UNUSABLE.values(), ids=UNUSABLE)
def test_an_authentic_body_that_cannot_be_used_is_quarantined_once(bench: Bench, body: bytes) -> None:
    """Design 5.1: kept under its digest, with the exact bytes and the reason; 200, and no handler; P-STATE."""
    bench.on(bench.endpoint(), do=books)
    first, again = bench.deliver(body), bench.deliver(body)
    assert (first.status, first.outcome, first.results[0].state) == (
        200,
        Outcome.QUARANTINED,
        State.QUARANTINED,
    )
    assert (again.status, again.outcome, again.results[0].state) == (
        200,
        Outcome.DUPLICATE,
        State.QUARANTINED,
    )
    (event,) = bench.events()
    assert event["event_id"] == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert (bytes(event["body"]), event["state"], event["attempts"]) == (body, "quarantined", 0)
    assert event["last_error"]
    assert bench.effects() == []


PRECISE = {
    "an integer of 5,000 digits": b"1" * 5000,
    "1e400": b"1e400",
    "1e131072": b"1e131072",
    "beyond 64 bits": b"12345678901234567890",
    "a long fraction": b"0.1000000000000000055511151231257827",
    "two decimals": b"10.00",
    "NUL in a text": b'"a\\u0000b"',
    "half a pair": b'"\\ud83d"',
    "a name twice": b'{"a":1,"a":2}',
    "deep but allowed": b"[" * 150 + b"]" * 150,
}


@one_way
@pytest.mark.parametrize("value", PRECISE.values(), ids=PRECISE)
def test_no_value_of_a_payload_changes_or_keeps_an_event_from_being_processed(
    bench: Bench, value: bytes
) -> None:
    """C21: the bytes are kept as they came, the handler reads the value, and operators can list every event."""
    seen: list[Any] = []

    def reads(tx: Any, event: Any) -> Steps:
        seen.append(event.payload["n"])
        yield from books(tx, event)

    bench.on(bench.endpoint(keep="body"), do=reads)
    body = b'{"id":"evt_1","object":"event","type":"x","n":%s}' % value
    assert bench.deliver(body).outcome is Outcome.PROCESSED
    (event,) = bench.events()
    assert bytes(event["body"]) == body
    assert event["payload_state"] in {"jsonb", "not jsonb"}
    assert (event["payload"] is None) == (event["payload_state"] == "not jsonb")
    assert len(seen) == 1


@one_way
@pytest.mark.parametrize("path", sorted(EDGE.iterdir()), ids=lambda path: path.name)
def test_every_edge_payload_is_kept_as_it_came(bench: Bench, path: Path) -> None:
    """P-CALM, P-RAW: 200 whatever it is, the very bytes in the table, a duplicate the second time."""
    body = path.read_bytes()
    bench.on(bench.endpoint(body_bytes_max=30_000_000), do=books)
    first, again = bench.deliver(body), bench.deliver(body)
    assert (first.status, again.status, again.outcome) == (200, 200, Outcome.DUPLICATE)
    (event,) = bench.events()
    assert hashlib.sha256(bytes(event["body"])).digest() == hashlib.sha256(body).digest()


def test_another_body_under_an_unsigned_id_is_evidence(bench: Bench) -> None:
    """Design 5.1: kept once for each digest, never applied; the event is flagged, and the first body stays."""
    source = plain_hmac(event_id="header:X-Id", event_type="header:X-Type")
    bench.on(bench.endpoint("acme", source), do=books)
    named = [("X-Id", "evt_1"), ("X-Type", "x")]
    bodies = [b'{"n":1}', b'{"n":2}', b'{"n":2}', b'{"n":3}', b'{"n":1}']
    receipts = [bench.deliver_hmac(body, headers=[*named, ("Cookie", "c")]) for body in bodies]
    assert [receipt.outcome for receipt in receipts] == [Outcome.PROCESSED] + [Outcome.DUPLICATE] * 4
    assert [receipt.results[0].conflicting for receipt in receipts] == [False, True, True, True, False]
    (event,) = bench.events()
    assert (bytes(event["body"]), event["conflicting"]) == (b'{"n":1}', True)
    evidence = bench.rows("SELECT * FROM {schema}.conflicts ORDER BY received_at")
    assert [bytes(row["body"]) for row in evidence] == [b'{"n":2}', b'{"n":3}']
    assert [bytes(row["body_sha256"]) for row in evidence] == [
        hashlib.sha256(body).digest() for body in (b'{"n":2}', b'{"n":3}')
    ]
    assert {row["inbox_id"] for row in evidence} == {event["id"]}
    assert "cookie" not in str(evidence)
    assert bench.effects() == ["evt_1"]


def test_another_body_under_a_signed_id_is_no_evidence(bench: Bench) -> None:
    """Design 5.1: the signature covers the id, so the provider itself sent both; a duplicate, and nothing more."""
    bench.on(bench.endpoint(), do=books)
    bench.deliver(stripe_event("evt_1", pending_webhooks=2))
    again = bench.deliver(stripe_event("evt_1", pending_webhooks=1))
    assert (again.outcome, again.results[0].reason) == (
        Outcome.DUPLICATE,
        "another body came under this id before",
    )
    assert bench.deliver(stripe_event("evt_1", pending_webhooks=2)).results[0].reason == ""
    assert bench.rows("SELECT 1 FROM {schema}.conflicts") == []
    assert not bench.events()[0]["conflicting"]


def test_a_copy_that_was_not_delivered_is_compared_with_nothing(bench: Bench) -> None:
    """Design 5.1: a reconciled copy may well differ from the delivery; that is no conflict."""
    source = plain_hmac(event_id="header:X-Id", event_type="header:X-Type")
    bench.on(bench.endpoint("acme", source), do=books)
    named = [("X-Id", "evt_1"), ("X-Type", "x")]
    bench.deliver_hmac(b'{"n":1}', headers=named)
    bench.rows("UPDATE {schema}.inbox SET origin = 'reconcile' RETURNING 1")
    assert bench.deliver_hmac(b'{"n":2}', headers=named).outcome is Outcome.DUPLICATE
    assert bench.rows("SELECT 1 FROM {schema}.conflicts") == []


def test_an_endpoint_told_to_keep_less_keeps_the_digest_and_its_fields(bench: Bench) -> None:
    """Design 5.2: with ``keep="digest"`` the bytes of a processed event are never stored; chosen fields are."""
    fields = ("data.object.id", "data.object", "created", "absent", "data.object.id.deeper")
    bench.on(bench.endpoint(keep="digest", keep_fields=fields), "invoice.paid", do=books)
    body = stripe_event("evt_1", data={"object": {"id": "in_1", "n": [1]}})
    assert bench.deliver(body).outcome is Outcome.PROCESSED
    (event,) = bench.events()
    assert (event["body"], event["headers"], event["payload"]) == (None, None, None)
    assert (event["payload_state"], event["body_bytes"]) == ("not kept", len(body))
    assert bytes(event["body_sha256"]) == hashlib.sha256(body).digest()
    assert event["kept"] == {
        "data.object.id": "in_1",
        "data.object": {"id": "in_1", "n": [1]},
        "created": 1_767_225_600,
    }
    assert bench.deliver(body).outcome is Outcome.DUPLICATE


def test_the_bytes_of_what_was_not_processed_are_kept_all_the_same(bench: Bench) -> None:
    """P-KEEP: ignored, dead and quarantined events keep their bytes: somebody may have to look, or to replay them."""

    def gives_up(tx: Any, event: Any) -> Steps:
        yield tx.conn.execute("SELECT 1")
        raise GiveUp

    bench.on(bench.endpoint(keep="digest", keep_fields=["id"]), "invoice.paid", do=gives_up)
    bodies = [stripe_event("evt_1"), stripe_event("evt_2", type_="other"), b"no JSON"]
    outcomes = [bench.deliver(body).outcome for body in bodies]
    assert outcomes == [Outcome.DEAD, Outcome.IGNORED, Outcome.QUARANTINED]
    assert [bytes(event["body"]) for event in bench.events()] == bodies
    assert [event["kept"] for event in bench.events()] == [{"id": "evt_1"}, {"id": "evt_2"}, None]


def test_a_field_that_no_jsonb_holds_is_not_worth_an_event(bench: Bench) -> None:
    """P-CALM: the fields are left out then, and the event is processed."""
    bench.on(bench.endpoint(keep="digest", keep_fields=["note"]), do=books)
    body = b'{"id":"evt_1","object":"event","type":"x","note":"a\\u0000b"}'
    assert bench.deliver(body).outcome is Outcome.PROCESSED
    assert bench.events()[0]["kept"] is None


def test_types_without_a_handler_can_be_dropped(bench: Bench) -> None:
    """C33: 200 and no record; each delivery hears the same; what has a handler is processed."""
    bench.on(bench.endpoint(unhandled="drop"), "invoice.paid", do=books)
    other = stripe_event("evt_1", type_="balance.available")
    for _ in range(2):
        receipt = bench.deliver(other)
        assert (receipt.status, receipt.outcome, receipt.results[0].state) == (200, Outcome.IGNORED, None)
    assert bench.events() == []
    assert bench.deliver("evt_2").outcome is Outcome.PROCESSED


def test_types_without_a_handler_can_be_refused(bench: Bench) -> None:
    """An older release must not swallow what the newer one knows: 503, no record."""
    bench.on(bench.endpoint(unhandled="refuse"), "invoice.paid", do=books)
    receipt = bench.deliver(stripe_event("evt_1", type_="balance.available"))
    assert (receipt.status, receipt.reason, bench.events()) == (503, "no_handler", [])
    assert bench.deliver("evt_2").outcome is Outcome.PROCESSED


@pytest.mark.parametrize("unhandled", ["drop", "refuse"])
def test_in_a_body_of_several_each_result_stands_in_its_place(bench: Bench, unhandled: Any) -> None:
    """Dropped events are answered in their place; where one is refused nothing of the body is stored."""
    bench.on(bench.endpoint("acme", plain_hmac(items="$"), unhandled=unhandled), "booked", do=books)
    body = json.dumps(
        [{"id": f"evt_{n}", "type": type_} for n, type_ in enumerate(["x", "booked", "x"])]
    ).encode()
    receipt = bench.deliver_hmac(body)
    if unhandled == "refuse":
        assert (receipt.status, receipt.results, bench.events()) == (503, (), [])
        return
    assert [(r.event_id, r.outcome.value) for r in receipt.results] == [
        ("evt_0", "ignored"),
        ("evt_1", "processed"),
        ("evt_2", "ignored"),
    ]
    assert list(bench.states()) == ["evt_1"]
