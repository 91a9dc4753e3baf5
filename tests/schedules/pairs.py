"""List the pairs of plans whose every interleaving is tried, and what must hold of each beside ``check_events``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fixtures.arrivals import SCHEMA, arrival
from tests.schedules import limits, outbox
from tests.schedules.stage import (
    BOOK,
    PROCESSING,
    TO,
    Connection,
    Ran,
    booked,
    check_events,
    claiming,
    clear,
    expiring,
    failing,
    processing,
    recorded,
    rows,
    run,
    taking_over,
    worker,
    working,
)
from webhook_inbox.errors import HandlerFailedError
from webhook_inbox.model.claim import Claim
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import State
from webhook_inbox.protocol.batch import process_batch
from webhook_inbox.protocol.enqueue import enqueue, record_leased
from webhook_inbox.protocol.lease import pause
from webhook_inbox.protocol.operate import DISCARD, REPLAY, RETRY, Action, Operator, operate
from webhook_inbox.protocol.process import Work
from webhook_inbox.protocol.prune import Retention, prune
from webhook_inbox.protocol.record import record_batch, record_one
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.testing.schedules import Ending, Scenario

Plans = Sequence[Plan[Any]]
BY = Operator("somebody")


@dataclass(frozen=True)
class Pair:
    """
    A scenario, and how many schedules there are at least: fewer, and the explorer explores less than it did.

    Attributes:
        floor: Without faults, with at most *turns* turns.
        floor_faulted: With at most one fault or one turn.
        turns: How often a schedule may depart from "whoever moved last goes on" where not all are tried.
    """

    scenario: Scenario
    floor: int
    floor_faulted: int
    turns: int = 2


def pair(
    plans: Callable[[Connection], Plans],
    check: Callable[[Connection, Sequence[Ending]], object] = check_events,
    *,
    floors: tuple[int, int],
    turns: int = 2,
) -> Pair:
    """Have *plans* begin with empty tables, and *check* what they leave."""

    def prepare(conn: Connection) -> Plans:
        clear(conn)
        return plans(conn)

    def checked(conn: Connection, endings: Sequence[Ending]) -> None:
        check(conn, endings)

    return Pair(Scenario(prepare=prepare, check=checked, local=("INSERT INTO effects",)), *floors, turns)


def sent_again(conn: Connection, endings: Sequence[Ending]) -> None:
    """After whatever happened, the provider's redelivery brings the event to its one effect."""
    check_events(conn, endings)
    again = run(conn, record_one(booked(), TO))
    assert again.state == "processed"
    check_events(conn, [Ending(value=again)])


def worked_off(conn: Connection, endings: Sequence[Ending]) -> None:
    """After whatever happened, a worker that finds every lease ended brings each event to its one effect."""
    if all(row["state"] == "processed" for row in check_events(conn, endings).values()):
        return
    for (each,) in conn.execute("SELECT id FROM webhooks.workers").fetchall():
        run(conn, expiring(each))
    run(conn, working(worker(conn)))
    left = [row["state"] for row in check_events(conn, []).values()]
    assert set(left) <= {"processed"}, f"P-ACK: what was recorded is left {left}"


def _held_once(conn: Connection, endings: Sequence[Ending]) -> None:
    """No event is claimed by two; each is leased under the token that its claimer was told."""
    events = check_events(conn, endings)
    held = [each for ending in endings for each in ending.value or () if isinstance(each, Claim)]
    ids = [each.event.id for each in held]
    assert len(ids) == len(set(ids)), "P-FENCE: an event was claimed twice"
    for each in held:
        assert (events[each.event.id]["claims"], events[each.event.id]["attempts"]) == (each.token, 1)
    worked_off(conn, endings)


def _claims_to_hold(conn: Connection) -> Plans:
    recorded(conn, "evt_1", "evt_2")
    return [claiming(worker(conn), 1), claiming(worker(conn), 2)]


def _held_within_the_limit(conn: Connection, endings: Sequence[Ending]) -> None:
    limits.one_at_once(conn, endings)
    worked_off(conn, endings)


def _claims_of_a_key(conn: Connection) -> Plans:
    recorded(conn, "evt_1", "evt_2", order_key="k")
    return [working(worker(conn)), working(worker(conn))]


