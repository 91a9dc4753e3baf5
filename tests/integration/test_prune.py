"""What is old and settled is forgotten, payload first and key much later; what P-KEEP protects never is."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.fixtures.queue import Queue, body_of, until
from tests.fixtures.recorded import Recorded
from webhook_inbox import Inbox
from webhook_inbox.cli.database import run_plan
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol import prune as module
from webhook_inbox.protocol.operate import REPLAY, Operator, operate
from webhook_inbox.protocol.prune import Position, Pruned, Retention, prune, prune_step
from webhook_inbox.runtime import pruner
from webhook_inbox.sources import Stripe
from webhook_inbox.sql.statements import Statements

DAY = 86_400
SHOP = Retention("shop", payload_days=10, key_days=20)
SETTLED = {State.PROCESSED, State.IGNORED}


def forget(recorded: Recorded, *retentions: Retention, dry_run: bool = False) -> Pruned:
    """Prune by what these say, or else the shop."""
    return run_plan(recorded.dsn, lambda: prune(retentions or (SHOP,), "webhooks", dry_run=dry_run))


def kept(recorded: Recorded) -> dict[str, bool]:
    """Each event that is there, and whether its bytes are."""
    rows = recorded.rows(
        "SELECT i.event_id, b.id IS NOT NULL AS body FROM webhooks.inbox i LEFT JOIN webhooks.bodies b "
        "ON b.id = i.id AND b.received_at = i.received_at ORDER BY i.id"
    )
    return {row["event_id"]: row["body"] for row in rows}


def make_day(recorded: Recorded, days_ago: int) -> str:
    """Give the bodies of a day in the past a partition of their own, as there was when it was today."""
    day = datetime.now(UTC).date() - timedelta(days=days_ago)
    name = f"bodies_{day:%Y%m%d}"
    with psycopg.connect(recorded.dsn, autocommit=True) as conn:
        conn.execute("SET TimeZone = 'UTC'")
        conn.execute(
            f"CREATE TABLE webhooks.{name} PARTITION OF webhooks.bodies "
            f"FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')".encode()
        )
    return name


def partitions(recorded: Recorded) -> set[str]:
    """The days that have a partition."""
    rows = recorded.rows("SELECT relname FROM pg_class WHERE relname ~ '^bodies_[0-9]{8}$'")
    return {row["relname"] for row in rows}


def until_waiting(recorded: Recorded) -> None:
    """Wait until somebody waits for a lock on this database's bodies."""
    deadline = time.monotonic() + 30
    asked = "SELECT pid FROM pg_locks WHERE NOT granted AND relation = 'webhooks.bodies'::regclass"
    while not recorded.rows(asked):
        assert time.monotonic() < deadline, "nobody waits"


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("state", State)
def test_only_what_is_settled_is_forgotten(database: str, state: State, partitioned: bool) -> None:
    """P-KEEP: payload first, then the key; nothing of what is waiting, leased, retrying, dead or quarantined, ever."""
    recorded = Recorded(database)
    if partitioned:
        for days in (9, 11, 21):
            make_day(recorded, days)
    for days in (9, 11, 21):
        recorded.add(f"evt_{days}", state, ago=days * DAY)
    forget(recorded)
    if state in SETTLED:
        assert kept(recorded) == {"evt_9": True, "evt_11": False}
    else:
        assert kept(recorded) == {"evt_9": True, "evt_11": True, "evt_21": True}
    assert forget(recorded) == Pruned()


def test_the_key_of_a_late_effect_is_as_young_as_the_effect(database: str) -> None:
    """P-KEEP: a dead event that was run again today is still known tomorrow, and a redelivery of it a duplicate."""
    recorded = Recorded(database)
    recorded.add("evt_late", ago=30 * DAY, settled_ago=1 * DAY)
    recorded.add("evt_old", ago=30 * DAY, settled_ago=21 * DAY)
    assert forget(recorded, dry_run=True).events == 1
    assert forget(recorded).events == 1
    assert kept(recorded) == {"evt_late": False}


