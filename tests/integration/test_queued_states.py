"""A redelivery hears what became of the first copy; what is kept, and for how long, is as promised."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.fixtures.queue import EFFECTS, Queue, body_of, until
from webhook_inbox import GiveUp, NotYet
from webhook_inbox.protocol.process import RunOutcome
from webhook_inbox.protocol.status import Unhandled

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"


def queue(dsn: str, **given: Any) -> Queue:
    """An inbox with a table for effects, whose handler does as the event's type says."""
    made = Queue(dsn, **given)
    made.rows(EFFECTS)

    @made.billing.on("*")
    def book(tx: Any, event: Any) -> None:
        tx.conn.execute(INSERT, [event.id, ""])
        match event.type:
            case "fails":
                raise ValueError
            case "dies":
                raise GiveUp("no")
            case "later":
                raise NotYet("later", retry_in_seconds=60)
            case _:
                pass

    return made


async def redelivered(box: Queue, event_id: str, event_type: str) -> tuple[int, str, str]:
    """Deliver a copy: its status, outcome, and the state it hears of."""
    receipt = await box.deliver(body_of(event_id, event_type))
    (result,) = receipt.results
    assert result.first_received_at is not None or str(receipt.outcome) == "queued"
    return receipt.status, str(receipt.outcome), str(result.state)


@pytest.mark.parametrize(
    ("event_type", "state"),
    [("fine", "processed"), ("fails", "retrying"), ("dies", "dead"), ("later", "retrying")],
)
def test_a_copy_hears_the_state_of_the_first(event_type: str, state: str, database: str) -> None:
    """P-STATE: waiting, then what the run came to; no copy changes the row; dead is never called processed."""

    async def story() -> None:
        box = queue(database)
        await box.deliver(body_of("evt_1", event_type))
        assert await redelivered(box, "evt_1", event_type) == (200, "duplicate", "waiting")
        await box.drain()
        before = box.event()
        for _ in range(3):
            assert await redelivered(box, "evt_1", event_type) == (200, "duplicate", state)
        assert box.event() == before
        assert len(box.effects()) == (state == "processed")
        await box.close()

    asyncio.run(story())


def test_types_without_a_handler_are_named_and_counted(database: str) -> None:
    """A misspelt type shows in the answer, and by type in the backlog; one that waits or ran does not."""

    async def story() -> None:
        box = Queue(database)
        box.rows(EFFECTS)

        @box.billing.on("invoice.payed")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])

        receipts = await box.receive("evt_1", "evt_2") + await box.receive(
            "evt_3", event_type="invoice.payed"
        )
        assert [each.results[0].unhandled_type for each in receipts] == ["invoice.paid", "invoice.paid", ""]
        backlog = await box.inbox.backlog()
        assert backlog.unhandled == (Unhandled("billing", "invoice.paid", 2),)
        await box.close()

    asyncio.run(story())


def test_a_copy_while_it_runs_hears_that_it_runs(database: str) -> None:
    """P-STATE, P-FLOW: a copy that comes while the handler runs is answered at once, and runs nothing."""

    async def story() -> None:
        box = Queue(database)
        box.rows(EFFECTS)
        entered, go = threading.Event(), threading.Event()

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])
            entered.set()
            go.wait(20)

        await box.receive("evt_1")
        async with box.working():
            await until(entered.is_set)
            assert await redelivered(box, "evt_1", "invoice.paid") == (200, "duplicate", "leased")
            go.set()
            await until(lambda: box.states() == {"processed": 1})
        assert box.effects() == ["evt_1"]
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize("mode", ["queued", "hybrid"])
def test_a_dead_event_runs_again_where_the_endpoint_says_so(mode: str, database: str) -> None:
    """P-STATE: with redelivered_dead="revive" a copy lets a dead event run again, once per death."""

    async def story() -> None:
        box = Queue(database, attempts_max=1, endpoint={"redelivered_dead": "revive", "mode": mode})
        box.rows(EFFECTS)
        runs: list[int] = []

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            runs.append(event.attempt)
            tx.conn.execute(INSERT, [event.id, ""])
            if len(runs) == 1:
                raise ValueError

        await box.receive("evt_1")
        await box.drain()
        assert box.event()["state"] == "dead"
        copies = [await redelivered(box, "evt_1", "invoice.paid") for _ in range(2)]
        assert copies == [(200, "queued", "retrying"), (200, "duplicate", "retrying")]
        assert await box.drain() == {RunOutcome.PROCESSED: 1}
        assert (box.effects(), runs) == (["evt_1"], [1, 2]), "its attempts are not forgotten"
        assert (box.event()["claims"], len(box.attempts())) == (2, 1)
        assert await redelivered(box, "evt_1", "invoice.paid") == (200, "duplicate", "processed")
        await box.close()

    asyncio.run(story())


