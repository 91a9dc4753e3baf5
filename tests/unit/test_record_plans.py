"""What the plan of one event asks for, step by step, and what it makes of every answer."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fixtures.arrivals import arrival, item, key, recording
from tests.fixtures.plans import Played, play
from webhook_inbox.errors import (
    ConflictError,
    HandlerFailedError,
    HandlerNotYetError,
    HandlerTimeoutError,
    InboxError,
    KeyBusyError,
    StatementError,
    StoreUnavailableError,
    TransactionEndedError,
)
from webhook_inbox.model.headers import Headers
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Origin, Outcome, State
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet
from webhook_inbox.protocol.handlers import Handler, Pattern
from webhook_inbox.protocol.record import record_one, set_aside
from webhook_inbox.protocol.recording import Item
from webhook_inbox.protocol.steps import Begin, Run

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
MICROSECONDS = 1_767_323_045_678_901
BEFORE = ("set",)
#: The row, when it came, and the transaction that recorded it.
RECORDED = (7, MICROSECONDS, "900")


def handler(name: str = "billing.book", **given: Any) -> Handler:
    """A handler that is never called: a plan only names it."""
    return Handler(Pattern("*"), print, "sync", name, **given)


def one(given: Item, *answers: object) -> Played[EventResult]:
    """Play ``record_one``."""
    return play(record_one(given, recording(wait_seconds=2.5, handler_seconds_max=30.0)), answers)


def seals(played: Played[Any]) -> list[tuple[str, list[int]]]:
    """The transaction and the events of each seal; what is recorded inline leaves no mark to take back."""
    asked = played.params("seal_effect")
    assert [params["undone"] for params in asked] == [[]] * len(asked)
    return [(params["transaction"], params["events"]) for params in asked]


def test_an_event_is_recorded_with_its_mark_run_sealed_and_committed() -> None:
    """P-ONCE: in this order, in one transaction."""
    played = one(item(handler()), BEFORE, RECORDED)
    assert played.names == ["begin", "record_event", "run", "seal_effect", "commit"]
    assert played.value == EventResult(outcome=Outcome.PROCESSED, event_id="evt_1", state=State.PROCESSED)
    assert seals(played) == [("900", [7])]


def test_the_transaction_is_bounded() -> None:
    """The server's limit comes a second after ours; the wait for a rival is ours alone, and never without end."""
    played = one(item(handler()), BEFORE, RECORDED)
    begin, record, run = played.steps[:3]
    assert isinstance(begin, Begin)
    assert (begin.seconds_max, begin.params) == (31.0, {"handler_ms": 31_000, "wait_ms": 2500})
    assert record.params["wait_ms"] == 2500
    assert isinstance(run, Run)
    assert (run.name, run.seconds_max) == ("billing.book", 30.0)
    short = play(record_one(item(), recording(wait_seconds=0)), [BEFORE])
    assert short.params("record_event")[0]["wait_ms"] == 1


def test_what_is_recorded_of_an_event() -> None:
    """Every column, each from its place."""
    body = b'{"id":"evt_1"}'
    given = arrival(
        key=key(account="acct_1"),
        event_type="invoice.paid",
        body=body,
        headers=Headers([("X-A", "1\x00"), ("X-A", "2")]),
        created_at=NOW,
        secret_label="new",
        origin=Origin.RECONCILE,
        kept='{"a": 1}',
        order_key="k",
    )
    (params,) = one(Item(given, (handler(),)), BEFORE).params("record_event")
    assert params == {
        "provider": "stripe",
        "endpoint": "billing",
        "account": "acct_1",
        "environment": "test",
        "event_id": "evt_1",
        "event_type": "invoice.paid",
        "state": State.PROCESSED,
        "origin": Origin.RECONCILE,
        "created_at": NOW,
        "secret_label": "new",
        "body_sha256": hashlib.sha256(body).digest(),
        "body_bytes": len(body),
        "kept": '{"a": 1}',
        "last_error": None,
        "attempts": 1,
        "body": body,
        "headers": '[["x-a", "1\N{REPLACEMENT CHARACTER}"], ["x-a", "2"]]',
        "keep_body": True,
        "wait_ms": 2500,
    }


