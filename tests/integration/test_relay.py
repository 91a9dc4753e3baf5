"""A relay brings every committed message to its destinations, whatever befalls it, them, or the database."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.fixtures.outbox import Outbox
from tests.fixtures.queue import EFFECTS, Queue, in_time, until
from tests.fixtures.relays import SETTINGS, Memory, drained, inbox_of, relaying
from webhook_inbox import GiveUp, Inbox, NotYet, Tx
from webhook_inbox.destinations import Call, Failed, Limits, Message, Sent, Verdict
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.routing import Outlet

pytestmark = pytest.mark.usefixtures("watched_moves")


def test_what_a_handler_emits_arrives_once_it_is_committed(database: str) -> None:
    """P-OUT: with the id that ``emit`` gave, and never for an event whose transaction is rolled back."""

    async def story() -> None:
        mail = Memory()
        box = Queue(database, **SETTINGS)
        box.rows(EFFECTS)
        box.inbox.destination("mail", mail)
        emitted: list[UUID] = []

        @box.billing.on("invoice.paid")
        async def book(tx: Tx[psycopg.AsyncConnection[Any]], event: Any) -> None:
            await tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
            message_id = await tx.emit(
                "Booked", {"event": event.id}, aggregate_type="Invoice", aggregate_id=1
            )
            if event.id == "evt_bad":
                raise GiveUp("no")
            emitted.append(message_id)

        async with box.inbox.running(worker=True, relay=True):
            await box.receive("evt_1", "evt_bad", "evt_2")
            await until(lambda: len(mail.sent) == 2 and box.event("evt_bad")["state"] == "dead")
        assert {each.id for each in mail.sent} == set(emitted)
        assert {each.key for each in mail.sent} == {"Invoice/1"}
        assert {each.headers["correlation-id"] for each in mail.sent} == {"evt_1", "evt_2"}

    asyncio.run(story())


def test_writers_that_commit_late_and_roll_back_are_relayed_exactly(database: str) -> None:
    """P-OUT: eight writers, 2,000 messages, random delays, every tenth rolled back: sent is what is committed."""

    async def story() -> None:
        chance = random.Random(20_260_101)
        mail = Memory()
        inbox = inbox_of(database, {"mail": mail})
        committed: list[str] = []

        async def write(plan: list[tuple[float, bool]]) -> None:
            async with await psycopg.AsyncConnection.connect(database) as conn:
                for delay, kept in plan:
                    message_id = await inbox.emit(conn, "Paid", {"kept": kept})
                    await asyncio.sleep(delay)
                    await (conn.commit() if kept else conn.rollback())
                    committed.extend([str(message_id)] if kept else [])

        plans = [
            [(chance.choice([0, 0, 0.001, 0.02]), chance.random() > 0.1) for _ in range(250)]
            for _ in range(8)
        ]
        async with relaying(inbox):
            await in_time(asyncio.gather(*(write(plan) for plan in plans)), 60)
            await until(lambda: len(mail.sent) >= len(committed))
        assert Counter(mail.ids) == Counter(committed)
        assert sorted(Outbox(database).published()) == sorted(committed)
        assert 1_700 < len(committed) < 1_900

    asyncio.run(story())


def test_one_destination_that_is_down_delays_nobody_else(database: str) -> None:
    """P-FLOW: the others' messages arrive; its own wait, and are charged nothing for it."""

    async def story() -> None:
        async def away(messages: Sequence[Message]) -> Sequence[Verdict]:
            return [Failed("unreachable", stop=True, retry_in_seconds=0.05)] * len(messages)

        async def hangs(messages: Sequence[Message]) -> Sequence[Verdict]:
            await asyncio.Event().wait()
            raise AssertionError

        mail, down, stuck = Memory(), Memory(away), Memory(hangs, send_seconds_max=60.0)
        inbox = inbox_of(database, {"mail": mail, "down": down, "stuck": stuck}, stop_seconds_max=1.0)
        for name in ("mail", "down", "stuck"):
            inbox.route("*", to=name)
        box = Outbox(database)
        ids = box.write(*["Paid"] * 30)
        async with relaying(inbox):
            await until(lambda: len(mail.sent) == 30 and down.calls.count("send") > 3)
            ids += box.write(*["Paid"] * 30)
            await until(lambda: len(mail.sent) == 60)
        assert sorted(mail.ids) == sorted(ids)
        states = Counter(box.sends("destination", "state", "attempts"))
        assert states["mail", "sent", 1] == 60
        assert (
            sum(count for (name, _, attempts), count in states.items() if name == "down" and attempts == 0)
            == 60
        )
        assert box.published() == []

    asyncio.run(story())