def test_each_endpoint_keeps_for_as_long_as_it_says(database: str) -> None:
    """And one that the app does not have keeps everything."""
    recorded = Recorded(database)
    for endpoint in ("shop", "billing", "former"):
        recorded.add(f"evt_{endpoint}", endpoint=endpoint, ago=15 * DAY)
    recorded.add("evt_old", endpoint="billing", ago=400 * DAY)
    recorded.add("evt_former", endpoint="former", ago=400 * DAY, account="a")
    billing = Retention("billing", payload_days=20, key_days=500)
    assert forget(recorded, SHOP, billing) == Pruned(bodies=2)
    rows = recorded.rows(
        "SELECT b.id, i.event_id FROM webhooks.bodies b JOIN webhooks.inbox i USING (id) ORDER BY 1"
    )
    assert [row["event_id"] for row in rows] == ["evt_billing", "evt_former", "evt_former"]
    assert len(recorded.rows("SELECT id FROM webhooks.inbox")) == 5


def test_one_endpoint_may_say_7_days_where_another_says_nothing(database: str) -> None:
    """A whole number beside a default is no array of two types."""
    recorded = Recorded(database)
    recorded.add("evt_shop", endpoint="shop", ago=15 * DAY)
    recorded.add("evt_billing", endpoint="billing", ago=15 * DAY)
    inbox = Inbox(database)
    inbox.endpoint("shop", Stripe(secrets="whsec_fake"), payload_days=7)
    inbox.endpoint("billing", Stripe(secrets="whsec_fake"))
    assert forget(recorded, *map(Retention.of, inbox.endpoint_plans.values())) == Pruned(bodies=1)
    inbox.close()


def test_all_that_belongs_to_a_forgotten_event_goes_with_it(database: str) -> None:
    """Its runs, resolved reviews and evidence, and nobody else's; an open review keeps all of it."""
    recorded = Recorded(database)
    for name, resolved in (("evt_1", "now()"), ("evt_2", "NULL")):
        row = recorded.add(name, ago=30 * DAY)
        recorded.rows(
            "INSERT INTO webhooks.attempts (inbox_id, attempt, claim, worker, started_at, seconds, outcome) "
            "VALUES (%s, 1, 1, 'w', now(), 1, 'failed')",
            row,
        )
        recorded.rows(
            "INSERT INTO webhooks.conflicts (inbox_id, body_sha256, body, headers) VALUES (%s, 'a', 'b', '[]')",
            row,
        )
        recorded.rows(
            "INSERT INTO webhooks.reviews (inbox_id, endpoint, event_id, summary, details, resolved_at) "
            f"VALUES (%s, 'shop', %s, 's', '{{}}', {resolved})",
            row,
            name,
        )
    assert forget(recorded) == Pruned(bodies=1, events=1)
    assert kept(recorded) == {"evt_2": True}
    left = recorded.event("evt_2")["id"]
    for table in ("attempts", "conflicts", "reviews"):
        assert recorded.rows(f"SELECT inbox_id FROM webhooks.{table}") == [{"inbox_id": left}]


def test_a_day_that_nobody_needs_is_dropped_whole(database: str) -> None:
    """Survivors are moved first, with their bytes; days that may still be needed stay."""
    recorded = Recorded(database)
    old, young = make_day(recorded, 12), make_day(recorded, 5)
    for number in range(20):
        recorded.add(f"evt_{number}", ago=12 * DAY)
    recorded.add("evt_dead", "dead", ago=12 * DAY, body=b"bytes of the dead")
    recorded.add("evt_young", ago=5 * DAY)
    before = partitions(recorded)
    assert forget(recorded).days == (old,)
    assert before - partitions(recorded) == {old}
    assert young in partitions(recorded)
    assert {name for name, body in kept(recorded).items() if body} == {"evt_dead", "evt_young"}
    rows = recorded.rows("SELECT body FROM webhooks.bodies_default")
    assert [bytes(row["body"]) for row in rows] == [b"bytes of the dead"]


