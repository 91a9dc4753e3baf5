"""What a person's payloads have left is erased wherever it stands, and the keys of their events stay."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.fixtures.queue import EFFECTS, Queue
from tests.fixtures.recorded import Recorded
from webhook_inbox.cli.database import run_plan
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol import erase as module
from webhook_inbox.protocol.erase import Erased, Wanted, erase, values_at
from webhook_inbox.protocol.operate import Operator

CANARY = "jane@canary.example"
ADA = Operator("ada", "asked to be forgotten")
PERSON = {"data.object.email": CANARY}
EVERYBODY = EventFilter()


def done(dsn: str, wanted: dict[str, str], meant: EventFilter = EVERYBODY, **more: Any) -> Erased:
    """Erase on *dsn*."""
    return run_plan(dsn, lambda: erase(meant, wanted, ADA, "webhooks", **more))


def body(email: str = CANARY) -> bytes:
    """A payload that names a person."""
    return json.dumps({"data": {"object": {"email": email}}}).encode()


def places(recorded: Recorded) -> list[str]:
    """The tables in which the person still stands."""
    tables = ("inbox", "bodies", "conflicts", "attempts", "reviews", "outbox", "sends", "audit", "versions")
    return [
        table
        for table in tables
        for row in recorded.rows(f"SELECT * FROM webhooks.{table}")
        if CANARY in str(row)
        or CANARY in str([bytes(each) for each in row.values() if isinstance(each, bytes)])
    ]


def test_a_person_stands_nowhere_afterwards_and_the_key_still_counts(database: str) -> None:
    """Bytes, headers, evidence, errors, reviews, messages, audit; a redelivery stays a duplicate (P-DUP, P-QUIET)."""
    box = Queue(database, endpoint={"keep": "digest", "keep_fields": ["data.object.email"]})
    box.rows(EFFECTS)

    @box.billing.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
        tx.stale(f"person:{CANARY}", 1)
        tx.emit("Booked", {"to": CANARY}, aggregate_id=CANARY, headers={"person": CANARY})
        tx.review(f"ask {CANARY}", details={"person": CANARY})

    async def receive(email: str = CANARY) -> Any:
        return (await box.receive("evt_1", email=email))[0].results[0]

    async def story() -> None:
        await receive()
        await box.drain()

    asyncio.run(story())
    recorded = Recorded(database)
    recorded.rows(
        f"""
        UPDATE webhooks.inbox SET last_error = '{CANARY}', order_key = '{CANARY}';
        UPDATE webhooks.outbox SET published_at = now(), state = 'routed';
        INSERT INTO webhooks.sends (message_id, destination, position, order_key, state, sent_at, last_error)
            SELECT id, 'd', position, '{CANARY}', 'sent', now(), '{CANARY}' FROM webhooks.outbox;
        UPDATE webhooks.reviews SET resolved_at = now(), resolution = 'told {CANARY}';
        INSERT INTO webhooks.bodies
            SELECT received_at, id, '{body().decode()}', '[["from", "{CANARY}"]]' FROM webhooks.inbox;
        INSERT INTO webhooks.conflicts (inbox_id, body_sha256, body, headers) VALUES (1, '', '{body().decode()}', '[]');
        INSERT INTO webhooks.attempts (inbox_id, attempt, claim, worker, started_at, seconds, outcome, error, traceback)
            VALUES (1, 1, 1, 'w', now(), 1, 'failed', '{CANARY}', '{CANARY}');
        INSERT INTO webhooks.audit (actor, action, inbox_id, before, after)
            VALUES ('ada', 'retry', 1, '{{"state": "dead", "last_error": "{CANARY}"}}', '{{"last_error": "{CANARY}"}}')
        """
    )
    assert set(places(recorded)) == {
        "inbox",
        "bodies",
        "conflicts",
        "attempts",
        "reviews",
        "outbox",
        "sends",
        "audit",
        "versions",
    }
    before = recorded.event("evt_1")
    assert done(database, PERSON, dry_run=True) == Erased(events=1)
    assert recorded.event("evt_1") == before
    assert done(database, PERSON) == Erased(events=1)
    assert places(recorded) == []
    after = recorded.event("evt_1")
    changed = {name for name, value in after.items() if value != before[name]}
    assert changed == {"kept", "last_error", "order_key"}
    told = recorded.rows(
        "SELECT actor, action, reason, inbox_id, event_id, before, after FROM webhooks.audit ORDER BY id"
    )[-1]
    assert told == {
        "actor": "ada",
        "action": "erase",
        "reason": "asked to be forgotten",
        "inbox_id": 1,
        "event_id": "evt_1",
        "before": {"state": "processed"},
        "after": {"state": "processed"},
    }
    again = asyncio.run(receive())
    assert (again.outcome, again.state) == ("duplicate", "processed")
    assert (len(recorded.rows("SELECT * FROM effects")), places(recorded)) == (1, [])
    assert done(database, PERSON) == Erased(), "nothing is meant any more"
    asyncio.run(box.close())


@pytest.mark.parametrize(
    ("content", "headers", "matches"),
    [
        (body(), (), True),
        (body("john@other.example"), (), False),
        (body(f"{CANARY}.org"), (), False),
        (b'{"data": [{"object": {"email": ["a", "%s"]}}]}' % CANARY.encode(), (), True),
        (b'{"data": {"object": "%s"}}' % CANARY.encode(), (), False),
    ],
)
def test_a_payload_is_meant_by_what_stands_at_the_path(
    database: str, content: bytes, headers: Any, matches: bool
) -> None:
    """All of it, and each item of an array on the way."""
    recorded = Recorded(database)
    recorded.add("evt_1", body=content, headers=headers)
    assert done(database, PERSON).events == matches


def test_whatever_was_recorded_is_read_as_its_handler_reads_it(database: str) -> None:
    """A form; a number as it was written; what is no JSON is counted, and so are kept fields alone a payload."""
    recorded = Recorded(database)
    form = (("Content-Type", "application/x-www-form-urlencoded"),)
    recorded.add("evt_form", body=b"text=hi&user=12345678901234567890", headers=form)
    recorded.add("evt_number", body=b'{"user": 12345678901234567890, "on": true}')
    recorded.add("evt_bytes", body=b"\x00\xff")
    row = recorded.add("evt_kept", kept=False)
    recorded.rows(
        """UPDATE webhooks.inbox SET kept = '{"user": "u_1", "a.b": 1, "a.b.c": 2}' WHERE id = %s""", row
    )
    assert done(database, {"user": "12345678901234567890"}, dry_run=True) == Erased(events=2, unread=1)
    assert done(database, {"user": "12345678901234567890", "on": "true"}, dry_run=True).events == 1
    assert done(database, {"user": "u_1", "a.b": "1"}, dry_run=True).events == 1


@pytest.mark.parametrize("state", ["waiting", "retrying", "dead", "quarantined", "leased"])
def test_what_is_not_settled_is_left_unless_that_is_forced(database: str, state: str) -> None:
    """Then it never runs: it is ignored from now on; what a worker holds is left in any case (P-KEEP, P-FENCE)."""
    recorded = Recorded(database)
    recorded.add("evt_1", state, body=body(), last_error=CANARY)
    (left,) = done(database, PERSON).left
    assert (left.event.event_id, recorded.event("evt_1")["state"]) == ("evt_1", state)
    forced = done(database, PERSON, force=True)
    if state == "leased":
        assert "being run by" in forced.left[0].why
        assert recorded.event("evt_1")["state"] == "leased"
        return
    assert state in left.why
    assert (forced.events, places(recorded)) == (1, [])
    event = recorded.event("evt_1")
    assert (event["state"], event["last_error"]) == ("ignored", "erased by ada")


def test_what_somebody_still_waits_for_is_left_unless_that_is_forced(database: str) -> None:
    """A person who was asked to look, a message to be sent: with force it is closed, and never sent (P-KEEP, P-OUT)."""
    recorded = Recorded(database)
    for name in ("evt_review", "evt_message"):
        recorded.add(name, body=body())
    recorded.rows(
        f"""
        INSERT INTO webhooks.reviews (inbox_id, endpoint, event_id, summary, details)
            VALUES (1, 'shop', 'evt_review', '{CANARY}', '{{}}');
        INSERT INTO webhooks.outbox (event_type, payload, inbox_id) VALUES ('Booked', '["{CANARY}"]', 2)
        """
    )
    left = {each.event.event_id: each.why for each in done(database, PERSON).left}
    assert "has not: reviews list" in left["evt_review"]
    assert "still to be sent: outbox list" in left["evt_message"]
    assert len(done(database, PERSON, dry_run=True).left) == 2
    assert done(database, PERSON, force=True) == Erased(events=2)
    assert places(recorded) == []
    assert recorded.rows("SELECT * FROM webhooks.outbox") == []
    (review,) = recorded.rows("SELECT resolved_by, resolved_at IS NOT NULL AS closed FROM webhooks.reviews")
    assert review == {"resolved_by": "ada", "closed": True}


def test_an_interrupted_run_goes_on_where_it_was(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch by batch: what is committed is erased, and meant no more."""
    monkeypatch.setattr(module, "BATCH_EVENTS", 2)
    recorded = Recorded(database)
    for number in range(5):
        recorded.add(f"evt_{number}", body=body(CANARY if number != 1 else "john@other.example"))

    def stop(events: int) -> None:
        if events >= 2:
            raise StoreUnavailableError("away")

    with pytest.raises(StoreUnavailableError):
        done(database, PERSON, progress=stop)
    assert len(recorded.rows("SELECT * FROM webhooks.audit")) == 3
    assert done(database, PERSON) == Erased(events=1)
    assert [row["id"] for row in recorded.rows("SELECT id FROM webhooks.bodies")] == [2]