def test_a_call_that_fails_holds_no_other_message(database: str) -> None:
    """P-FLOW: each has a verdict and a retry of its own."""

    async def story() -> None:
        async def poison(messages: Sequence[Message]) -> Sequence[Verdict]:
            return [
                Failed("no", retry_in_seconds=600) if each.event_type == "Bad" else Sent()
                for each in messages
            ]

        mail = Memory(poison, batch_messages_max=4)
        inbox = inbox_of(database, {"mail": mail})
        box = Outbox(database)
        box.write(*["Bad", "Good"] * 10)
        assert await drained(inbox) == {"retrying": 10, "sent": 10}
        assert Counter(box.sends("state", "attempts", "last_error")) == {
            ("sent", 1, None): 10,
            ("retrying", 1, "no"): 10,
        }

    asyncio.run(story())


def test_a_message_that_makes_its_client_fail_holds_no_other(database: str) -> None:
    """P-FLOW: it takes its batch along twice at most; from then on each goes alone, and it alone is left."""

    async def story() -> None:
        async def fails(messages: Sequence[Message]) -> Sequence[Verdict]:
            if any(each.event_type == "Bad" for each in messages):
                raise ValueError
            return [Sent()] * len(messages)

        mail = Memory(fails, batch_messages_max=50)
        # All come again at once: jitter would part some of them from the bad one earlier.
        inbox = inbox_of(database, {"mail": mail}, backoff_seconds_max=1e-6)
        box = Outbox(database)
        box.write("Good", "Bad", "Good", "Good")
        async with relaying(inbox):
            await until(lambda: len(mail.sent) == 3 and max(box.sends("attempts")) > 4)
        assert sorted(box.sends("attempts"))[:3] == [3, 3, 3]
        assert box.published() != []

    asyncio.run(story())


@pytest.mark.parametrize("how", ["raises", "hangs", "answers for others"])
def test_a_batch_in_doubt_is_sent_again_on_a_new_connection(database: str, how: str) -> None:
    """P-OUT: it is charged, the destination is closed and opened again, and the ids stay the same."""

    async def story() -> None:
        tried: list[list[UUID]] = []

        async def once_bad(messages: Sequence[Message]) -> Sequence[Verdict]:
            tried.append([each.id for each in messages])
            if len(tried) > 1:
                return [Sent()] * len(messages)
            if how == "raises":
                raise ConnectionResetError
            if how == "hangs":
                await asyncio.Event().wait()
            return []

        mail = Memory(once_bad, send_seconds_max=0.1)
        inbox = inbox_of(database, {"mail": mail}, backoff_seconds_max=0.05)
        box = Outbox(database)
        ids = box.write("Paid", "Paid")
        async with relaying(inbox):
            await until(lambda: len(box.published()) == 2)
        assert [str(each) for each in tried[0]] == ids
        assert mail.calls[:5] == ["close", "open", "send", "close", "open"]
        assert {each.attempt for each in mail.sent} == {2}

    asyncio.run(story())


def test_a_destination_that_cannot_be_opened_is_tried_again_and_nothing_is_claimed(database: str) -> None:
    """P-COUNT: its messages have no attempt until it is there."""

    async def story() -> None:
        mail = Memory()
        mail.refuses_to_open = 1
        inbox = inbox_of(database, {"mail": mail})
        box = Outbox(database)
        box.write("Paid")
        assert await drained(inbox) == {}
        assert box.sends("state", "attempts", "claims") == [("waiting", 0, 0)]
        assert await drained(inbox) == {"sent": 1}

    asyncio.run(story())


def test_draining_does_not_wait_for_a_destination_that_is_down(database: str) -> None:
    """What can be sent is sent; the rest is left, free of charge, for a relay that stays."""

    async def story() -> None:
        async def away(messages: Sequence[Message]) -> Sequence[Verdict]:
            return [Failed("unreachable", stop=True)] * len(messages)

        mail, down = Memory(), Memory(away, batch_messages_max=2)
        inbox = inbox_of(database, {"mail": mail, "down": down})
        for name in ("mail", "down"):
            inbox.route("*", to=name)
        box = Outbox(database)
        box.write(*["Paid"] * 6)
        assert await drained(inbox) == {"sent": 6, "retrying": 2}
        assert down.calls.count("send") == 1
        assert {attempts for state, attempts in box.sends("state", "attempts") if state != "sent"} == {0}

    asyncio.run(story())


