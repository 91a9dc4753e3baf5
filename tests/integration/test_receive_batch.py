"""Several events in one body: recorded together, each with its own fate (P-FLOW, P-ONCE)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Generator
from typing import Any, TypeAlias

import pytest

from tests.fixtures.programs import eventually
from tests.fixtures.receiving import Bench, books, plain_hmac, signed_hmac
from tests.integration.conftest import OpenBench
from tests.integration.test_receive_concurrent import SECONDS_MAX, Gate, senders, waits_for_a_lock
from webhook_inbox import GiveUp, Ignore, NotYet, Outcome, Receipt, State

Steps: TypeAlias = Generator[Any, Any, None]


def batch(*items: Any) -> bytes:
    """A body of several events; a text is the id of one, anything else an item as it is."""
    events = [{"id": item, "type": "booked"} if isinstance(item, str) else item for item in items]
    return json.dumps({"events": events}, separators=(",", ":")).encode()


def batches(bench: Bench, do: Any = books, **given: Any) -> None:
    """Open an endpoint that takes bodies of several events."""
    bench.on(bench.endpoint("acme", plain_hmac(items="$.events"), **given), do=do)


def told(receipt: Receipt) -> list[tuple[str, str]]:
    """What became of each event, in the body's order."""
    return [(result.event_id, result.outcome.value) for result in receipt.results]


def by_fate(fates: dict[str, Any]) -> Any:
    """A handler that books its event and then does what its id says."""

    def decides(tx: Any, event: Any) -> Steps:
        yield from books(tx, event)
        yield tx.review(f"saw {event.id}")
        fate = fates.get(event.id)
        if isinstance(fate, str):
            yield tx.conn.execute(fate)
        elif fate is not None:
            raise fate

    return decides


def test_the_events_of_one_body_are_processed_together(bench: Bench) -> None:
    """One transaction, one result per event in the body's order, its own slice of the bytes each; then duplicates."""
    batches(bench)
    body = batch("evt_c", "evt_a", "evt_b")
    first = bench.deliver_hmac(body)
    assert (first.status, first.outcome) == (200, Outcome.PROCESSED)
    assert told(first) == [("evt_c", "processed"), ("evt_a", "processed"), ("evt_b", "processed")]
    assert first.json() == {
        "outcome": "processed",
        "results": [
            {"outcome": "processed", "event_id": event_id, "state": "processed"}
            for event_id in ("evt_c", "evt_a", "evt_b")
        ],
    }
    again = bench.deliver_hmac(body)
    assert (again.status, again.outcome) == (200, Outcome.DUPLICATE)
    assert bench.effects() == ["evt_a", "evt_b", "evt_c"]
    assert {event["event_id"]: bytes(event["body"]) for event in bench.events()} == {
        event_id: b'{"id":"%s","type":"booked"}' % event_id.encode()
        for event_id in ("evt_a", "evt_b", "evt_c")
    }
    assert len({event["received_at"] for event in bench.events()}) == 1