def test_a_filter_alone_means_what_it_says_once(database: str) -> None:
    """Whatever the payload; again only what has come since, or is named."""
    recorded = Recorded(database)
    row = recorded.add("evt_1", "processed", body=body())
    recorded.add("evt_2", "processed", endpoint="other", body=body())
    meant = EventFilter(endpoint="shop", states=(State.PROCESSED,))
    assert [done(database, {}, meant).events for _ in range(2)] == [1, 0]
    recorded.rows(
        "INSERT INTO webhooks.conflicts (inbox_id, body_sha256, body, headers) VALUES (%s, '', 'x', '[]')",
        row,
    )
    assert [done(database, {}, meant).events for _ in range(2)] == [1, 0]
    assert done(database, {}, EventFilter(rows=(row,))).events == 1
    assert len(recorded.rows("SELECT * FROM webhooks.bodies")) == 1


def test_a_key_with_a_version_goes_with_the_event_that_has_raised_it_last(database: str) -> None:
    """Of two events that had it in turn, the younger one left it there; nobody else's key goes."""
    box = Queue(database)

    @box.billing.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        for key in event.payload["data"]["object"]["keys"]:
            tx.stale(key, event.payload["data"]["object"]["version"])

    async def story() -> None:
        await box.receive("evt_1", keys=["a", "b"], version=1)
        await box.drain()
        await box.receive("evt_2", keys=["b", "c"], version=2)
        await box.receive("evt_3", keys=["c"], version=1)
        await box.drain()
        await box.close()

    def keys() -> list[str]:
        return [row["key"] for row in recorded.rows("SELECT key FROM webhooks.versions ORDER BY key")]

    asyncio.run(story())
    recorded = Recorded(database)
    rows = {name: recorded.event(name)["id"] for name in ("evt_1", "evt_2", "evt_3")}
    left = [keys()]
    for name in ("evt_3", "evt_1", "evt_2"):
        assert done(database, {}, EventFilter(rows=(rows[name],))).events == 1
        left.append(keys())
    assert left == [["a", "b", "c"], ["a", "b", "c"], ["b", "c"], []]