def _in_order(conn: Connection, endings: Sequence[Ending]) -> None:
    check_events(conn, endings)
    ids = [row["event_id"] for row in rows(conn, "SELECT event_id FROM effects ORDER BY id")]
    assert ids == sorted(ids), f"an event overtook another of its order key: {ids}"


def held(conn: Connection, *event_ids: str) -> tuple[Any, tuple[Claim, ...]]:
    """Have events claimed; give by whom, and the claims."""
    recorded(conn, *event_ids)
    holder = worker(conn)
    return holder, run(conn, claiming(holder))


def _takeover(conn: Connection) -> Plans:
    holder, claims = held(conn, "evt_1")
    return [processing(claims), taking_over(holder, worker(conn))]


def _takeover_by_a_third(conn: Connection) -> Plans:
    holder, claims = held(conn, "evt_1")
    return [processing(claims), expiring(holder), working(worker(conn))]


def _failure_and_takeover(conn: Connection) -> Plans:
    holder, claims = held(conn, "evt_1")
    return [failing(claims[0], HandlerFailedError("it failed")), taking_over(holder, worker(conn))]


def _batch(claims: Sequence[Claim]) -> Plan[list[Ran]]:
    outcomes = yield from process_batch([Work(each, BOOK) for each in claims], PROCESSING)
    return [
        Ran(each, outcome) for each, outcome in zip(claims, outcomes, strict=True) if isinstance(outcome, str)
    ]


def _batch_and_claim(conn: Connection) -> Plans:
    _, claims = held(conn, "evt_1", "evt_2")
    return [_batch(claims), claiming(worker(conn))]


def _batch_and_takeover(conn: Connection) -> Plans:
    holder, claims = held(conn, "evt_1", "evt_2")
    return [_batch(claims), taking_over(holder, worker(conn))]


def _late_duplicate(conn: Connection) -> Plans:
    _, claims = held(conn, "evt_1")
    return [enqueue([arrival()], TO), processing(claims)]


def _pausing(conn: Connection) -> Plans:
    recorded(conn, "evt_1")
    late = worker(conn)

    def paused() -> Plan[tuple[Claim, ...]]:
        yield from pause("billing", "somebody", SCHEMA)
        return (yield from claiming(late))

    return [paused(), claiming(worker(conn))]


def _none_while_paused(conn: Connection, endings: Sequence[Ending]) -> None:
    check_events(conn, endings)
    assert not endings[0].value, "an event of a paused endpoint was claimed after the pause was committed"


def _operating(action: Action) -> Callable[[Connection], Plans]:
    def plans(conn: Connection) -> Plans:
        recorded(conn, "evt_1")
        return [operate(action, EventFilter(event_id="evt_1"), BY, SCHEMA), working(worker(conn))]

    return plans


def one_wins(conn: Connection, endings: Sequence[Ending]) -> None:
    """What was discarded was not run, and an operator is told the truth."""
    (row,) = check_events(conn, endings).values()
    operated = endings[0].value
    if operated is not None and operated.changed:
        assert row["state"] == "ignored", f"discarded, and {row['state']}"


def _operators(conn: Connection) -> Plans:
    recorded(conn, "evt_1")
    conn.execute("UPDATE webhooks.inbox SET state = 'dead'")
    dead = EventFilter(states=(State.DEAD,))
    return [operate(RETRY, dead, BY, SCHEMA), operate(DISCARD, dead, BY, SCHEMA)]


def _one_acts(conn: Connection, endings: Sequence[Ending]) -> None:
    """Of two operators at once one has done it, as the audit says, and the other is told so."""
    (row,) = check_events(conn, endings).values()
    done = [each["state"] for each in rows(conn, "SELECT after ->> 'state' AS state FROM webhooks.audit")]
    assert [row["state"]] == (done or ["dead"]), f"{row['state']}, and the audit says {done}"
    assert sum(each.value.changed for each in endings if each.value is not None) <= len(done)