def test_an_event_that_fails_waits_and_holds_none_of_its_mates(bench: Bench) -> None:
    """P-FLOW: each fate is its own: writes of the failing are undone, its bytes are kept, and it waits for a worker."""
    fates = {
        "evt_2": ValueError("secret of the payload"),
        "evt_3": Ignore("not ours"),
        "evt_4": GiveUp("unknown plan"),
        "evt_5": NotYet("no order yet"),
        "evt_6": "SELECT 1 / 0",
    }
    batches(bench, by_fate(fates), keep="digest")
    receipt = bench.deliver_hmac(batch(*(f"evt_{n}" for n in range(1, 8))))
    assert (receipt.status, receipt.outcome) == (200, Outcome.QUEUED)
    expected = ["processed", "queued", "ignored", "dead", "queued", "queued", "processed"]
    assert [outcome for _, outcome in told(receipt)] == expected
    assert (bench.effects(), len(bench.outbox())) == (["evt_1", "evt_7"], 2)
    events = {event["event_id"]: event for event in bench.events()}
    states = ["processed", "waiting", "ignored", "dead", "waiting", "waiting", "processed"]
    assert [events[f"evt_{n}"]["state"] for n in range(1, 8)] == states
    assert [events[f"evt_{n}"]["attempts"] for n in range(1, 8)] == [1, 1, 1, 1, 0, 1, 1]
    assert [events[f"evt_{n}"]["body"] is None for n in range(1, 8)] == [
        True,
        False,
        False,
        False,
        False,
        False,
        True,
    ]
    assert "ValueError" in events["evt_2"]["last_error"]
    assert "secret" not in events["evt_2"]["last_error"]
    assert "SQLSTATE 22012" in events["evt_6"]["last_error"]
    assert [review["event_id"] for review in bench.reviews()] == ["evt_1", "evt_3", "evt_4", "evt_5", "evt_7"]
    again = bench.deliver_hmac(batch(*(f"evt_{n}" for n in range(1, 8))))
    assert {result.outcome for result in again.results} == {Outcome.DUPLICATE}
    assert [result.state.value for result in again.results if result.state] == states


DEFERRED = "INSERT INTO later VALUES (1), (1)"


