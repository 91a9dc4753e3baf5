"""An operator has events run again, or never; whoever else is at work, each is done once, and who did it is kept."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any, TypeVar

import psycopg
import pytest

from tests.fixtures.queue import EFFECTS, Queue, until
from tests.fixtures.recorded import Recorded
from webhook_inbox.cli.database import run_plan
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol import operate as module
from webhook_inbox.protocol.operate import (
    DISCARD,
    REPLAY,
    REPLAY_PROCESSED,
    RETRY,
    Action,
    Operated,
    Operator,
    operate,
)
from webhook_inbox.protocol.steps import Plan

pytestmark = pytest.mark.usefixtures("watched_moves")

T = TypeVar("T")
ADA = Operator("ada", "the handler is mended")
DEAD = EventFilter(states=(State.DEAD,))


def ask(dsn: str, plan: Callable[[str], Plan[T]]) -> T:
    """Perform a plan on the schema."""
    return run_plan(dsn, lambda: plan("webhooks"))


def done(dsn: str, action: Action, meant: EventFilter, by: Operator = ADA, **more: Any) -> Operated:
    """Do *action* with what *meant* means."""
    return ask(dsn, lambda name: operate(action, meant, by, name, **more))


class Shop(Queue):
    """
    An inbox whose handler writes an effect, and notes by which way the event came.

    ``broken`` makes it fail.
    """

    def __init__(self, dsn: str, **given: Any) -> None:
        super().__init__(dsn, attempts_max=1, **given)
        self.rows(EFFECTS)
        self.broken = True

        @self.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            if self.broken:
                raise KeyError(event.id)
            tx.conn.execute(
                "INSERT INTO effects (event_id, note) VALUES (%s, %s)",
                [event.id, f"{event.origin} {event.attempt}"],
            )


def test_a_dead_event_runs_again_and_who_did_it_is_kept(database: str) -> None:
    """Attempts go on counting, retrying begins anew; before and after stand in the audit, no payload (P-ONCE)."""

    async def story() -> None:
        box = Shop(database)
        await box.receive("evt_1")
        await box.drain()
        dead = box.event()
        assert (dead["state"], dead["attempts"]) == ("dead", 1)
        assert done(database, RETRY, EventFilter(event_id="evt_1")) == Operated(changed=1)
        again = box.event()
        assert (again["state"], again["attempts"], again["give_up_at"]) == ("retrying", 1, None)
        assert again["last_error"] == dead["last_error"]
        box.broken = False
        await box.drain()
        assert box.rows("SELECT event_id, note FROM effects") == [{"event_id": "evt_1", "note": "delivery 2"}]
        (kept,) = box.rows("SELECT * FROM {s}.audit")
        assert (kept["actor"], kept["action"], kept["reason"]) == ("ada", "retry", "the handler is mended")
        assert (kept["endpoint"], kept["event_id"], kept["inbox_id"]) == ("billing", "evt_1", dead["id"])
        assert (kept["before"]["state"], kept["after"]["state"]) == ("dead", "retrying")
        assert kept["before"].keys() == kept["after"].keys() == {
            "state", "attempts", "available_at", "origin", "last_error",
        }  # fmt: skip
        await box.close()

    asyncio.run(story())


def test_an_ignored_event_runs_after_a_handler_was_added(database: str) -> None:
    """The handler is told that it is a replay."""

    async def story() -> None:
        box = Shop(database)
        await box.receive("evt_1", event_type="invoice.voided")
        await box.drain()
        assert box.event()["state"] == "ignored"
        seen = []

        @box.billing.on("invoice.voided")
        def undo(tx: Any, event: Any) -> None:
            seen.append((event.id, event.origin))

        assert done(database, REPLAY, EventFilter(event_type="invoice.voided")).changed == 1
        await box.drain()
        assert seen == [("evt_1", "replay")]
        assert box.event()["state"] == "processed"
        await box.close()

    asyncio.run(story())


def test_a_processed_event_has_a_second_effect_only_if_that_is_meant(database: str) -> None:
    """Refused, saying what it would do; forced, it runs, once more and no more."""

    async def story() -> None:
        box = Shop(database)
        box.broken = False
        await box.receive("evt_1")
        await box.drain()
        meant = EventFilter(event_id="evt_1")
        for action in (RETRY, REPLAY):
            refused = done(database, action, meant)
            assert refused.changed == 0
            assert "--force" in refused.left[0].why
        assert box.event()["effect_transaction"] is not None
        assert done(database, REPLAY_PROCESSED, meant).changed == 1
        assert (box.event()["processed_at"], box.event()["effect_transaction"]) == (None, None)
        await box.drain()
        notes = box.rows("SELECT note FROM effects ORDER BY at")
        assert [row["note"] for row in notes] == ["delivery 1", "replay 2"]
        await box.close()

    asyncio.run(story())


TAKES = {
    RETRY: {"dead": "retrying", "retrying": "retrying", "waiting": "waiting"},
    REPLAY: {"ignored": "waiting"},
    REPLAY_PROCESSED: {"ignored": "waiting", "processed": "waiting"},
    DISCARD: dict.fromkeys(("dead", "quarantined", "retrying", "waiting"), "ignored"),
}


@pytest.mark.parametrize("action", TAKES, ids=["retry", "replay", "forced", "discard"])
def test_an_action_takes_its_own_states_and_leaves_the_others(database: str, action: Action) -> None:
    """Each that is left is told why, with what can be done; an event that is run by a worker with its name."""
    recorded = Recorded(database)
    for state in State:
        recorded.add(f"evt_{state}", state)
    recorded.rows(
        "WITH w AS (INSERT INTO webhooks.workers (name, lease_ends_at) VALUES ('w-1', now()) RETURNING id) "
        "UPDATE webhooks.inbox SET worker_id = w.id FROM w WHERE state = 'leased'"
    )
    rows = tuple(recorded.event(f"evt_{state}")["id"] for state in State)
    came = done(database, action, EventFilter(rows=rows))
    takes = TAKES[action]
    assert came.changed == len(takes)
    assert recorded.states() == {f"evt_{state}": takes.get(state, state) for state in State}
    why = {each.event.event_id: each.why for each in came.left}
    assert set(why) == {f"evt_{state}" for state in State if state not in takes}
    assert "w-1" in why["evt_leased"]
    assert recorded.event("evt_leased")["worker_id"] is not None
    assert len(recorded.rows("SELECT id FROM webhooks.audit")) == len(takes)


def test_what_is_discarded_says_who_gave_it_up(database: str) -> None:
    """It stays, with its bytes, and can be replayed (P-KEEP)."""
    recorded = Recorded(database)
    recorded.add("evt_1", "dead", last_error="KeyError")
    done(database, DISCARD, DEAD, Operator("ada", "a test event"))
    assert recorded.event("evt_1")["last_error"] == "discarded by ada: a test event"
    assert len(recorded.rows("SELECT id FROM webhooks.bodies")) == 1
    assert done(database, REPLAY, EventFilter(event_id="evt_1")).changed == 1


@pytest.mark.parametrize("action", [RETRY, REPLAY, REPLAY_PROCESSED])
def test_nothing_runs_without_its_bytes(database: str, action: Action) -> None:
    """A handler would take an empty body for the event's."""
    recorded = Recorded(database)
    recorded.add("evt_1", action.states[-1], kept=False)
    came = done(database, action, EventFilter(event_id="evt_1"))
    assert (came.changed, len(came.left)) == (0, 1)
    assert "bytes are not kept" in came.left[0].why
    assert recorded.states() == {"evt_1": action.states[-1]}