def test_two_that_would_drop_the_same_day_do_not_stumble(database: str) -> None:
    """Whoever comes second finds that it is gone, and takes the next one."""
    recorded = Recorded(database)
    days = [make_day(recorded, 13), make_day(recorded, 12)]
    drop = "SELECT webhooks.drop_body_partition(now() - interval '10 days', 1000)"
    dropped: list[Any] = []

    def second() -> None:
        with psycopg.connect(database) as conn:
            dropped.extend(conn.execute(drop).fetchone() or ())

    with psycopg.connect(database) as first:
        dropped.extend(first.execute(drop).fetchone() or ())
        racing = threading.Thread(target=second)
        racing.start()
        until_waiting(recorded)
        first.commit()
        racing.join(30)
    assert dropped == days


def test_an_open_review_keeps_its_own_day_and_no_other(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are of young events."""
    monkeypatch.setattr(module, "SURVIVORS_MAX", 0)
    recorded = Recorded(database)
    old, reviewed = make_day(recorded, 13), make_day(recorded, 12)
    recorded.add("evt_old", ago=13 * DAY)
    for name, days in (("evt_reviewed", 12), ("evt_young", 1)):
        recorded.rows(
            "INSERT INTO webhooks.reviews (inbox_id, endpoint, event_id, summary, details) "
            "VALUES (%s, 'shop', %s, 's', '{}')",
            recorded.add(name, ago=days * DAY),
            name,
        )
    assert forget(recorded).days == (old,)
    assert reviewed in partitions(recorded)
    assert kept(recorded) == {"evt_old": False, "evt_reviewed": True, "evt_young": True}


@pytest.mark.parametrize("why", ["a stranger's endpoint", "many survivors", "somebody writes"])
def test_where_a_day_cannot_be_dropped_its_bodies_go_one_by_one(
    database: str, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """And nobody waits for it."""
    recorded = Recorded(database)
    day = make_day(recorded, 12)
    recorded.add("evt_old", ago=12 * DAY)
    recorded.add("evt_dead", "dead", ago=12 * DAY)
    if why == "a stranger's endpoint":
        recorded.add("evt_strange", ago=12 * DAY, endpoint="strange")
    if why == "many survivors":
        monkeypatch.setattr(module, "SURVIVORS_MAX", 0)
    with psycopg.connect(database) as writer:
        if why == "somebody writes":
            writer.execute("LOCK TABLE webhooks.bodies IN ROW EXCLUSIVE MODE")
        assert forget(recorded) == Pruned(bodies=1)
    assert day in partitions(recorded)
    assert kept(recorded) == {"evt_old": False, "evt_dead": True} | (
        {"evt_strange": True} if why == "a stranger's endpoint" else {}
    )


def test_a_dry_run_counts_and_forgets_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The true numbers, across batches."""
    monkeypatch.setattr(module, "BATCH_ROWS", 3)
    recorded = Recorded(database)
    for number in range(8):
        recorded.add(f"evt_{number}", "dead" if number == 4 else "processed", ago=(30 - number * 2) * DAY)
    before = kept(recorded)
    promised = forget(recorded, dry_run=True)
    assert kept(recorded) == before
    assert promised == Pruned(bodies=7, events=5)
    assert forget(recorded) == promised
    assert kept(recorded) == {"evt_4": True, "evt_6": False, "evt_7": False}


def test_an_event_that_an_operator_is_having_run_again_is_left(database: str) -> None:
    """P-KEEP: its row is locked meanwhile; and without bytes it cannot be had run again."""
    recorded = Recorded(database)
    row = recorded.add("evt_1", "ignored", ago=30 * DAY)
    with psycopg.connect(database) as operator:
        operator.execute("SELECT id FROM webhooks.inbox WHERE id = %s FOR UPDATE", [row])
        assert forget(recorded) == Pruned()
        operator.execute("UPDATE webhooks.inbox SET state = 'waiting' WHERE id = %s", [row])
    assert forget(recorded) == Pruned()
    assert kept(recorded) == {"evt_1": True}
    recorded.add("evt_2", "ignored", ago=15 * DAY)
    forget(recorded)
    meant = EventFilter(event_id="evt_2")
    came = run_plan(database, lambda: operate(REPLAY, meant, Operator("ada"), "webhooks"))
    assert (came.changed, "bytes are not kept" in came.left[0].why) == (0, True)


def test_what_races_for_a_day_that_is_dropped_keeps_its_bytes(database: str) -> None:
    """P-KEEP: an operator who has looked for the bytes holds the drop up, and the event survives it."""
    recorded = Recorded(database)
    make_day(recorded, 12)
    row = recorded.add("evt_1", "ignored", ago=12 * DAY)
    with psycopg.connect(database) as operator:
        operator.execute(
            "SELECT i.id FROM webhooks.inbox i JOIN webhooks.bodies b ON b.id = i.id WHERE i.id = %s FOR UPDATE OF i",
            [row],
        )
        dropping = threading.Thread(target=forget, args=[recorded])
        dropping.start()
        operator.execute("UPDATE webhooks.inbox SET state = 'waiting' WHERE id = %s", [row])
        operator.commit()
        dropping.join(30)
    forget(recorded)
    assert kept(recorded) == {"evt_1": True}


def walked(recorded: Recorded, *retentions: Retention) -> tuple[Pruned, int]:
    """What a worker's hourly walk forgets, and in how many steps."""
    sql, position, done, steps = Statements.of("webhooks"), Position(), Pruned(), 0
    while position.stage != "done":
        step, position = run_plan(recorded.dsn, partial(prune_step, retentions, position, sql))
        done, steps = done + step, steps + 1
    return done, steps


ARCHIVE = Retention("archive", payload_days=400, key_days=500)
# Days, asking and writing down of two stages, a look at each of two spans of each, and the counters.
STEPS = 1 + 2 * (1 + 2 + 1) + 1


def archived(recorded: Recorded, number: int) -> None:
    """Record *number* events that are kept for long, a minute apart, and let them be as if nothing else were."""
    recorded.rows(
        """
        WITH event AS (
            INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, processed_at, received_at,
                                        body_sha256, body_bytes)
            SELECT 'stripe', 'archive', 'evt_a' || n, 't', 'processed', at, at, '', 1
            FROM generate_series(1, %s) n, LATERAL (SELECT now() - interval '30 days' + n * interval '1 min' AS at) a
            RETURNING received_at, id
        )
        INSERT INTO webhooks.bodies SELECT received_at, id, 'x', '[]' FROM event RETURNING id
        """,
        number,
    )


def test_a_walk_costs_what_has_come_of_age_since_the_last(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much is kept: what another endpoint keeps for long is looked through once, and not each hour."""
    monkeypatch.setattr(module, "BATCH_ROWS", 20)
    recorded = Recorded(database)
    archived(recorded, 400)
    done, steps = walked(recorded, SHOP, ARCHIVE)
    assert (done, steps > 2 * 400 / 20) == (Pruned(), True)
    done, steps = walked(recorded, SHOP, ARCHIVE)
    assert (done, steps <= STEPS) == (Pruned(), True)
    for days in (20, 10):
        recorded.add(f"evt_{days}", ago=days * DAY + 60)
    done, steps = walked(recorded, SHOP, ARCHIVE)
    # The event's bytes went with it, and a step looks whether there are more.
    assert (done, steps <= STEPS + 1) == (Pruned(bodies=1, events=1), True)
    assert {name: body for name, body in kept(recorded).items() if "_a" not in name} == {"evt_10": False}


def test_what_could_not_go_in_time_goes_a_day_later(database: str) -> None:
    """It was dead when it came of age; an operator's walk, which looks through all there is, has it go at once."""
    recorded = Recorded(database)
    for name in ("evt_1", "evt_2"):
        recorded.add(name, "dead", ago=30 * DAY)
    assert walked(recorded, SHOP)[0] == Pruned()
    settle = "UPDATE webhooks.inbox SET state = 'ignored' WHERE event_id = %s"
    recorded.rows(settle, "evt_1")
    assert walked(recorded, SHOP)[0] == Pruned()
    assert forget(recorded, dry_run=True) == Pruned(bodies=1, events=1)
    assert forget(recorded) == Pruned(bodies=1, events=1)
    recorded.rows(settle, "evt_2")
    recorded.rows("UPDATE webhooks.prunes SET complete_at = complete_at - interval '25 hours'")
    assert walked(recorded, SHOP)[0] == Pruned(bodies=1, events=1)
    assert kept(recorded) == {}


def test_a_walk_knows_of_each_endpoint_how_far_it_has_come(database: str) -> None:
    """One that comes along later, or says that it keeps less from now on, is looked through from where it stands."""
    recorded = Recorded(database)
    for endpoint, days in (("shop", 9), ("billing", 30)):
        recorded.add(f"evt_{endpoint}", endpoint=endpoint, ago=days * DAY)
    assert walked(recorded, SHOP)[0] == Pruned()
    billing = Retention("billing", payload_days=10, key_days=20)
    assert walked(recorded, SHOP, billing)[0] == Pruned(bodies=1, events=1)
    assert walked(recorded, Retention("shop", payload_days=8, key_days=20), billing)[0] == Pruned(bodies=1)
    assert kept(recorded) == {"evt_shop": False}


def test_a_worker_forgets_by_itself(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside its work, by the settings of its endpoints; a redelivery of what is not forgotten stays a duplicate."""
    monkeypatch.setattr(pruner, "FIRST_SECONDS_MAX", 0.01)
    recorded = Recorded(database)
    for days in (10, 31, 100):
        recorded.add(f"evt_{days}", endpoint="billing", ago=days * DAY)

    async def story() -> None:
        box = Queue(database)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            pass

        async with box.working():
            await until(lambda: kept(recorded) == {"evt_10": True, "evt_31": False})
        (receipt,) = await box.receive("evt_31")
        assert str(receipt.outcome) == "duplicate"
        await box.close()

    asyncio.run(story())


def test_a_worker_that_cannot_forget_goes_on(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And tries again."""
    monkeypatch.setattr(pruner, "FIRST_SECONDS_MAX", 0.01)
    monkeypatch.setattr(pruner, "EVERY_SECONDS", 0.01)
    recorded = Recorded(database)
    recorded.add("evt_1", endpoint="billing", ago=40 * DAY)
    recorded.rows("ALTER TABLE webhooks.attempts RENAME TO elsewhere")

    async def story() -> None:
        box = Queue(database)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            pass

        async with box.working():
            await box.deliver(body_of("evt_2"))
            await until(lambda: box.event("evt_2")["state"] == "processed")
            recorded.rows("ALTER TABLE webhooks.elsewhere RENAME TO attempts")
            await until(lambda: kept(recorded) == {"evt_1": False, "evt_2": True})
        await box.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"key_days": 2.0, "payload_days": 1.0}, "its provider sends again for 3 days"),
        ({"key_days": 29.0, "payload_days": 1.0}, "missed events of 30 days"),
        ({"key_days": 60.0, "payload_days": 61.0}, "payloads are forgotten first"),
    ],
)
def test_a_key_that_would_be_forgotten_too_early_is_refused(settings: dict[str, float], what: str) -> None:
    """P-KEEP: at the start, by what is known of the provider."""
    with pytest.raises(ConfigurationError, match=what):
        Queue("postgresql://nowhere/x", endpoint=settings)
    Queue("postgresql://nowhere/x", endpoint={"key_days": 30.0, "payload_days": 30.0})
