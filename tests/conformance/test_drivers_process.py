"""Every driver carries a worker's plans: claimed, run, failed, fenced, in batches and in sets."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, TypeAlias

import psycopg
import pytest

from tests.fixtures.drivers import Bench, Script
from tests.fixtures.worlds import say
from webhook_inbox.errors import HandlerFailedError
from webhook_inbox.model.claim import Claim, Retry, WorkerId
from webhook_inbox.model.failure import describe
from webhook_inbox.model.limit import Limit
from webhook_inbox.model.steering import GiveUp
from webhook_inbox.protocol import limits
from webhook_inbox.protocol.batch import process_batch, process_set
from webhook_inbox.protocol.handlers import Handler, Pattern
from webhook_inbox.protocol.lease import Wanted, claim, register
from webhook_inbox.protocol.operate import Operator
from webhook_inbox.protocol.process import (
    Processing,
    RunOutcome,
    Work,
    fail,
    give_back,
    process,
)
from webhook_inbox.sql.statements import Statements

Steps: TypeAlias = Generator[Any, Any, None]
SQL = Statements.of("webhooks")
RETRY = Retry(backoff_seconds_max=60.0, retry_seconds_max=3600.0, attempts_max=0)
TO = Processing(sql=SQL, wait_seconds=5.0, handler_seconds_max=30.0, retry=RETRY, worker="test")


@pytest.fixture
def claims(bench: Bench, effects: psycopg.Connection[Any]) -> tuple[Claim, ...]:
    """Three events, recorded and claimed by the driver under test."""
    effects.execute(
        "INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes)"
        " SELECT 'stripe', 'billing', 'evt_' || n, 'invoice.paid', 'waiting', '', 1 FROM generate_series(1, 3) n"
    )
    effects.execute(
        "INSERT INTO webhooks.bodies (received_at, id, body, headers)"
        """ SELECT received_at, id, '\\x7b00ff', '[["a", "é"], ["a", "2"]]' FROM webhooks.inbox"""
    )
    worker_id: WorkerId = bench.run(lambda: register("test", 60.0, SQL))
    wanted = Wanted(endpoint="billing", limit=10, hold_seconds=0.0)
    return bench.run(lambda: claim([wanted], worker_id, SQL))


def states(witness: psycopg.Connection[Any]) -> dict[str, str]:
    """The state of each event."""
    return dict(witness.execute("SELECT event_id, state FROM webhooks.inbox").fetchall())


def count(witness: psycopg.Connection[Any]) -> int:
    """How many effects were committed."""
    row = witness.execute("SELECT count(*) FROM effect").fetchone()
    assert row is not None
    return int(row[0])


def writes(tx: Any, event: Any) -> Steps:
    """Write an effect and a message."""
    yield say(tx.conn, "INSERT INTO effect VALUES (1)")
    yield tx.emit("Booked", {"of": event.id})


def fails(tx: Any, event: Any) -> Steps:
    """Write, and fail."""
    yield from writes(tx, event)
    raise ValueError


def test_a_claim_brings_all_that_a_run_needs(claims: tuple[Claim, ...]) -> None:
    """P-COUNT: the first token, the first attempt; the bytes, and every header with its letters and its order."""
    assert [claim.event.id for claim in claims] == ["evt_1", "evt_2", "evt_3"]
    for each in claims:
        assert (each.token, each.event.attempt, each.solitary, each.order_key) == (1, 1, False, None)
        assert each.event.body == b"\x7b\x00\xff"
        assert list(each.event.headers.pairs) == [("a", "é"), ("a", "2")]
        assert each.event.received_at is not None


def test_a_claim_keeps_within_a_limit(
    bench: Bench, claims: tuple[Claim, ...], effects: psycopg.Connection[Any]
) -> None:
    """What has a limit is passed by, and claimed within it: by its places, and by its rate (P-CLOCK)."""
    by, sql = Operator("ada"), SQL
    effects.execute("UPDATE webhooks.inbox SET state = 'waiting' WHERE event_id <> 'evt_1'")
    wanted = [Wanted(endpoint="billing", limit=10, hold_seconds=0.0)]
    holder = claims[0].worker_id

    def asked(*, looking: bool) -> limits.Claimed:
        known = () if looking else ("billing",)
        return bench.run(lambda: limits.claim(wanted, known, holder, sql, looking=looking))

    assert bench.run(lambda: limits.limit_endpoint("billing", Limit(concurrency=1), by, "webhooks"))
    assert bench.run(lambda: claim(wanted, holder, sql)) == ()
    assert asked(looking=True) == limits.Claimed((), {"billing": math.inf})
    both = Limit(concurrency=2, rate_events=1, rate_seconds=3600)
    assert bench.run(lambda: limits.limit_endpoint("billing", both, by, "webhooks"))
    effects.execute("UPDATE webhooks.endpoints SET spent_until = now() - interval '2 hours'")
    found = asked(looking=False)
    assert len(found.claims) == 1
    assert 3590 < found.waits["billing"] <= 3600
    assert bench.run(lambda: limits.limit_endpoint("billing", Limit(), by, "webhooks"))
    assert asked(looking=False) == limits.Claimed()
    assert len(bench.run(lambda: claim(wanted, holder, sql))) == 1


def test_a_claimed_event_is_processed_once(
    bench: Bench, claims: tuple[Claim, ...], effects: psycopg.Connection[Any]
) -> None:
    """P-ONCE, P-FENCE: effect, message and mark together; the same claim finds nothing to do a second time."""
    work = Work(claims[0], (bench.handler(writes),))
    assert bench.run(lambda: process(work, TO)) is RunOutcome.PROCESSED
    assert (states(effects)["evt_1"], count(effects)) == ("processed", 1)
    assert bench.run(lambda: process(work, TO)) is RunOutcome.LEASE_LOST
    assert count(effects) == 1
    assert effects.execute("SELECT count(*) FROM webhooks.outbox").fetchone() == (1,)


def test_a_claim_that_another_has_taken_over_commits_nothing(
    bench: Bench, claims: tuple[Claim, ...], effects: psycopg.Connection[Any]
) -> None:
    """P-FENCE: neither a run, nor a failure, nor a give-back changes anything under an older token."""
    effects.execute("UPDATE webhooks.inbox SET claims = claims + 1 WHERE event_id = 'evt_1'")
    late = claims[0]
    failure = describe(ValueError())
    assert bench.run(lambda: process(Work(late, (bench.handler(writes),)), TO)) is RunOutcome.LEASE_LOST
    assert (
        bench.run(
            lambda: fail(
                late, failure, shown="x", seconds=0.5, retry_in_seconds=1.0, costs_attempt=True, to=TO
            )
        )
        is RunOutcome.LEASE_LOST
    )
    assert bench.run(lambda: give_back([late], TO)) == frozenset()
    assert (states(effects)["evt_1"], count(effects)) == ("leased", 0)


def test_a_failure_is_recorded_with_its_history(
    bench: Bench, claims: tuple[Claim, ...], effects: psycopg.Connection[Any]
) -> None:
    """The handler's writes are gone; the event is due again, and the run stands in the history."""
    with pytest.raises(HandlerFailedError) as caught:
        bench.run(lambda: process(Work(claims[0], (bench.handler(fails),)), TO))
    failure = describe(caught.value)
    outcome = bench.run(
        lambda: fail(
            claims[0],
            failure,
            shown=str(failure),
            seconds=0.25,
            retry_in_seconds=7.5,
            costs_attempt=True,
            to=TO,
        )
    )
    assert (outcome, states(effects)["evt_1"], count(effects)) == (RunOutcome.RETRYING, "retrying", 0)
    history = "SELECT attempt, seconds, outcome, error_type FROM webhooks.attempts"
    assert effects.execute(history).fetchall() == [(1, 0.25, "failed", "ValueError")]
    assert bench.run(lambda: give_back(claims[1:], TO)) == frozenset()
    assert states(effects) == {"evt_1": "retrying", "evt_2": "waiting", "evt_3": "waiting"}