def test_order_is_kept_over_failures_and_restarts(database: str) -> None:
    """With ``ordered``, each aggregate's messages arrive in the order of writing, however often they fail."""

    async def story() -> None:
        chance = random.Random(7)

        async def flaky(messages: Sequence[Message]) -> Sequence[Verdict]:
            return [Sent() if chance.random() > 0.4 else Failed("busy", retry_in_seconds=0) for _ in messages]

        mail = Memory(flaky, batch_messages_max=5, batches_max=3)
        box = Outbox(database)
        for number in range(60):
            box.write("Changed", aggregate_type="Thing", aggregate_id=str(number % 6))
        for enough in (15, 30, 60):
            inbox = Inbox(database, **SETTINGS)
            inbox.destination("mail", mail, ordered=True)
            async with relaying(inbox):
                await until(lambda enough=enough: len(mail.sent) >= enough)  # type: ignore[misc]
        assert len(mail.sent) == 60
        arrived: dict[str, list[Any]] = defaultdict(list)
        position = {
            str(row["id"]): row["position"] for row in box.rows("SELECT id, position FROM webhooks.outbox")
        }
        for each in mail.sent:
            arrived[each.key].append(position[str(each.id)])
        assert all(positions == sorted(positions) for positions in arrived.values())

    asyncio.run(story())


def test_a_relay_that_is_told_to_stop_settles_what_it_sends_and_gives_back_the_rest(database: str) -> None:
    """What has ended is marked; what has not costs nothing and goes out again; nothing is left leased."""

    async def story() -> None:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(messages: Sequence[Message]) -> Sequence[Verdict]:
            if messages[0].event_type == "Slow":
                begun.set()
                await go_on.wait()
            return [Sent()] * len(messages)

        mail = Memory(slow, batch_messages_max=1, batches_max=2)
        inbox = inbox_of(database, {"mail": mail}, stop_seconds_max=0.5)
        box = Outbox(database)
        box.write("Slow", "Fast")
        stop = asyncio.Event()
        task = asyncio.create_task(inbox.relay(stop=stop))
        await in_time(begun.wait())
        await until(lambda: "sent" in box.sends())
        box.write("New")
        stop.set()
        await in_time(task, 5)
        assert box.sends("state", "attempts")[:2] == [("waiting", 0), ("sent", 1)]
        assert box.rows("SELECT id FROM webhooks.workers WHERE NOT stopped") == []
        go_on.set()
        assert await drained(inbox) == {"sent": 2}

    asyncio.run(story())


@pytest.mark.parametrize("held", ["sends", "workers"])
def test_a_database_that_does_not_answer_does_not_hold_the_end_up(database: str, held: str) -> None:
    """Told to stop, it stops within ``stop_seconds_max``; what it could not give back returns with its lease."""

    async def story() -> None:
        begun, stop = asyncio.Event(), asyncio.Event()

        async def slow(messages: Sequence[Message]) -> Sequence[Verdict]:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        inbox = inbox_of(database, {"mail": Memory(slow)}, stop_seconds_max=1.0)
        box = Outbox(database)
        box.write("Paid")
        task = asyncio.create_task(inbox.relay(stop=stop))
        await in_time(begun.wait())
        with psycopg.connect(database) as conn:
            # Off the loop, on which the relay may have a transaction to end first.
            await asyncio.to_thread(
                conn.execute, f"LOCK TABLE webhooks.{held} IN ACCESS EXCLUSIVE MODE".encode()
            )
            stop.set()
            await in_time(task, 4.5)  # the server itself would let each of our statements wait for 5 seconds
        assert box.published() == []

    asyncio.run(story())


def test_two_relays_share_the_work(database: str) -> None:
    """P-FENCE: each message goes out once, by one of them."""

    async def story() -> None:
        one, other = Memory(batch_messages_max=5), Memory(batch_messages_max=5)
        box = Outbox(database)
        async with relaying(inbox_of(database, {"mail": one})), relaying(inbox_of(database, {"mail": other})):
            ids = box.write(*["Paid"] * 200)
            await until(lambda: len(box.published()) == 200)
        assert sorted(one.ids + other.ids) == sorted(ids)

    asyncio.run(story())


def test_a_relay_whose_lease_was_taken_sends_nothing_under_it(database: str) -> None:
    """P-FENCE: what it had claimed goes out once more, under the same id; it registers anew and goes on."""

    async def story() -> None:
        go_on = asyncio.Event()
        tried: list[UUID] = []

        async def waits(messages: Sequence[Message]) -> Sequence[Verdict]:
            tried.extend(each.id for each in messages)
            await go_on.wait()
            return [Sent()] * len(messages)

        mail = Memory(waits)
        inbox = inbox_of(database, {"mail": mail}, lease_seconds=2.0)
        box = Outbox(database)
        (message_id,) = box.write("Paid")
        async with relaying(inbox):
            await until(lambda: tried)
            box.rows("UPDATE webhooks.workers SET stopped = true, lease_ends_at = now()")
            box.take_back()
            await until(lambda: box.sends("state") == ["retrying"])
            go_on.set()
            await until(lambda: box.published() == [message_id])
        assert set(tried) == {UUID(message_id)}
        assert len(tried) == 2

    asyncio.run(story())


