"""Events that share a transaction meet rows that somebody else has locked: they are left for later, without cost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import EFFECTS, Queue, until
from webhook_inbox.protocol.batch import BUSY_EVENTS_MAX, process_batch
from webhook_inbox.protocol.process import RunOutcome, Work
from webhook_inbox.protocol.run import Running
from webhook_inbox.sql.statements import Statements

TABLES = f"""
{EFFECTS};
CREATE TABLE accounts (id text PRIMARY KEY, balance integer NOT NULL DEFAULT 0);
INSERT INTO accounts SELECT 'evt_' || number FROM generate_series(1, 60) number
"""
PAY = "UPDATE accounts SET balance = balance + 1 WHERE id = %s"
BOOK = "INSERT INTO effects (event_id) VALUES (%s)"


class Accounts:
    """Hold an inbox whose events each pay into an account: their own, or one for all."""

    def __init__(self, dsn: str, *, shared: bool = False, **given: Any) -> None:
        self.box = Queue(dsn, **given)
        self.runs: list[str] = []

        @self.box.billing.on("*")
        def pay(tx: Any, event: Any) -> None:
            self.runs.append(event.id)
            tx.conn.execute(PAY, ["evt_1" if shared else event.id])
            tx.conn.execute(BOOK, [event.id])

    async def claimed(self, count: int) -> list[Work]:
        """Deliver *count* events, claim them and give the work of each, in the order of their ids."""
        await self.box.receive(*names(count))
        claims = self.box.claim(self.box.register("mine"))
        handlers = self.box.billing.plan.handlers.matching("invoice.paid")
        ordered = sorted(claims, key=lambda claim: int(claim.event.id[4:]))
        return [Work(each, handlers) for each in ordered]

    def together(self, works: list[Work], *, patient: bool) -> list[Any]:
        """Run *works* in one transaction."""
        running = Running(
            sql=Statements.of("webhooks"), worker="mine", report=lambda *_: None, dead=lambda *_: None
        )
        to = running.processing(self.box.billing.plan)
        return list(self.box.run(lambda _: process_batch(works, to, patient=patient)))


def names(count: int) -> list[str]:
    """The ids of *count* events."""
    return [f"evt_{number}" for number in range(1, count + 1)]


@contextmanager
def locked(dsn: str, *accounts: str) -> Iterator[None]:
    """Lock *accounts* while the block runs, as another transaction of the business does."""
    with psycopg.connect(dsn) as conn:
        conn.execute("SELECT 1 FROM accounts WHERE id = ANY(%s) FOR UPDATE", [list(accounts)])
        yield
        conn.rollback()


@pytest.mark.parametrize(
    ("patient", "outcome"),
    [(False, RunOutcome.BUSY), (True, RunOutcome.NOT_RUN)],
    ids=["at first", "patient"],
)
def test_an_event_that_meets_a_lock_leaves_its_mates_their_commit(
    database: str, patient: bool, outcome: RunOutcome
) -> None:
    """P-FLOW, P-ONCE: it takes back what it did, keeps its claim and loses its mark; what follows it runs."""

    async def story() -> None:
        accounts = Accounts(database)
        accounts.box.rows(TABLES)
        works = await accounts.claimed(4)
        with locked(database, "evt_2"):
            met = accounts.together(works, patient=patient)
        assert met == [RunOutcome.PROCESSED, outcome, RunOutcome.PROCESSED, RunOutcome.PROCESSED]
        assert sorted(accounts.box.effects()) == ["evt_1", "evt_3", "evt_4"]
        left = accounts.box.rows("SELECT state, attempts FROM {s}.inbox WHERE event_id = 'evt_2'")
        assert [tuple(row.values()) for row in left] == [("leased", 1)]
        assert accounts.together([works[1]], patient=True) == [RunOutcome.PROCESSED]
        assert sorted(accounts.box.effects()) == names(4)
        await accounts.box.close()

    asyncio.run(story())


def test_a_batch_that_meets_locks_again_and_again_leaves_the_rest_unrun(database: str) -> None:
    """P-FLOW: each of these waits would hold what the batch has locked, and keep others from it."""

    async def story() -> None:
        accounts = Accounts(database)
        accounts.box.rows(TABLES)
        works = await accounts.claimed(BUSY_EVENTS_MAX + 4)
        with locked(database, *names(60)[1:]):
            met = accounts.together(works, patient=False)
        assert met == [RunOutcome.PROCESSED, *[RunOutcome.BUSY] * (len(works) - 1)]
        assert accounts.runs == names(BUSY_EVENTS_MAX + 1)
        assert accounts.box.effects() == ["evt_1"]
        await accounts.box.close()

    asyncio.run(story())


def test_a_worker_goes_on_past_what_is_locked_and_comes_back_to_it(database: str) -> None:
    """P-COUNT, P-FLOW: all others are processed meanwhile; the two that waited are, later, at their first attempt."""

    async def story() -> None:
        accounts = Accounts(database)
        accounts.box.rows(TABLES)
        await accounts.box.receive(*names(60))
        async with accounts.box.working():
            with locked(database, "evt_7", "evt_23"):
                await until(lambda: len(accounts.box.effects()) == 58)
                assert not {"evt_7", "evt_23"} & set(accounts.box.effects())
            await until(lambda: len(accounts.box.effects()) == 60)
        await accounts.box.close()
        once(accounts, 60)

    asyncio.run(story())


def test_workers_whose_events_all_want_one_row_lose_none(database: str) -> None:
    """P-ONCE, P-COUNT: two workers, many transactions, one account: each event is paid once, at its first attempt."""

    async def story() -> None:
        accounts = Accounts(database, shared=True)
        other = Accounts(database, shared=True)
        accounts.box.rows(TABLES)
        await accounts.box.receive(*names(60))
        await asyncio.gather(accounts.box.drain(), other.box.drain())
        await asyncio.gather(accounts.box.close(), other.box.close())
        once(accounts, 60)
        paid = accounts.box.rows("SELECT balance FROM accounts WHERE id = 'evt_1'")
        assert [tuple(row.values()) for row in paid] == [(60,)]

    asyncio.run(story())


def test_what_is_locked_for_long_is_left_a_few_times_and_then_waited_for(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-FLOW: no worker turns for ever around two rows that somebody keeps: each runs by itself, and out of time."""
    # So that it is for these two alone to end it.
    monkeypatch.setattr("webhook_inbox.runtime.pace.CONTENDED", 2.0)

    async def story() -> None:
        accounts = Accounts(database, concurrency_max=1, handler_seconds_max=1.0)
        accounts.box.rows(TABLES)
        await accounts.box.receive(*names(6))
        async with accounts.box.working():
            with locked(database, "evt_2", "evt_4"):
                await until(lambda: all(accounts.box.attempts(each) for each in ("evt_2", "evt_4")))
                assert len(accounts.box.effects()) == 4
            accounts.box.make_due()
            await until(lambda: len(accounts.box.effects()) == 6)
        await accounts.box.close()
        assert sorted(accounts.box.effects()) == names(6)

    asyncio.run(story())


