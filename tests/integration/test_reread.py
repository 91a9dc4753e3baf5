"""A quarantined delivery is read again after its source was mended; what is in it runs once, like any other event."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.fixtures.queue import EFFECTS, SECRET, Queue, signed
from webhook_inbox.cli.database import run_plan
from webhook_inbox.model.delivery import Delivery
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol.operate import DISCARD, REPLAY, Operated, Operator, operate
from webhook_inbox.protocol.reread import reread
from webhook_inbox.sources import Identity, Stripe
from webhook_inbox.sources.source import Reading, Unreadable


class Mended(Stripe):
    """Reads what Stripe's own reading cannot: an id under another name, or several in one body."""

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """One event for each name."""
        names = json.loads(delivery.body).get("names", ())
        if not names:
            return (Unreadable(reason="no name at $.names"),)
        return tuple(Identity(event_id=name, event_type="invoice.paid") for name in names)


def box_with(dsn: str, source: type[Stripe], **given: Any) -> Queue:
    """An inbox whose endpoint ``shop`` has this source; its handler has an effect."""
    box = Queue(dsn)
    shop = box.inbox.endpoint("shop", source(SECRET), **given)

    @shop.on("*")
    def book(tx: Any, event: Any) -> None:
        tx.conn.execute("INSERT INTO effects (event_id, note) VALUES (%s, %s)", [event.id, event.origin])

    return box


async def quarantined(dsn: str, *bodies: bytes) -> None:
    """Deliver bodies that cannot be identified."""
    box = box_with(dsn, Stripe)
    box.rows(EFFECTS)
    for body in bodies:
        receipt = await box.inbox.receive("shop", headers=signed(body), body=body)
        assert str(receipt.outcome) == "quarantined"
    await box.close()


ADA = Operator("ada", "mended")


def again(box: Queue, meant: EventFilter | None = None) -> Operated:
    """Read all of them again, or those that are meant."""
    plans = box.inbox.endpoint_plans
    return run_plan(box.dsn, lambda: reread(meant or EventFilter(), plans, ADA, "webhooks"))


def test_what_can_be_read_now_becomes_events(database: str) -> None:
    """One for each that is in it, under its own id, with bytes and order key; the quarantined row is settled."""

    async def story() -> None:
        body = b'{"names": ["evt_a", "evt_b"], "key": "k"}'
        await quarantined(database, body)
        box = box_with(database, Mended, order_by="key")
        assert again(box) == Operated(changed=1)
        rows = box.rows(
            "SELECT event_id, state, origin, order_key FROM {s}.inbox WHERE event_type <> '' ORDER BY id"
        )
        assert [tuple(row.values()) for row in rows] == [
            ("evt_a", "waiting", "replay", "k"),
            ("evt_b", "waiting", "replay", "k"),
        ]
        (first,) = box.rows("SELECT * FROM {s}.inbox WHERE event_type = ''")
        assert (first["state"], first["last_error"]) == ("ignored", "read again as evt_a, evt_b")
        assert box.rows("SELECT action, reason, inbox_id FROM {s}.audit") == [
            {"action": "replay", "reason": "mended", "inbox_id": first["id"]}
        ]
        await box.drain()
        effects = box.rows("SELECT event_id, note FROM effects ORDER BY event_id")
        assert [tuple(row.values()) for row in effects] == [("evt_a", "replay"), ("evt_b", "replay")]
        assert {bytes(row["body"]) for row in box.rows("SELECT body FROM {s}.bodies")} == {body}
        assert again(box) == Operated()
        await box.close()

    asyncio.run(story())


def test_an_event_that_has_come_by_another_way_is_there_already(database: str) -> None:
    """Its effect stays the only one (P-ONCE)."""

    async def story() -> None:
        await quarantined(database, b'{"names": ["evt_a"], "n": 1}', b'{"names": ["evt_a"], "n": 2}')
        box = box_with(database, Mended)
        assert again(box).changed == 2
        await box.drain()
        assert box.effects() == ["evt_a"]
        await box.close()

    asyncio.run(story())


