"""A rehearsal ends as the run would, tells all that it would change, and keeps out of the way of workers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import EFFECTS, Queue
from tests.fixtures.recorded import Recorded
from webhook_inbox import GiveUp, Ignore, NotYet
from webhook_inbox.model.rehearsed import Rehearsed, RowChange
from webhook_inbox.protocol import rehearse as module
from webhook_inbox.protocol.look import find_events
from webhook_inbox.protocol.rehearse import paired

SECONDS_MAX = 20.0
BOOKED = "INSERT INTO effects (event_id, note) VALUES ('evt_1', 'booked')"


class Stage(Queue):
    """An inbox with one event, whose handler is the test's."""

    def __init__(self, dsn: str, state: str = "dead", **given: Any) -> None:
        super().__init__(dsn, **given)
        self.rows(EFFECTS)
        self.recorded = Recorded(dsn)
        self.recorded.add("evt_1", state, endpoint="billing")

    def rehearse(self, event_id: str = "evt_1") -> Rehearsed:
        """Rehearse it, and see that nothing has stayed."""
        before = [self.rows(f"SELECT xmin::text, * FROM {name}") for name in ("webhooks.inbox", "effects")]

        async def story() -> Rehearsed:
            async with self.inbox.running():
                (record,) = await self.inbox.perform(partial(find_events, event_id))
                return await self.inbox.rehearse(record)

        done = asyncio.run(story())
        assert [
            self.rows(f"SELECT xmin::text, * FROM {name}") for name in ("webhooks.inbox", "effects")
        ] == before
        assert self.rows("SELECT * FROM webhooks.outbox") == self.rows("SELECT * FROM webhooks.reviews") == []
        return done


@pytest.mark.parametrize(
    ("raised", "end", "reason", "reviewed"),
    [
        (Ignore("not ours"), "ignored", "not ours", True),
        (GiveUp("unknown plan"), "dead", "unknown plan", True),
        (NotYet("no such order"), "not_yet", "no such order", False),
    ],
)
def test_a_handler_that_steers_ends_as_in_a_run(
    database: str, raised: Exception, end: str, reason: str, reviewed: bool
) -> None:
    """Its writes would be rolled back, its reviews kept but for NotYet."""
    box = Stage(database)

    @box.billing.on("invoice.paid")
    def steer(tx: Any, event: Any) -> None:
        tx.conn.execute(BOOKED)
        tx.emit("Booked", {})
        tx.review("look")
        raise raised

    done = box.rehearse()
    assert (done.end, done.reason, done.rows, done.messages) == (end, reason, (), ())
    assert bool(done.reviews) is reviewed


def test_a_failure_is_shown_with_its_place_and_without_what_it_says(database: str) -> None:
    """As in the history of a run (P-QUIET); so is one that only COMMIT would meet."""
    box = Stage(database)
    box.rows(
        "ALTER TABLE effects ADD CONSTRAINT effects_once UNIQUE (event_id) DEFERRABLE INITIALLY DEFERRED"
    )

    @box.billing.on("invoice.paid")
    def fail(tx: Any, event: Any) -> None:
        raise KeyError("canary")

    @box.billing.on("invoice.late")
    def fail_late(tx: Any, event: Any) -> None:
        tx.conn.execute(BOOKED)
        tx.conn.execute(BOOKED)

    done = box.rehearse()
    assert (done.end, done.rows) == ("failed", ())
    assert done.failure is not None
    assert done.failure.type == "KeyError"
    assert done.failure.frames[-1].endswith("fail")
    assert "canary" not in str(done)
    box.recorded.add("evt_2", "ignored", endpoint="billing", event_type="invoice.late")
    late = box.rehearse("evt_2")
    assert (late.end, late.reason.endswith("(SQLSTATE 23505)")) == ("failed", True), late
    assert "fail_late" in late.reason


@pytest.mark.parametrize(
    ("state", "kept", "end", "words"),
    [
        ("leased", True, "refused", "being run by a worker that is gone"),
        ("quarantined", True, "refused", "no event was found in it"),
        ("processed", False, "refused", "its bytes are not kept"),
    ],
)
def test_what_cannot_be_run_is_not_rehearsed(
    database: str, state: str, kept: bool, end: str, words: str
) -> None:
    """Least of all what a worker runs (P-FENCE)."""
    box = Stage(database)
    box.recorded.add("evt_2", state, endpoint="billing", kept=kept)

    @box.billing.on("*")
    def never(tx: Any, event: Any) -> None:
        raise AssertionError

    done = box.rehearse("evt_2")
    assert done.end == end
    assert words in done.reason


def test_an_event_without_a_handler_would_be_ignored(database: str) -> None:
    """It is said for which type."""
    done = Stage(database).rehearse()
    assert (done.end, done.reason) == ("ignored", "no handler for invoice.paid")


def test_no_worker_claims_an_event_while_it_is_rehearsed(database: str) -> None:
    """It passes the event by, and runs it afterwards; one that has it is not disturbed (P-FENCE)."""
    box = Stage(database, "waiting")
    rehearsing, go_on = threading.Event(), threading.Event()
    runs: list[str] = []

    @box.billing.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        runs.append(event.origin)
        if not rehearsing.is_set():
            rehearsing.set()
            assert go_on.wait(SECONDS_MAX)
        tx.conn.execute(BOOKED)

    async def story() -> Rehearsed:
        async with box.inbox.running():
            (record,) = await box.inbox.perform(partial(find_events, "evt_1"))
            task = asyncio.create_task(box.inbox.rehearse(record))
            assert await asyncio.to_thread(rehearsing.wait, SECONDS_MAX)
            assert (await box.drain()).total() == 0
            go_on.set()
            return await task

    done = asyncio.run(story())
    assert (done.end, len(runs)) == ("processed", 1)
    asyncio.run(box.drain())
    assert (len(runs), len(box.rows("SELECT * FROM effects"))) == (2, 1)