@pytest.mark.parametrize(
    ("keep_body", "handlers", "kept"),
    [(True, True, True), (False, True, False), (True, False, True), (False, False, True)],
)
def test_bytes_are_left_out_only_where_the_event_is_processed_at_once(
    keep_body: bool, handlers: bool, kept: bool
) -> None:
    """P-KEEP: what is not processed keeps its bytes, whatever the endpoint says."""
    given = Item(arrival(keep_body=keep_body), (handler(),) if handlers else ())
    (params,) = one(given, BEFORE).params("record_event")
    assert (params["keep_body"], params["state"] is State.PROCESSED) == (kept, handlers)


@pytest.mark.parametrize(
    ("settled", "outcome"),
    [
        (State.IGNORED, Outcome.IGNORED),
        (State.QUARANTINED, Outcome.QUARANTINED),
        (State.DEAD, Outcome.DEAD),
        (State.WAITING, Outcome.QUEUED),
    ],
)
def test_an_event_that_is_settled_already_is_only_recorded(settled: State, outcome: Outcome) -> None:
    """No handler, and nothing to seal; its state and reason are kept and told."""
    given = Item(arrival(settled=settled, reason="because", attempts=3))
    played = one(given, BEFORE, RECORDED)
    assert played.names == ["begin", "record_event", "commit"]
    assert played.value == EventResult(outcome=outcome, event_id="evt_1", state=settled, reason="because")
    (params,) = played.params("record_event")
    assert (params["state"], params["last_error"], params["attempts"]) == (settled, "because", 3)


def first_copy(body: bytes, state: str = "processed", origin: str = "delivery") -> tuple[Any, ...]:
    """The row of the first copy."""
    return (7, state, MICROSECONDS, hashlib.sha256(body).digest(), origin)


@pytest.mark.parametrize("state", list(State))
def test_a_duplicate_hears_what_became_of_the_first_copy(state: State) -> None:
    """P-DUP, P-STATE: no row back is the unique key's own verdict; nothing runs."""
    given = item(handler())
    played = one(given, BEFORE, None, first_copy(given.arrival.body, state))
    assert played.names == ["begin", "record_event", "find_event", "commit"]
    assert played.value == EventResult(
        outcome=Outcome.DUPLICATE, event_id="evt_1", state=state, first_received_at=NOW
    )
    assert played.params("find_event") == [given.arrival.key.columns]


@pytest.mark.parametrize(
    ("signed_id", "origin", "first_origin", "evidence"),
    [
        (False, Origin.DELIVERY, "delivery", True),
        (True, Origin.DELIVERY, "delivery", False),
        (False, Origin.RECONCILE, "delivery", False),
        (False, Origin.DELIVERY, "reconcile", False),
        (False, Origin.RECONCILE, "reconcile", False),
    ],
)
def test_another_body_is_evidence_only_between_deliveries_of_an_unsigned_id(
    signed_id: bool, origin: Origin, first_origin: str, evidence: bool
) -> None:
    """Design 5.1: kept beside the first copy, never in its place; told either way."""
    given = arrival(body=b"other", signed_id=signed_id, origin=origin)
    played = one(Item(given), BEFORE, None, first_copy(b"first", origin=first_origin))
    assert ("record_conflict" in played.names) is evidence
    assert played.names[-1] == "commit"
    assert played.value is not None
    assert played.value.reason == "another body came under this id before"
    assert played.value.conflicting is evidence
    if evidence:
        assert played.params("record_conflict") == [
            {
                "inbox_id": 7,
                "body_sha256": hashlib.sha256(b"other").digest(),
                "body": b"other",
                "headers": json.dumps([["a", "b"]]),
            }
        ]


def test_the_same_body_under_an_unsigned_id_is_no_evidence() -> None:
    """A redelivery is no conflict; the driver may give bytes in any form."""
    given = arrival(signed_id=False)
    row = first_copy(given.body)
    played = one(Item(given), BEFORE, None, (*row[:3], memoryview(row[3]), row[4]))
    assert played.names == ["begin", "record_event", "find_event", "commit"]
    assert played.value is not None
    assert played.value.reason == ""


def test_a_first_copy_that_vanishes_is_no_duplicate() -> None:
    """P-DUP: without a row nobody can say what became of it: come again."""
    played = one(item(handler()), BEFORE, None, None)
    assert isinstance(played.error, KeyBusyError)
    assert str(played.error) == "the first copy of the event vanished while it was looked at"