def test_what_still_cannot_be_read_stays_and_says_why(database: str) -> None:
    """Quarantined, with its bytes (P-KEEP); so does one of an endpoint that APP does not have."""

    async def story() -> None:
        await quarantined(database, b'{"nameless": 1}')
        box = box_with(database, Mended)
        came = again(box)
        assert (came.changed, [each.why for each in came.left]) == (
            0,
            ["it still cannot be read: no name at $.names"],
        )
        stranger = Queue(database)
        assert "no endpoint 'shop'" in again(stranger).left[0].why
        assert box.states() == {"quarantined": 1}
        assert len(box.rows("SELECT id FROM {s}.bodies")) == 1
        await box.close()

    asyncio.run(story())


class Poisoned(Mended):
    """Raises at some."""

    def identify(self, delivery: Delivery) -> tuple[Reading, ...]:
        """Say what is in the body."""
        if b"poison" in delivery.body:
            raise KeyError(delivery.body)
        return super().identify(delivery)


def test_a_source_that_raises_at_one_reads_the_others(database: str) -> None:
    """What it met is told by its type, without the payload (P-FLOW, P-QUIET)."""

    async def story() -> None:
        await quarantined(database, b'{"names": ["poison"]}', b'{"names": ["evt_b"]}')
        box = box_with(database, Poisoned)
        came = again(box)
        assert (came.changed, len(came.left)) == (1, 1)
        assert "it still cannot be read: the source failed at it: KeyError" in came.left[0].why
        assert "poison" not in came.left[0].why
        assert box.states() == {"quarantined": 1, "ignored": 1, "waiting": 1}
        await box.close()

    asyncio.run(story())


def test_what_a_source_raises_at_is_kept_and_never_raised(database: str) -> None:
    """An authentic delivery is quarantined, 200, whatever its source does with it (P-CALM, P-QUIET)."""

    async def story() -> None:
        box = box_with(database, Poisoned)
        box.rows(EFFECTS)
        body = b'{"names": ["poison"]}'
        receipt = await box.inbox.receive("shop", headers=signed(body), body=body)
        assert (receipt.status, str(receipt.outcome)) == (200, "quarantined")
        (row,) = box.rows("SELECT i.last_error, b.body FROM {s}.inbox i JOIN {s}.bodies b USING (id)")
        assert bytes(row["body"]) == body
        assert "the source failed at it: KeyError" in row["last_error"]
        assert "poison" not in row["last_error"]
        await box.close()

    asyncio.run(story())


def test_a_delivery_in_which_no_event_was_found_is_never_run(database: str) -> None:
    """Not even by a handler for every type: what is in it has its effect under its own id, and once (P-ONCE)."""

    async def story() -> None:
        await quarantined(database, b'{"names": ["evt_a"]}')
        box = box_with(database, Mended)
        assert again(box).changed == 1
        (row,) = box.rows("SELECT id FROM {s}.inbox WHERE state = 'ignored'")
        meant = EventFilter(states=(State.IGNORED,))
        came = run_plan(database, lambda: operate(REPLAY, meant, ADA, "webhooks"))
        assert (came.changed, [each.event.row for each in came.left]) == (0, [row["id"]])
        assert "no event was found in it" in came.left[0].why
        await box.drain()
        assert box.effects() == ["evt_a"]
        await box.close()

    asyncio.run(story())


def test_what_was_discarded_is_read_again_after_all(database: str) -> None:
    """By its row; nothing is lost by a discard (P-KEEP)."""

    async def story() -> None:
        await quarantined(database, b'{"names": ["evt_a"]}')
        box = box_with(database, Mended)
        meant = EventFilter(states=(State.QUARANTINED,))
        assert run_plan(database, lambda: operate(DISCARD, meant, ADA, "webhooks")).changed == 1
        assert again(box) == Operated()
        (row,) = box.rows("SELECT id FROM {s}.inbox")
        for _ in range(2):
            assert again(box, EventFilter(rows=(row["id"],))) == Operated(changed=1)
        await box.drain()
        assert box.effects() == ["evt_a"]
        await box.close()

    asyncio.run(story())