def test_many_copies_revive_once(database: str) -> None:
    """P-STATE: twenty copies at once of a dead event: it runs once more."""

    async def story() -> None:
        box = queue(database, endpoint={"redelivered_dead": "revive"})
        await box.deliver(body_of("evt_1", "dies"))
        await box.drain()
        receipts = await asyncio.gather(*(box.deliver(body_of("evt_1", "dies")) for _ in range(20)))
        assert [str(receipt.outcome) for receipt in receipts].count("queued") == 1
        assert {receipt.status for receipt in receipts} == {200}
        assert await box.drain() == {RunOutcome.DEAD: 1}
        assert box.event()["claims"] == 2
        await box.close()

    asyncio.run(story())


def test_what_shall_not_be_kept_goes_when_it_is_processed(database: str) -> None:
    """P-KEEP: keep="digest": the bytes stay while they are needed, and go in the transaction that processes."""

    async def story() -> None:
        box = queue(database, endpoint={"keep": "digest", "keep_fields": ["data.object.id"]})
        kinds = ["fine", "fails", "dies", "later"]
        for kind in kinds:
            await box.deliver(body_of(f"evt_{kind}", kind))
        assert len(box.rows("SELECT 1 FROM {s}.bodies")) == 4
        await box.drain()
        kept = {
            row["event_id"]: row["payload_state"]
            for row in box.rows("SELECT event_id, payload_state FROM {s}.events")
        }
        assert kept == {
            "evt_fine": "not kept",
            "evt_fails": "jsonb",
            "evt_dies": "jsonb",
            "evt_later": "jsonb",
        }
        row = box.event("evt_fine")
        assert row["kept"] == {"data.object.id": "obj"}
        assert bytes(row["body_sha256"])
        await box.close()

    asyncio.run(story())


def test_a_handler_that_fails_once_has_its_bytes_the_second_time(database: str) -> None:
    """P-KEEP: with keep="digest", too, a retry finds the payload as it came."""

    async def story() -> None:
        box = Queue(database, endpoint={"keep": "digest"})
        seen: list[bytes] = []

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            seen.append(event.body)
            if event.attempt == 1:
                raise ValueError

        body = body_of("evt_1", memo="ü\u0000")
        await box.deliver(body)
        await box.drain()
        box.make_due()
        await box.drain()
        assert seen == [body, body]
        assert box.rows("SELECT 1 FROM {s}.bodies") == []
        await box.close()

    asyncio.run(story())


def test_what_has_no_handler_is_ignored_at_once_and_never_claimed(database: str) -> None:
    """A type without a handler is settled when it is recorded; the worker has nothing to do with it."""

    async def story() -> None:
        box = Queue(database)
        box.billing.on("invoice.paid")(lambda tx, event: None)
        receipt = await box.deliver(body_of("evt_1", "unknown"))
        assert (receipt.status, str(receipt.outcome)) == (200, "ignored")
        assert await redelivered(box, "evt_1", "unknown") == (200, "duplicate", "ignored")
        assert await box.drain() == {}
        await box.close()

    asyncio.run(story())


def test_events_and_bodies_of_a_batch_keep_to_each_other(database: str) -> None:
    """P-RAW: recorded together, each event has its own bytes and headers, byte for byte."""

    async def story() -> None:
        box = Queue(database)
        seen: dict[str, tuple[bytes, str]] = {}

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            seen[event.id] = event.body, event.headers.get("stripe-signature") or ""

        bodies = {
            f"evt_{number}": body_of(f"evt_{number}", memo="x" * number * 7 + "\\") for number in range(120)
        }
        await asyncio.gather(*(box.deliver(body) for body in bodies.values()))
        await box.drain()
        assert {event_id: body for event_id, (body, _) in seen.items()} == bodies
        await box.close()

    asyncio.run(story())
