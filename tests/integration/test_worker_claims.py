"""A claim takes what is due, oldest first, counts before any work begins, and never takes what another holds."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import EFFECTS, Queue, until
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.sql.statements import Statement, Statements

WAITING = """
INSERT INTO {s}.inbox
    (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes, available_at, order_key)
SELECT 'stripe', %s, %s || n, 'invoice.paid', %s, '\\x00', 1, now() + n * %s * interval '1 second', %s
FROM generate_series(1, %s) n
"""


def fill(
    box: Queue,
    count: int,
    *,
    endpoint: str = "billing",
    prefix: str = "e",
    state: str = "waiting",
    step: float = -1.0,
    key: str | None = None,
) -> None:
    """Put rows there as they would be after a while; the higher the number the longer it has been due."""
    box.rows(WAITING, endpoint, prefix, state, step, key, count)


def test_the_oldest_due_come_first_and_no_more_than_wanted(database: str) -> None:
    """Claims come by due time, then by arrival; what is not due yet is not claimed; the limit holds."""
    box = Queue(database)
    fill(box, 30)
    fill(box, 10, prefix="future", step=1000.0)
    worker_id = box.register()
    first = box.claim(worker_id, limit=7)
    assert [claim.event.id for claim in first] == [f"e{number}" for number in range(30, 23, -1)]
    assert {(claim.token, claim.event.attempt) for claim in first} == {(1, 1)}
    rest = box.claim(worker_id)
    assert [claim.event.id for claim in rest] == [f"e{number}" for number in range(23, 0, -1)]
    assert box.claim(worker_id) == ()


def test_rows_that_others_hold_are_skipped_without_a_wait(database: str) -> None:
    """P-FLOW: sixteen claimers at once: nobody waits, nothing is claimed twice, nothing is left."""
    box = Queue(database, connections_max=4)
    fill(box, 320)
    workers = [box.register(f"w{number}") for number in range(16)]
    claimed: list[str] = []
    together = threading.Barrier(16)

    def take(number: int) -> None:
        together.wait(20)
        while claims := box.claim(workers[number], limit=7):
            claimed.extend(claim.event.id for claim in claims)

    threads = [threading.Thread(target=take, args=[number]) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(claimed) == len(set(claimed)) == 320
    with psycopg.connect(box.dsn) as conn:
        fill(box, 3, prefix="new")
        conn.execute("SELECT FROM webhooks.inbox WHERE event_id = 'new2' FOR UPDATE")
        assert [claim.event.id for claim in box.claim(workers[0])] == ["new3", "new1"]


def test_token_and_attempt_are_committed_before_the_work(database: str) -> None:
    """P-COUNT: while the handler runs, another connection sees the event leased, its attempt and token counted."""

    async def story() -> None:
        box = Queue(database)
        box.rows(EFFECTS)
        seen: list[dict[str, Any]] = []

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            seen.append(box.event(event.id))
            assert event.attempt == seen[-1]["attempts"]

        await box.receive("evt_1", "evt_2")
        await box.drain()
        for row in seen:
            assert (row["state"], row["attempts"], row["claims"]) == ("leased", 1, 1)
            assert row["worker_id"] is not None
            assert row["effect_transaction"] is row["processed_at"] is None, "the mark is seen by nobody yet"
        await box.close()

    asyncio.run(story())


def test_a_token_is_raised_by_each_claim_and_never_given_back(database: str) -> None:
    """P-FENCE, P-COUNT: given back, an attempt is as if it had not been; the token remembers."""
    from webhook_inbox.protocol.process import give_back
    from webhook_inbox.protocol.run import Running

    box = Queue(database)
    fill(box, 1)
    worker_id = box.register()
    running = Running(sql=Statements.of("webhooks"), worker="w", report=lambda *_: None, dead=lambda *_: None)
    for token in range(1, 5):
        (claim,) = box.claim(worker_id)
        assert (claim.token, claim.event.attempt) == (token, 1)
        to = running.processing(box.billing.plan)
        assert box.run(lambda sql, claim=claim, to=to: give_back([claim], to)) == frozenset()  # type: ignore[misc]  # bound at once
        row = box.event("e1")
        assert (row["state"], row["attempts"], row["claims"], row["worker_id"]) == ("waiting", 0, token, None)


def test_a_paused_endpoint_receives_and_runs_nothing(database: str) -> None:
    """Paused, in every worker from its next claim on; receiving goes on; resumed, all of it runs."""

    async def story() -> None:
        box = Queue(database)
        other = box.endpoint("other")

        @box.billing.on("invoice.paid")
        @other.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute("SELECT 1")

        await box.inbox.pause("billing", by="somebody")
        await box.inbox.pause("billing", by="somebody else")
        assert {receipt.status for receipt in await box.receive("evt_1", "evt_2")} == {200}
        await box.receive("evt_other", to="other")
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        assert box.states() == {"waiting": 2, "processed": 1}
        assert await box.inbox.resume("billing")
        assert not await box.inbox.resume("billing")
        assert await box.drain() == {RunOutcome.PROCESSED: 2}
        await box.close()

    asyncio.run(story())


def scanned(box: Queue, endpoint: str, limit: int, *, due_since: int = 0) -> int:
    """How many rows a claim looks at."""
    values = {
        "endpoints": [endpoint],
        "limits": [limit],
        "hold_seconds": [1e9],
        "due_since": [due_since],
        "solitary": [True],
        "worker_id": box.register(),
        "limited": False,
    }
    return rows_looked_at(box, Statements.of("webhooks").claim_events, values)


def rows_looked_at(box: Queue, statement: Statement, values: dict[str, Any]) -> int:
    """How many rows a statement looks at, over all nodes of its plan."""
    with psycopg.connect(box.dsn) as conn:
        text = "EXPLAIN (ANALYZE, FORMAT JSON) " + statement.text
        row = conn.execute(text.encode(), values).fetchone()
        conn.rollback()
    assert row is not None
    plan: dict[str, Any] = row[0][0]["Plan"]

    def total(node: dict[str, Any]) -> int:
        looked_at = sum(value for name, value in node.items() if name.startswith("Rows Removed"))
        own = (node["Actual Rows"] + looked_at) * node["Actual Loops"] if "Scan" in node["Node Type"] else 0
        return int(own + sum(total(child) for child in node.get("Plans", [])))

    return total(plan)


@pytest.fixture
def crowded(database: str) -> Queue:
    """A database with 50,000 processed events over a week, 20,000 retries that are not due, and some work."""
    box = Queue(database)
    box.rows("""
        INSERT INTO {s}.inbox (provider, endpoint, event_id, event_type, state, processed_at, body_sha256, body_bytes,
                               received_at, available_at, order_key)
        SELECT 'stripe', 'billing', 'p' || n, 't', 'processed', now(), '\\x00', 100,
               now() - n * interval '10 seconds', now() - n * interval '10 seconds', 'key' || n % 1000
        FROM generate_series(1, 50000) n""")
    box.rows("INSERT INTO {s}.bodies SELECT received_at, id, '\\x00', '[]' FROM {s}.inbox")
    fill(box, 20_000, prefix="r", state="retrying", step=1000.0)
    fill(box, 500)
    fill(box, 500, prefix="h", key="hot")
    return box


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_claim_looks_at_what_it_takes(crowded: Queue, analyzed: bool) -> None:
    """P-FLOW: rows looked at grow with the batch, not with what is processed or not due."""
    if analyzed:
        crowded.rows("ANALYZE")
    for limit in (5, 20):
        looked_at = scanned(crowded, "billing", limit)
        # A few scans of each row: due, its own row again, its body; and the held ones of the hot key that lie before.
        assert looked_at <= 12 * limit + 60, (limit, looked_at)


def test_an_idle_claim_looks_at_next_to_nothing(crowded: Queue) -> None:
    """P-FLOW: where nothing is due, 20,000 retries of later cost nothing."""
    crowded.rows("UPDATE {s}.inbox SET state = 'ignored' WHERE state = 'waiting'")
    crowded.rows("VACUUM {s}.inbox")
    looked_at = scanned(crowded, "billing", 20)
    assert looked_at < 20, looked_at


@pytest.mark.parametrize("analyzed", [False, True])
def test_a_limit_is_measured_by_looking_at_what_is_leased(crowded: Queue, analyzed: bool) -> None:
    """P-FLOW: not at what is processed, waits or is not due, however much of it there is."""
    assert len(crowded.claim(crowded.register(), 7)) == 7
    crowded.rows(
        "INSERT INTO {s}.endpoints (name, paused_at, concurrency, limited_at) VALUES ('billing', NULL, 9, now())"
    )
    if analyzed:
        crowded.rows("ANALYZE")
    measured = Statements.of("webhooks").measure_limits
    assert rows_looked_at(crowded, measured, {"endpoints": ["billing"]}) < 20


def test_a_claim_can_begin_where_the_last_one_ended(crowded: Queue) -> None:
    """P-FLOW: what lies before that time is not looked at, however much of it there is."""
    crowded.rows("UPDATE {s}.inbox SET available_at = now() - interval '1 hour' WHERE state = 'retrying'")
    (row,) = crowded.rows(
        "INSERT INTO {s}.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes) "
        "VALUES ('stripe', 'billing', 'evt_last', 'invoice.paid', 'waiting', '', 0) "
        "RETURNING (extract(epoch FROM available_at) * 1000000)::bigint AS due_at"
    )
    assert scanned(crowded, "billing", 20, due_since=row["due_at"]) < 20


def test_what_turns_up_behind_the_last_claim_is_run_too(database: str) -> None:
    """P-FLOW: a commit that came late has an older due time; a worker that is past it looks back within a second."""

    async def story() -> None:
        box = Queue(database)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute("SELECT 1")

        async with box.working():
            await box.receive("evt_new")
            await until(lambda: box.states() == {"processed": 1}, 10)
            box.rows(
                "INSERT INTO {s}.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes, "
                "available_at) VALUES ('stripe', 'billing', 'evt_late', 'invoice.paid', 'waiting', '', 0, "
                "now() - interval '1 hour') RETURNING id"
            )
            await until(lambda: box.states() == {"processed": 2}, 10)
        await box.close()

    asyncio.run(story())