def test_an_event_that_a_worker_claimed_meanwhile_is_left_to_it(database: str) -> None:
    """Between the look at it and the lock on it (P-FENCE)."""
    box = Stage(database, "waiting")

    @box.billing.on(
        "invoice.paid", prepare=lambda event: box.rows("UPDATE webhooks.inbox SET state = 'leased'")
    )
    def never(tx: Any, event: Any, prepared: Any) -> None:
        raise AssertionError

    async def story() -> Rehearsed:
        async with box.inbox.running():
            (record,) = await box.inbox.perform(partial(find_events, "evt_1"))
            return await box.inbox.rehearse(record)

    assert asyncio.run(story()).end == "refused"


def test_rows_of_savepoints_triggers_and_shared_locks_are_found(database: str) -> None:
    """Whoever wrote them within the transaction; not what a savepoint has undone, nor what is out of reach."""
    box = Stage(database)
    box.rows("CREATE TABLE accounts (id int PRIMARY KEY, total int)")
    box.rows("INSERT INTO accounts SELECT n, 0 FROM generate_series(1, 5) n")
    box.rows("CREATE TABLE notes (account int REFERENCES accounts, text text)")
    box.rows(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN INSERT INTO notes VALUES (NEW.id, ''changed''); RETURN NULL; END'"
    )
    box.rows("CREATE TRIGGER note AFTER UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION note()")

    @box.billing.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        tx.conn.execute("SELECT * FROM accounts WHERE id IN (1, 2) FOR NO KEY UPDATE")
        with tx.conn.transaction():
            tx.conn.execute("UPDATE accounts SET total = 7 WHERE id = 1")
        with contextlib.suppress(psycopg.errors.DivisionByZero), tx.conn.transaction():
            tx.conn.execute("UPDATE accounts SET total = 8 WHERE id = 3")
            tx.conn.execute("SELECT 1 / 0")
        tx.conn.execute("CREATE TEMPORARY TABLE mine ON COMMIT DROP AS SELECT 1")
        with tx.conn.transaction():
            tx.conn.execute("DELETE FROM accounts WHERE id = 5")

    with psycopg.connect(database) as other:
        # It shares a lock on the rows, so that several lockers stand in them.
        other.execute("SELECT * FROM accounts WHERE id IN (1, 3) FOR KEY SHARE")
        done = box.rehearse()
    assert (done.end, done.whole, done.unread) == ("processed", True, ())
    assert set(map(str, done.rows)) == set(
        map(
            str,
            [
                RowChange(table="public.accounts", before={"id": 1, "total": 0}, after={"id": 1, "total": 7}),
                RowChange(table="public.accounts", before={"id": 5, "total": 0}, after=None),
                RowChange(table="public.notes", before=None, after={"account": 1, "text": "changed"}),
            ],
        )
    )


def test_more_rows_than_are_told_are_said_to_be_more(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each table a bounded number is read."""
    monkeypatch.setattr(module, "ROWS_MAX", 2)
    box = Stage(database)

    @box.billing.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        tx.conn.execute("INSERT INTO effects (event_id) SELECT 'e' FROM generate_series(1, 3)")

    done = box.rehearse()
    assert (done.end, done.whole, len(done.rows)) == ("processed", False, 2)


def test_tables_that_cannot_be_searched_in_time_leave_the_rest_told(database: str) -> None:
    """The server's limit for a statement ends the search, and not the rehearsal."""
    box = Stage(database, handler_seconds_max=1)
    box.rows("CREATE TYPE slow AS ENUM ('a')")
    box.rows(
        "CREATE FUNCTION told(slow) RETURNS json LANGUAGE sql AS "
        "$$ SELECT to_json(1) FROM (SELECT pg_sleep(30)) waited $$; CREATE CAST (slow AS json) WITH FUNCTION told(slow)"
    )
    box.rows("CREATE TABLE vast (id slow)")

    @box.billing.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        tx.conn.execute("INSERT INTO vast VALUES ('a')")
        tx.emit("Booked", {})

    done = box.rehearse()
    assert (done.end, done.whole, done.rows, len(done.messages)) == ("processed", False, (), 1)


def test_a_row_without_a_key_is_one_less_and_one_more() -> None:
    """Nothing says that they are the same; with a key that another row has taken over, they are."""
    rows = [
        ("t", [], "(0,2)", True, '{"a": 2}'),
        ("t", [], "(0,1)", False, '{"a": 1}'),
        ("k", ["id"], "(0,2)", True, '{"id": 1, "a": 2}'),
        ("k", ["id"], "(0,1)", False, '{"id": 1, "a": 1}'),
        ("k", ["id"], "(0,9)", False, ""),
        ("k", ["id"], "(0,9)", False, '{"id": 9, "a": 9}'),
        ("x", ["id"], "", True, None),
    ]
    assert paired(rows) == (
        RowChange(table="k", before={"id": 1, "a": 1}, after={"id": 1, "a": 2}),
        RowChange(table="t", before=None, after={"a": 2}),
        RowChange(table="t", before={"a": 1}, after=None),
    )