def test_a_bounded_rate_spreads_what_is_due(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evenly, across batches, on the server's clock (P-CLOCK)."""
    monkeypatch.setattr(module, "BATCH_EVENTS", 3)
    recorded = Recorded(database)
    for number in range(8):
        recorded.add(f"evt_{number}", "dead")
    assert done(database, RETRY, DEAD, every_seconds=10.0).changed == 8
    due = [
        row["available_at"] for row in recorded.rows("SELECT available_at FROM webhooks.inbox ORDER BY id")
    ]
    gaps = [later - earlier for earlier, later in pairwise(due)]
    assert all(timedelta(seconds=10) <= gap < timedelta(seconds=15) for gap in gaps)


def test_a_run_that_is_interrupted_goes_on(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed stays, nothing is done twice, and the same call does the rest."""
    monkeypatch.setattr(module, "BATCH_EVENTS", 10)
    recorded = Recorded(database)
    for number in range(25):
        recorded.add(f"evt_{number:02}", "dead")

    def interrupt(changed: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        done(database, RETRY, DEAD, progress=interrupt)
    assert list(recorded.states().values()).count("dead") == 15
    seen: list[int] = []
    assert done(database, RETRY, DEAD, progress=seen.append).changed == 15
    assert seen == [10, 15]
    audited = recorded.rows("SELECT count(*) AS n FROM webhooks.audit GROUP BY inbox_id")
    assert [row["n"] for row in audited] == [1] * 25


def test_of_operators_at_once_each_event_has_one(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-FENCE: all of it is done, each by one of them; the others are told, or find it no longer meant."""
    monkeypatch.setattr(module, "BATCH_EVENTS", 7)
    recorded = Recorded(database)
    for number in range(60):
        recorded.add(f"evt_{number}", "dead")
    start = threading.Barrier(3)
    came: list[Operated] = []

    def act(name: str, action: Action) -> None:
        start.wait(30)
        came.append(done(database, action, DEAD, Operator(name)))

    threads = [
        threading.Thread(target=act, args=[name, action])
        for name, action in (("ada", RETRY), ("bob", DISCARD), ("eve", RETRY))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(each.changed for each in came) == 60
    audited = recorded.rows("SELECT inbox_id, after ->> 'state' AS state FROM webhooks.audit")
    assert len({row["inbox_id"] for row in audited}) == len(audited) == 60
    states = recorded.rows("SELECT id, state FROM webhooks.inbox")
    assert {row["id"]: row["state"] for row in states} == {row["inbox_id"]: row["state"] for row in audited}


def test_the_second_operator_is_told_what_the_first_has_done(database: str) -> None:
    """It waits for the first's lock, and then finds another state."""
    recorded = Recorded(database)
    row = recorded.add("evt_1", "dead")
    came: list[Operated] = []
    with psycopg.connect(recorded.dsn) as first, psycopg.connect(recorded.dsn, autocommit=True) as watch:
        first.execute("UPDATE webhooks.inbox SET state = 'ignored' WHERE id = %s", [row])
        second = threading.Thread(target=lambda: came.append(done(database, RETRY, EventFilter(rows=(row,)))))
        second.start()

        def waits() -> bool:
            found = watch.execute("SELECT pid FROM pg_locks WHERE NOT granted").fetchall()
            return bool(found)

        asyncio.run(until(waits))
        first.commit()
        second.join(30)
    assert came[0].changed == 0
    assert came[0].left[0].why == "it is ignored; events replay runs it"
    assert recorded.states() == {"evt_1": "ignored"}


def test_an_event_under_a_running_handler_is_left_to_it(database: str) -> None:
    """At once, without waiting for the handler; its effect commits once (P-ONCE, P-FENCE)."""

    async def story() -> None:
        box = Queue(database)
        box.rows(EFFECTS)
        running, go_on = threading.Event(), threading.Event()

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
            running.set()
            assert go_on.wait(30)

        async with box.working():
            await box.receive("evt_1")
            assert await asyncio.to_thread(running.wait, 30)
            for action in (RETRY, REPLAY_PROCESSED, DISCARD):
                came = await asyncio.to_thread(done, database, action, EventFilter(event_id="evt_1"))
                assert came.changed == 0
                assert f"being run by {box.inbox.worker_name}" in came.left[0].why
            go_on.set()
            await until(lambda: box.states() == {"processed": 1})
        assert box.effects() == ["evt_1"]
        await box.close()

    asyncio.run(story())