def test_in_a_batch_one_that_fails_takes_only_itself_back(
    bench: Bench, claims: tuple[Claim, ...], effects: psycopg.Connection[Any]
) -> None:
    """P-FLOW: a savepoint each in one transaction; what failed is told, its mates are processed."""
    works = [
        Work(claim, (bench.handler(script),))
        for claim, script in zip(claims, (writes, fails, writes), strict=True)
    ]
    first, second, third = bench.run(lambda: process_batch(works, TO))
    assert (first, third) == (RunOutcome.PROCESSED, RunOutcome.PROCESSED)
    assert isinstance(second, HandlerFailedError)
    assert states(effects) == {"evt_1": "processed", "evt_2": "leased", "evt_3": "processed"}
    assert count(effects) == 2


def test_a_set_runs_at_once(
    bench: Bench, claims: tuple[Claim, ...], effects: psycopg.Connection[Any]
) -> None:
    """P-ONCE: one call for all of them, one transaction."""

    def script(tx: Any, events: Any) -> Steps:
        for event in events:
            yield say(tx.conn, "INSERT INTO effect VALUES (1)")
            yield tx.emit("Booked", {"of": event.id}, event=event)

    one = bench.handler(script)
    handler = Handler(Pattern("*"), one.function, one.kind, one.name, batch=True)
    outcomes = bench.run(lambda: process_set(handler, claims, TO))
    assert outcomes == (RunOutcome.PROCESSED,) * 3
    assert count(effects) == 3


def test_an_event_that_is_given_up_keeps_its_review(
    bench: Bench, claims: tuple[Claim, ...], effects: psycopg.Connection[Any]
) -> None:
    """The writes are rolled back, the verdict and the review are committed, in a second transaction of the plan."""

    def script(tx: Any, event: Any) -> Steps:
        yield say(tx.conn, "INSERT INTO effect VALUES (1)")
        yield tx.review("look", details={"of": event.id})
        raise GiveUp("unknown plan")

    works: tuple[Script, ...] = (script,)
    outcome = bench.run(lambda: process(Work(claims[0], tuple(map(bench.handler, works))), TO))
    assert (outcome, states(effects)["evt_1"], count(effects)) == (RunOutcome.DEAD, "dead", 0)
    assert effects.execute("SELECT summary, details FROM webhooks.reviews").fetchall() == [
        ("look", {"of": "evt_1"})
    ]