@pytest.mark.parametrize(
    ("verdict", "state", "outcome"),
    [(Ignore("why"), State.IGNORED, Outcome.IGNORED), (GiveUp("why"), State.DEAD, Outcome.DEAD)],
)
def test_a_verdict_is_recorded_in_a_transaction_of_its_own(
    verdict: Exception, state: State, outcome: Outcome
) -> None:
    """P-STATE: rolled back, begun again, recorded with the reason, met by the unique key like any other."""
    played = one(
        item(handler(), keep_body=False), BEFORE, RECORDED, verdict, None, BEFORE, (8, MICROSECONDS, "901")
    )
    assert played.names == ["begin", "record_event", "run", "rollback", "begin", "record_event", "commit"]
    assert played.value == EventResult(outcome=outcome, event_id="evt_1", state=state, reason="why")
    params = played.params("record_event")[1]
    assert (params["state"], params["last_error"], params["attempts"]) == (state, "why", 1)
    assert params["keep_body"]
    assert played.params("begin") == [{"handler_ms": 31_000, "wait_ms": 2500}] * 2


def test_reviews_are_kept_beside_a_verdict() -> None:
    """What every handler asked a person to look at until then, each with the row that is recorded in the end."""

    def asks(tx: Any, event: Any) -> None:
        tx.review(f"look {event.id}", details={"n": 1})

    first, second = (Handler(Pattern("*"), asks, "sync", name) for name in ("a", "b"))
    given = item(first, second)
    plan = record_one(given, recording())
    next(plan)
    step: Any = plan.send((BEFORE, RECORDED))
    step.work(FakeSession())
    step = plan.send(None)
    step.work(FakeSession())
    played = play(resumed(plan, Ignore("x")), [None, BEFORE, (8, MICROSECONDS, "901"), (1,), (2,)])
    assert played.names == ["rollback", "begin", "record_event", "insert_review", "insert_review", "commit"]
    assert (
        played.params("insert_review")
        == [
            {
                "inbox_id": 8,
                "endpoint": "billing",
                "event_id": "evt_1",
                "summary": "look evt_1",
                "details": '{"n": 1}',
            }
        ]
        * 2
    )


def resumed(plan: Any, answer: object) -> Any:
    """The rest of *plan*, whose step comes to *answer*, as a plan."""
    try:
        step = plan.send(answer)
        while True:
            try:
                result = yield step
            except InboxError as error:
                step = plan.throw(error)
            else:
                step = plan.send(result)
    except StopIteration as stop:
        return stop.value


class FakeSession:
    """Takes what a handler writes through its Tx, and gives a row."""

    conn = object()
    ended = 0

    def execute(self, statement: Any, params: Any) -> tuple[int]:
        """Pretend to have run it."""
        assert set(params) == set(statement.parameters)
        self.ended += 1
        return (self.ended,)


def test_a_verdict_whose_key_a_rival_took_meanwhile_is_a_duplicate() -> None:
    """P-DUP: between the two transactions another copy may be recorded; its fate is told."""
    given = item(handler())
    row = first_copy(given.arrival.body)
    played = one(given, BEFORE, RECORDED, Ignore("x"), None, BEFORE, None, row)
    assert played.names[-3:] == ["record_event", "find_event", "commit"]
    assert played.value is not None
    assert (played.value.outcome, played.value.state) == (Outcome.DUPLICATE, State.PROCESSED)


def test_not_yet_leaves_nothing() -> None:
    """Rolled back, and raised with the time that was asked for: inline, the redelivery is the retry."""
    played = one(item(handler()), BEFORE, RECORDED, NotYet("no order yet", retry_in_seconds=9))
    assert played.names == ["begin", "record_event", "run", "rollback"]
    assert isinstance(played.error, HandlerNotYetError)
    assert played.error.retry_in_seconds == 9
    assert str(played.error) == "no order yet"
    silent = one(item(handler()), BEFORE, RECORDED, NotYet())
    assert str(silent.error) == "the handler asked to be run again"