@pytest.mark.parametrize("kept", [False, True], ids=["in the body", "in the kept fields"])
@pytest.mark.parametrize(
    ("number", "text", "matches"),
    [
        ("9007199254740993", "9007199254740993", True),
        ("9007199254740993", "9007199254740992", False),
        ("9007199254740993.0", "9007199254740993", True),
        ("9007199254740993.0", "9007199254740992.0", False),
        ("1.10", "1.1", True),
        ("11e-1", "1.10", True),
        ("0.30000000000000004", "0.3", False),
        ("1" + "0" * 400, "1e400", True),
        ("1" + "0" * 400, "1e401", False),
        ("true", "1", False),
        ("1", "true", False),
        ("1", "Infinity", False),
    ],
)
def test_numbers_are_compared_to_the_last_digit(
    database: str, number: str, text: str, matches: bool, kept: bool
) -> None:
    """However they are written: of two neighbours, a float would take one for the other."""
    recorded = Recorded(database)
    row = recorded.add("evt_1", body=b'{"user": %s}' % number.encode(), kept=not kept)
    if kept:
        recorded.rows(
            "UPDATE webhooks.inbox SET kept = %s::jsonb WHERE id = %s", f'{{"user": {number}}}', row
        )
    assert done(database, {"user": text}, dry_run=True).events == matches


def test_values_are_texts_numbers_and_truths_and_nothing_else_is_one() -> None:
    """No null, no object; one is looked for as JSON writes it, and none is found by what no text can be."""
    payload = {"a": [{"b": 1}, {"b": [True, None, {}]}, "b"], "c": 0.5}
    assert list(values_at(payload, ["a", "b"])) == [1, True]
    assert list(values_at(payload, ["c"])) == [0.5]
    assert list(values_at(payload, ["a", "b", "c"])) == list(values_at(payload, ["d"])) == []
    assert Wanted.of("a.b", "true").stands_in(payload)
    assert not Wanted.of("c", "half \ud83d").stands_in(payload)