def test_what_was_left_is_not_held_while_an_event_runs_alone(database: str) -> None:
    """P-COUNT: it would be a suspect of the death that the other one may cause; it is given back, at no cost."""
    held: list[str] = []
    leased = "SELECT event_id FROM {s}.inbox WHERE state = 'leased'"

    async def story() -> None:
        box = Queue(database, concurrency_max=2)
        box.rows(TABLES)
        box.rows("INSERT INTO accounts VALUES ('evt_alone')")

        @box.billing.on("*")
        async def pay(tx: Any, event: Any) -> None:
            if event.id == "evt_1":  # of the two transactions, the one that has evt_2, too
                await until(lambda: {"event_id": "evt_alone"} in box.rows(leased))
            if event.id == "evt_alone":
                held.extend(row["event_id"] for row in box.rows(leased))
            await tx.conn.execute(PAY, [event.id])
            await tx.conn.execute(BOOK, [event.id])

        await box.receive("evt_alone")
        box.rows(
            "UPDATE {s}.inbox SET crashes = 1, solitary = true, available_at = now() + interval '1 hour'"
        )
        await box.receive(*names(4))
        with locked(database, "evt_2"):
            async with box.working():
                await until(lambda: sorted(box.effects()) == ["evt_3", "evt_4"])
                box.rows("UPDATE {s}.inbox SET available_at = now() WHERE solitary")
                await until(lambda: "evt_alone" in box.effects())
        await box.drain()
        await box.close()
        assert held == ["evt_alone"]
        assert sorted(box.effects()) == [*names(4), "evt_alone"]
        assert box.event("evt_2")["attempts"] == 1

    asyncio.run(story())


def once(accounts: Accounts, count: int) -> None:
    """Each of *count* events has had its effect once, and none has paid for having waited."""
    assert sorted(accounts.box.effects()) == sorted(names(count))
    states = accounts.box.rows("SELECT DISTINCT state, attempts, crashes FROM {s}.inbox")
    assert [tuple(row.values()) for row in states] == [("processed", 1, 0)]
    assert accounts.box.rows("SELECT 1 FROM {s}.attempts") == []
