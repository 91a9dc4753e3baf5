"""One message, however it was written and whatever it does to its destination, holds no other up (P-FLOW)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from tests.fixtures.outbox import Outbox
from tests.fixtures.queue import in_time, until
from tests.fixtures.relays import Memory, drained, inbox_of, relaying
from webhook_inbox.destinations import Failed, Limits, Message, Sent, Verdict
from webhook_inbox.model.routing import Outlet

ORDERED = Outlet(name="mail", limits=Limits(), ordered=True)


def test_a_key_that_no_index_can_hold_is_routed_and_keeps_its_order(database: str) -> None:
    """Whoever writes plain SQL may name an aggregate at any length; others are routed beside it."""
    box = Outbox(database, ORDERED)
    # Digests of different numbers: nothing in them can be compressed.
    (row,) = box.rows("SELECT string_agg(md5(n::text), '') AS long FROM generate_series(1, 300) n")
    box.write("First", "Second", aggregate_type="Invoice", aggregate_id=row["long"])
    box.write("Other", aggregate_type="Invoice", aggregate_id="in_1")
    assert box.route() == {"mail": 3}
    relay = box.register()
    claims = box.claim(relay)
    assert [each.message.event_type for each in claims] == ["First", "Other"]
    assert claims[0].message.aggregate_id == row["long"]
    box.settle(claims)
    assert [each.message.event_type for each in box.claim(relay)] == ["Second"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("headers", '{"a":' * 3_000 + "1" + "}" * 3_000),
        ("headers", '{"a": ' + "1" * 10_000 + "}"),
        ("headers", "[1]"),
        ("created_at", "infinity"),
        ("created_at", "-infinity"),
        ("created_at", "20000-01-01"),
        ("created_at", "0044-03-15 BC"),
    ],
    ids=["deep", "long number", "no object", "never", "ever", "late", "early"],
)
def test_what_plain_sql_may_write_is_sent_and_strands_nothing(database: str, column: str, value: str) -> None:
    """P-OUT: what no destination can carry is left out; the message, and the others of its claim, arrive."""
    box = Outbox(database)
    box.write("Odd", **{column: value})
    box.write("Paid")
    box.route()
    claims = box.claim(box.register())
    assert [each.message.event_type for each in claims] == ["Odd", "Paid"]
    assert [dict(each.message.headers) for each in claims] == [{}, {}]
    assert box.settle(claims) == ["sent", "sent"]


@pytest.mark.parametrize("how", ["cancelled by a client", "no verdict"])
def test_a_destination_that_breaks_its_word_charges_the_message(database: str, how: str) -> None:
    """P-COUNT: a client's own cancellation, or what is no verdict, is a failure: counted, and it dies in the end."""

    async def story() -> None:
        async def breaks(messages: Sequence[Message]) -> Sequence[Verdict]:
            if messages[0].event_type != "Bad":
                return [Sent()]
            if how == "no verdict":
                return [None]  # type: ignore[list-item]  # that is the defect
            raise asyncio.CancelledError

        mail = Memory(breaks, batch_messages_max=1)
        inbox = inbox_of(database, {"mail": mail}, backoff_seconds_max=0.01, attempts_max=3)
        box = Outbox(database)
        box.write("Bad", "Good", "Good")
        async with relaying(inbox):
            await until(lambda: len(mail.sent) == 2 and "dead" in box.sends())
        assert Counter(box.sends("state", "attempts")) == {("dead", 3): 1, ("sent", 1): 2}

    asyncio.run(story())


def test_a_message_that_its_destination_never_takes_dies_while_others_get_through(database: str) -> None:
    """P-FLOW: asked for a pause each time, it costs no attempt, but it ends with ``retry_hours`` all the same."""

    async def story() -> None:
        async def picky(messages: Sequence[Message]) -> Sequence[Verdict]:
            bad = messages[0].event_type == "Bad"
            return [Failed("answered 503", stop=True, retry_in_seconds=0.02) if bad else Sent()]

        mail = Memory(picky, batch_messages_max=1)
        inbox = inbox_of(database, {"mail": mail}, retry_hours=0.5 / 3600)
        box = Outbox(database)
        box.write("Bad")

        async def go_on() -> None:
            while "dead" not in box.sends():
                arrived = len(mail.sent)
                box.write("Good")
                await until(lambda arrived=arrived: len(mail.sent) > arrived)  # type: ignore[misc]

        async with relaying(inbox):
            await in_time(go_on())
        assert Counter(box.sends("state", "attempts"))["dead", 0] == 1
        assert set(box.sends()) == {"dead", "sent"}

    asyncio.run(story())


def test_messages_that_are_never_taken_keep_none_that_is_from_being_tried(database: str) -> None:
    """P-FLOW: when a destination is tried again, it is by the newest of those that were tried least."""

    async def story() -> None:
        async def picky(messages: Sequence[Message]) -> Sequence[Verdict]:
            return [Failed("answered 500") if messages[0].event_type == "Bad" else Sent()]

        mail = Memory(picky, batch_messages_max=1, batches_max=1)
        inbox = inbox_of(database, {"mail": mail})
        box = Outbox(database)
        box.write(*["Bad"] * 100, "Good")
        async with relaying(inbox):
            await until(lambda: bool(mail.sent))
        assert mail.calls.count("send") < 100

    asyncio.run(story())


def test_no_message_dies_of_a_destination_that_takes_none(database: str) -> None:
    """P-KEEP: an outage is not the messages' fault, however much longer than ``retry_hours`` it is."""

    async def story() -> None:
        async def away(messages: Sequence[Message]) -> Sequence[Verdict]:
            return [Failed("unreachable", stop=True, retry_in_seconds=0.01)] * len(messages)

        mail = Memory(away, batch_messages_max=1)
        inbox = inbox_of(database, {"mail": mail}, retry_hours=0.1 / 3600)
        box = Outbox(database)
        box.write("Paid", "Paid")
        async with relaying(inbox):
            await until(lambda: mail.calls.count("send") > 30)
        assert set(box.sends("state", "attempts", "give_up_at")) == {("retrying", 0, None)}

    asyncio.run(story())


def test_a_client_that_will_not_be_cancelled_does_not_hold_the_end_up(database: str) -> None:
    """Told to stop, the relay stops within ``stop_seconds_max``; the message returns with its lease."""

    async def story() -> None:
        begun, let_go = asyncio.Event(), asyncio.Event()

        async def stubborn(messages: Sequence[Message]) -> Sequence[Verdict]:
            begun.set()
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue
            return [Sent()] * len(messages)

        inbox = inbox_of(database, {"mail": Memory(stubborn, send_seconds_max=60.0)}, stop_seconds_max=1.0)
        box = Outbox(database)
        box.write("Paid")
        stop = asyncio.Event()
        task: asyncio.Task[Any] = asyncio.create_task(inbox.relay(stop=stop))
        await in_time(begun.wait())
        stop.set()
        ended, _ = await asyncio.wait({task}, timeout=4.0)
        let_go.set()
        await in_time(asyncio.wait({task}))
        assert ended == {task}
        assert await drained(inbox_of(database, {"mail": Memory()})) == {"sent": 1}

    asyncio.run(story())