def test_a_call_is_relayed_with_its_key(database: str) -> None:
    """A function is a destination; ``NotYet`` comes again, and the key is the same each time."""

    async def story() -> None:
        keys: list[str] = []

        def notify(message: Message) -> None:
            keys.append(message.idempotency_key)
            if len(keys) == 1:
                raise NotYet("asleep", retry_in_seconds=0.01)

        inbox = inbox_of(database, {"crm": Call(notify)})
        box = Outbox(database)
        (message_id,) = box.write("Paid")
        async with relaying(inbox):
            await until(lambda: box.published() == [message_id])
        assert keys == [message_id] * 2

    asyncio.run(story())


def test_sends_and_lag_are_told_for_each_destination(database: str) -> None:
    """What was due for an hour shows as an hour behind, at the destination that is behind and no other."""

    async def story() -> None:
        async def away(messages: Sequence[Message]) -> Sequence[Verdict]:
            return [Failed("unreachable", stop=True, retry_in_seconds=600)] * len(messages)

        inbox = inbox_of(database, {"mail": Memory(), "down": Memory(away, batch_messages_max=1)})
        inbox.route("Paid", to="mail")
        inbox.route("Late", to="down")
        box = Outbox(
            database,
            *(Outlet(name=name, limits=Limits()) for name in ("mail", "down")),
            routes=[("Late", "down")],
        )
        box.write("Late", "Late")
        box.route()
        box.rows("UPDATE webhooks.sends SET available_at = now() - interval '1 h'")
        box.write("Paid")
        await drained(inbox)
        value = inbox.metrics.registry.get_sample_value
        assert (value("webhook_inbox_outbox_lag_seconds", {"destination": "down"}) or 0) > 3599
        assert value("webhook_inbox_outbox_lag_seconds", {"destination": "mail"}) == 0
        assert value("webhook_inbox_sends_total", {"destination": "mail", "outcome": "sent"}) == 1
        assert value("webhook_inbox_sends_total", {"destination": "down", "outcome": "retrying"}) == 1
        assert value("webhook_inbox_breaker_open", {"destination": "down"}) == 1
        assert value("webhook_inbox_breaker_open", {"destination": "mail"}) == 0

    asyncio.run(story())


def test_what_nothing_sends_by_itself_is_counted(database: str) -> None:
    """In the whole outbox, by state: dead at a destination, or named by no route."""

    async def story() -> None:
        box = Outbox(database, routes=[("Paid", "mail")])
        box.write("Paid", "Paid", "Strange")
        box.route()
        box.rows(
            "UPDATE webhooks.sends SET state = 'dead' WHERE position = (SELECT min(position) FROM webhooks.sends)"
        )
        inbox = inbox_of(database, {"mail": Memory()})
        inbox.route("Paid", to="mail")
        await drained(inbox)
        value = inbox.metrics.registry.get_sample_value
        assert value("webhook_inbox_outbox_stuck_messages", {"state": "dead"}) == 1
        assert value("webhook_inbox_outbox_stuck_messages", {"state": "unrouted"}) == 1

    asyncio.run(story())


def test_what_cannot_work_is_refused_by_name(database: str) -> None:
    """Before any message is late for it."""
    inbox = Inbox(database)
    with pytest.raises(ConfigurationError, match="the Inbox has no destination"):
        asyncio.run(inbox.relay(drain=True))
    inbox.destination("mail", Memory())
    with pytest.raises(ConfigurationError, match="there is a destination 'mail' already"):
        inbox.destination("mail", Memory())
    with pytest.raises(ConfigurationError, match="leads to 'post', which is no destination; there are: mail"):
        inbox.route("Paid", to="post")
    with pytest.raises(ConfigurationError, match="'crm' is a function; give one of"):
        inbox.destination("crm", lambda message: None)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(ConfigurationError, match="a name is 1 to 100 printable characters"):
        inbox.destination("", Memory())
    with pytest.raises(ConfigurationError, match="dead_message is 'hold' or 'skip'"):
        inbox.destination("crm", Memory(), dead_message="drop")  # type: ignore[arg-type]  # that is the mistake