@pytest.mark.parametrize(
    ("fate", "error"),
    [
        ("ROLLBACK", "TransactionEndedError"),
        ("COMMIT", "DatabaseError"),  # WI001, which is ours
        (DEFERRED, "UniqueViolation"),
        ("SELECT pg_terminate_backend(pg_backend_pid())", None),
    ],
    ids=["rolls back", "commits", "deferred constraint", "loses the session"],
)
def test_an_event_that_takes_the_transaction_with_it_holds_none_of_its_mates(
    bench: Bench, fate: str, error: str | None
) -> None:
    """P-FLOW, P-ONCE: the body goes one by one then, and that event is set aside; a lost session is answered 503."""
    bench.ledger.execute("CREATE TABLE later (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    errors: list[BaseException] = []
    bench.inbox.on_error(lambda _, raised: errors.append(raised))
    batches(bench, by_fate({"evt_2": fate}))
    body = batch("evt_1", "evt_2", "evt_3")
    receipt = bench.deliver_hmac(body)
    if error is None:
        assert (receipt.status, bench.events(), bench.effects()) == (503, [], [])
        return
    assert (receipt.status, receipt.outcome) == (200, Outcome.QUEUED)
    assert told(receipt) == [("evt_1", "processed"), ("evt_2", "queued"), ("evt_3", "processed")]
    assert (bench.effects(), len(bench.outbox())) == (["evt_1", "evt_3"], 2)
    assert bench.states() == {"evt_1": "processed", "evt_2": "waiting", "evt_3": "processed"}
    (waiting,) = [event for event in bench.events() if event["event_id"] == "evt_2"]
    assert error in waiting["last_error"]
    assert (waiting["attempts"], bytes(waiting["body"])) == (1, b'{"id":"evt_2","type":"booked"}')
    assert [type(raised).__name__ for raised in errors] == [error]
    assert {result.outcome for result in bench.deliver_hmac(body).results} == {Outcome.DUPLICATE}
    bench.assert_idle()


def test_a_handler_that_outlives_its_session_holds_none_of_its_mates(open_bench: OpenBench) -> None:
    """P-FLOW: the server ends the session of a handler that pauses too long; it is set aside, and it alone."""
    bench = open_bench(handler_seconds_max=2.0)

    def pauses(tx: Any, event: Any) -> Steps:
        yield from books(tx, event)
        if event.id == "evt_2":
            yield tx.conn.execute("SET LOCAL idle_in_transaction_session_timeout = '50ms'")
            cursor = yield tx.conn.execute("SELECT pg_backend_pid()")  # a pooler gives libpq another one
            [pid] = yield cursor.fetchone()
            gone = "SELECT FROM pg_stat_activity WHERE pid = %s"
            eventually(lambda: not bench.ledger.execute(gone, [pid]).fetchall(), what="the session was ended")
            yield tx.conn.execute("SELECT 1")

    batches(bench, pauses)
    receipt = bench.deliver_hmac(batch("evt_1", "evt_2", "evt_3"))
    assert told(receipt) == [("evt_1", "processed"), ("evt_2", "queued"), ("evt_3", "processed")]
    assert bench.effects() == ["evt_1", "evt_3"]


def test_one_id_twice_in_a_body_is_one_event(bench: Bench) -> None:
    """P-DUP: the second is a duplicate of the first, whatever became of that."""
    batches(bench, by_fate({"evt_2": ValueError()}))
    receipt = bench.deliver_hmac(batch("evt_1", "evt_2", "evt_1", "evt_2", "evt_1"))
    assert told(receipt) == [
        ("evt_1", "processed"),
        ("evt_2", "queued"),
        ("evt_1", "duplicate"),
        ("evt_2", "duplicate"),
        ("evt_1", "duplicate"),
    ]
    assert [result.state for result in receipt.results] == [
        State.PROCESSED,
        State.WAITING,
        State.PROCESSED,
        State.WAITING,
        State.PROCESSED,
    ]
    assert bench.effects() == ["evt_1"]


def test_an_item_that_cannot_be_read_is_quarantined_beside_its_mates(bench: Bench) -> None:
    """P-FLOW: no id, no type, no object: kept under its digest; those that can be read are processed."""
    batches(bench)
    body = batch("evt_1", {"type": "booked"}, {"id": ""}, 7, "evt_2")
    for outcome in ("processed", "duplicate"):
        receipt = bench.deliver_hmac(body)
        assert receipt.status == 200
        assert [told_ for _, told_ in told(receipt)][::4] == [outcome, outcome]
    assert Counter(bench.states().values()) == {"processed": 2, "quarantined": 3}
    quarantined = {bytes(e["body"]) for e in bench.events() if e["state"] == "quarantined"}
    assert quarantined == {b'{"type":"booked"}', b'{"id":""}', b"7"}


def test_two_bodies_in_opposite_order_do_not_deadlock(open_bench: OpenBench) -> None:
    """P-FLOW: keys are taken in one order whatever the body's is, within a process and between two of them."""
    bench = open_bench(duplicate_wait_seconds=SECONDS_MAX)
    other = bench.open()
    for inbox in (bench.inbox, other):
        endpoint = bench.endpoint("acme", plain_hmac(items="$.events"), inbox=inbox)
        bench.on(endpoint, do=books)
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    before = bench.rows(deadlocks)
    ids = [f"evt_{n}" for n in range(6)]
    with senders(bench) as send:
        sent = []
        for round_ in range(6):
            mine = [f"{event_id}_{round_}" for event_id in ids]
            for inbox in (bench.inbox, other):
                sent += [send(batch(*order), inbox=inbox, **ACME) for order in (mine, mine[::-1])]
        receipts = [future.result(SECONDS_MAX) for future in sent]
    assert {receipt.status for receipt in receipts} == {200}
    assert Counter(outcome for receipt in receipts for _, outcome in told(receipt)) == {
        "processed": 36,
        "duplicate": 108,
    }
    assert len(bench.effects()) == 36
    assert bench.rows(deadlocks) == before


#: How a body of Acme's is delivered.
ACME: dict[str, Any] = {"to": "acme", "signed": signed_hmac}


@pytest.mark.parametrize("where", ["this process", "another process"])
def test_a_key_in_flight_elsewhere_holds_none_of_its_mates(open_bench: OpenBench, where: str) -> None:
    """P-FLOW: its mates are processed, the answer is 503 for that one alone; the resend settles it."""
    bench = open_bench(duplicate_wait_seconds=0.5, handler_seconds_max=20.0)
    elsewhere = bench.inbox if where == "this process" else bench.open()
    gate = Gate(bench)
    bench.on(bench.endpoint("acme", plain_hmac(items="$.events")), "booked", do=books)
    endpoint = (
        bench.endpoint("acme", plain_hmac(items="$.events"), inbox=elsewhere)
        if elsewhere is not bench.inbox
        else bench.inbox._endpoints["acme"]
    )
    bench.on(endpoint, "slow", do=gate.passes)
    body = batch("evt_1", "evt_2", "evt_3", "evt_4")
    with senders(bench, gate) as send:
        first = send(
            batch({"id": "evt_2", "type": "slow"}, {"id": "evt_3", "type": "slow"}), inbox=elsewhere, **ACME
        )
        gate.await_arrival()
        second = bench.deliver_hmac(body)
        assert (second.status, second.outcome, second.reason) == (503, Outcome.UNAVAILABLE, "key_busy")
        expected = [
            ("evt_1", "processed"),
            ("evt_2", "unavailable"),
            ("evt_3", "processed"),
            ("evt_4", "processed"),
        ]
        if where == "this process":  # it holds both keys of its body, from the start
            expected[2] = ("evt_3", "unavailable")
        assert told(second) == expected
        assert second.results[1].state is None
        gate.open()
        assert first.result(SECONDS_MAX).status == 200
    resent = bench.deliver_hmac(body)
    assert (resent.status, resent.outcome) == (200, Outcome.DUPLICATE)
    assert bench.effects() == ["evt_1", "evt_2", "evt_3", "evt_4"]
    assert len(bench.outbox()) == 4


def test_a_key_that_a_failing_event_gave_up_to_a_rival_holds_none_of_its_mates(open_bench: OpenBench) -> None:
    """P-FLOW, P-DUP: a rival waited for the key, got it when the savepoint was undone, and is at work on it."""
    bench = open_bench(duplicate_wait_seconds=1.0, handler_seconds_max=20.0)
    inside, go_on = threading.Event(), threading.Event()
    gate = Gate(bench)

    def fails_after_a_rival_came(tx: Any, event: Any) -> Steps:
        yield from books(tx, event)
        if event.id == "evt_1":
            inside.set()
            yield in_thread(go_on) if bench.way == "loop" else go_on.wait(SECONDS_MAX)
            raise ValueError

    def until_the_rival_is_at_work(point: str) -> None:
        if point == "record_batch.rollback_to.after" and not gate_reached:
            gate.await_arrival()
            gate_reached.append(point)

    gate_reached: list[str] = []
    failing = bench.open(probe=until_the_rival_is_at_work)
    bench.on(bench.endpoint("acme", plain_hmac(items="$.events"), inbox=failing), do=fails_after_a_rival_came)
    bench.on(bench.endpoint("acme", plain_hmac(items="$.events")), do=gate.passes)
    with senders(bench, gate) as send:
        first = send(batch("evt_1", "evt_2"), inbox=failing, **ACME)
        assert inside.wait(SECONDS_MAX)
        rival = send(batch("evt_1"), **ACME)
        eventually(lambda: waits_for_a_lock(bench), what="the rival waits for the key")
        go_on.set()
        receipt = first.result(SECONDS_MAX)
        assert told(receipt) == [("evt_1", "unavailable"), ("evt_2", "processed")]
        assert receipt.status == 503
        gate.open()
        assert rival.result(SECONDS_MAX).outcome is Outcome.PROCESSED
    assert told(bench.deliver_hmac(batch("evt_1", "evt_2"))) == [
        ("evt_1", "duplicate"),
        ("evt_2", "duplicate"),
    ]
    assert bench.effects() == ["evt_1", "evt_2"]


def in_thread(event: threading.Event) -> Any:
    """Wait without stopping the loop."""
    return asyncio.to_thread(event.wait, SECONDS_MAX)