ERRORS = [
    StoreUnavailableError("away"),
    ConflictError("conflict", sqlstate="40001"),
    KeyBusyError("busy", sqlstate="55P03"),
    HandlerFailedError("failed"),
    TransactionEndedError("ended"),
    HandlerTimeoutError("late"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("position", range(5))
def test_an_error_at_any_step_raises_out_of_the_plan(position: int, error: InboxError) -> None:
    """P-DUP, P-ACK: nothing is answered but what is committed; no error is swallowed, or taken for a duplicate."""
    answers: list[object] = [BEFORE, RECORDED, None, None, None]
    answers[position] = error
    played = one(item(handler()), *answers)
    named = position > 2 and isinstance(error, TransactionEndedError)
    assert played.error is not None
    assert (played.error.__cause__ if named else played.error) is error
    assert len(played.steps) == position + 1


def test_handlers_run_in_order_and_the_first_verdict_ends_it() -> None:
    """The later ones do not run."""
    given = item(handler("a"), handler("b"), handler("c"))
    played = one(given, BEFORE, RECORDED, None, Ignore("x"), None, BEFORE, (8, MICROSECONDS, "901"))
    runs = [step.name for step in played.steps if isinstance(step, Run)]
    assert runs == ["a", "b"]
    processed = one(given, BEFORE, RECORDED)
    assert [step.name for step in processed.steps if isinstance(step, Run)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "met",
    [
        StatementError("x", sqlstate="25P02"),
        StatementError("x", sqlstate="WI001"),
        TransactionEndedError("x"),
    ],
    ids=repr,
)
def test_a_transaction_that_cannot_be_sealed_names_the_handlers(met: InboxError) -> None:
    """P-ONCE: another transaction, one without the mark, one that is aborted or gone: a handler ended it."""
    given = item(handler("a"), handler("b"), handler("a"))
    played = one(given, BEFORE, RECORDED, None, None, None, met)
    assert isinstance(played.error, TransactionEndedError)
    assert str(played.error) == (
        "a, b committed, rolled back or aborted the transaction it was given; nothing is applied. "
        "Leave COMMIT and ROLLBACK to webhook-inbox, and let a database error rise or contain it in a savepoint"
    )
    assert "commit" not in played.names


@pytest.mark.parametrize(
    ("sqlstate", "name", "says"),
    [
        ("42501", HandlerFailedError, "RESET ROLE"),
        ("25P03", HandlerTimeoutError, "SQLSTATE 25P03"),
        ("25P04", HandlerTimeoutError, "SQLSTATE 25P04"),
        ("23514", HandlerFailedError, "SQLSTATE 23514"),
    ],
)
def test_what_the_seal_meets_is_named(sqlstate: str, name: type[InboxError], says: str) -> None:
    """A role that was left, a session that was ended, a statement that failed: all the handler's."""
    met = StatementError("x", sqlstate=sqlstate)
    played = one(item(handler()), BEFORE, RECORDED, None, met)
    assert type(played.error) is name
    assert says in str(played.error)
    assert "billing.book" in str(played.error)
    assert played.error.__cause__ is met


def test_a_commit_that_the_server_refuses_is_the_handlers_failure() -> None:
    """P-ONCE: a deferred constraint of the user's; without a handler the error is the statement's own."""
    cause = RuntimeError("the driver's error")
    refused = StatementError("x", sqlstate="23505")
    refused.__cause__ = cause
    played = one(item(handler()), BEFORE, RECORDED, None, None, refused)
    assert type(played.error) is HandlerFailedError
    assert str(played.error) == "the server refused to commit what billing.book wrote (SQLSTATE 23505)"
    assert played.error.__cause__ is cause
    without = one(Item(arrival(settled=State.IGNORED)), BEFORE, RECORDED, refused)
    assert without.error is refused


@pytest.mark.parametrize(
    ("error", "reason", "attempts"),
    [
        (HandlerFailedError("text of ours"), "webhook_inbox.errors.HandlerFailedError: text of ours", 1),
        (HandlerNotYetError("no order yet", retry_in_seconds=3), "no order yet", 0),
        (StatementError("x", sqlstate="42P01"), "webhook_inbox.errors.StatementError (SQLSTATE 42P01)", 1),
    ],
)
def test_an_event_that_is_set_aside_waits(error: Any, reason: str, attempts: int) -> None:
    """P-FLOW: it is recorded without its handlers; NotYet costs no attempt."""
    given = set_aside(item(handler(), event_id="evt_9"), error)
    assert given.handlers == ()
    kept = given.arrival
    assert (kept.settled, kept.reason, kept.attempts) == (State.WAITING, reason, attempts)
    assert kept.key.event_id == "evt_9"


def test_an_event_is_given_to_its_handlers_with_the_servers_time() -> None:
    """``received_at`` is what the server recorded; the run is the first."""
    seen: list[Any] = []
    given = item(Handler(Pattern("*"), lambda tx, event: seen.append(event), "sync", "a"))
    plan = record_one(given, recording())
    next(plan)
    step: Any = plan.send((BEFORE, RECORDED))
    step.work(FakeSession())
    (event,) = seen
    assert (event.received_at, event.attempt, event.key) == (NOW, 1, given.arrival.key)
    assert (event.type, event.body) == (given.arrival.event_type, given.arrival.body)