def _forgetting(*, partitioned: bool) -> Callable[[Connection], Plans]:
    """An old event is had run again while its bytes are forgotten: one by one, or with all of their day."""

    def plans(conn: Connection) -> Plans:
        recorded(conn, "evt_1")
        if partitioned:
            day = datetime.now(UTC).date() - timedelta(days=15)
            conn.execute(
                f"CREATE TABLE IF NOT EXISTS webhooks.bodies_{day:%Y%m%d} PARTITION OF webhooks.bodies "
                f"FOR VALUES FROM ('{day} 00:00Z') TO ('{day + timedelta(days=1)} 00:00Z')".encode()
            )
        for table in ("inbox", "bodies"):
            conn.execute(
                f"UPDATE webhooks.{table} SET received_at = received_at - interval '15 days'".encode()
            )
        conn.execute("UPDATE webhooks.inbox SET state = 'ignored'")
        kept = (Retention("billing", payload_days=10, key_days=20),)
        return [operate(REPLAY, EventFilter(event_id="evt_1"), BY, SCHEMA), prune(kept, SCHEMA)]

    return plans


def _runs_with_its_bytes(conn: Connection, endings: Sequence[Ending]) -> None:
    """What was had run again has its bytes; what has lost them is not run."""
    (row,) = check_events(conn, endings).values()
    bodies = rows(conn, "SELECT id FROM webhooks.bodies")
    assert row["state"] == "ignored" or bodies, f"P-KEEP: {row['state']}, and its bytes are gone"


def _hybrid(conn: Connection) -> Plans:
    holder = worker(conn)

    def received() -> Plan[list[Ran] | EventResult]:
        recorded = yield from record_leased(arrival(), holder, TO)
        return (yield from processing([recorded])) if isinstance(recorded, Claim) else recorded

    return [received(), received()]


PAIRS: dict[str, Pair] = {
    "receive x receive, same id": pair(
        lambda _: [record_one(booked(), TO), record_one(booked(), TO)], sent_again, floors=(6, 24)
    ),
    "receive x receive, bodies with a key in common": pair(
        lambda _: [
            record_batch([booked("evt_1"), booked("evt_2")], TO),
            record_batch([booked("evt_2"), booked("evt_1")], TO),
        ],
        sent_again,
        floors=(10, 38),
    ),
    "queued receive x queued receive, same id": pair(
        lambda _: [enqueue([arrival()], TO), enqueue([arrival()], TO)], worked_off, floors=(4, 22)
    ),
    "queued receive x inline receive, same id": pair(
        lambda _: [enqueue([arrival()], TO), record_one(booked(), TO)], worked_off, floors=(5, 19)
    ),
    "hybrid receive x hybrid receive, same id": pair(_hybrid, worked_off, floors=(19, 35)),
    "receive x process": pair(_late_duplicate, worked_off, floors=(13, 30)),
    "claim x claim": pair(_claims_to_hold, _held_once, floors=(5, 17)),
    "claim x claim, one at once": pair(limits.claims, _held_within_the_limit, floors=(18, 33)),
    "claim x claim, same order key": pair(_claims_of_a_key, _in_order, floors=(17, 47)),
    "process x lease expiry and process": pair(_takeover, worked_off, floors=(25, 33)),
    "process x lease expiry x process": pair(_takeover_by_a_third, worked_off, floors=(58, 57)),
    "fail x lease expiry and process": pair(_failure_and_takeover, worked_off, floors=(25, 41)),
    "process_batch x claim": pair(_batch_and_claim, worked_off, floors=(9, 26)),
    "process_batch x lease expiry and process": pair(_batch_and_takeover, worked_off, floors=(35, 38)),
    "pause x claim": pair(_pausing, _none_while_paused, floors=(9, 26)),
    "retry x claim and process": pair(_operating(RETRY), worked_off, floors=(38, 54)),
    "discard x claim and process": pair(_operating(DISCARD), one_wins, floors=(32, 46)),
    "retry x discard": pair(_operators, _one_acts, floors=(70, 57)),
    "replay x prune": pair(_forgetting(partitioned=False), _runs_with_its_bytes, floors=(91, 70)),
    "replay x prune, a whole day": pair(
        _forgetting(partitioned=True), _runs_with_its_bytes, floors=(110, 77)
    ),
    "relay x relay, routing": pair(outbox.routings, outbox.check, floors=(22, 38)),
    "relay x relay, sending": pair(outbox.sendings, outbox.check, floors=(17, 37)),
    "relay x settle": pair(outbox.takeover, outbox.check, floors=(42, 43)),
}
