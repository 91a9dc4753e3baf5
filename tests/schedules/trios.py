"""List what three do at once; there are too many interleavings to try them all, so the bound is said."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fixtures.arrivals import SCHEMA, arrival
from tests.schedules.pairs import BY, Pair, Plans, held, pair, sent_again, worked_off
from tests.schedules.stage import (
    TO,
    Connection,
    booked,
    check_events,
    processing,
    recorded,
    rows,
    taking_over,
    worker,
    working,
)
from tests.schedules.upkeep import RETENTION, old
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State
from webhook_inbox.protocol.enqueue import enqueue
from webhook_inbox.protocol.operate import DISCARD, RETRY, operate
from webhook_inbox.protocol.prune import prune
from webhook_inbox.protocol.record import record_one
from webhook_inbox.testing.schedules import Ending


def _received_thrice(_: Connection) -> Plans:
    return [record_one(booked(), TO) for _ in range(3)]


def _claimed_thrice(conn: Connection) -> Plans:
    recorded(conn, "evt_1", "evt_2")
    return [working(worker(conn), 1) for _ in range(3)]


def _late_duplicate_and_takeover(conn: Connection) -> Plans:
    holder, claims = held(conn, "evt_1")
    return [enqueue([arrival()], TO), processing(claims), taking_over(holder, worker(conn))]


def _late_duplicate_of_a_run(conn: Connection) -> Plans:
    """Old, and processed meanwhile."""
    _, claims = old(conn, processed=False)
    return [processing(claims), prune(RETENTION, SCHEMA), record_one(booked(), TO)]


def _discarded_and_retried(conn: Connection) -> Plans:
    recorded(conn, "evt_1")
    meant = EventFilter(event_id="evt_1")
    return [
        operate(DISCARD, meant, BY, SCHEMA),
        operate(RETRY, meant, BY, SCHEMA),
        working(worker(conn)),
    ]


def _never_after_a_discard(conn: Connection, endings: Sequence[Ending]) -> None:
    """Whoever comes last of two operators is told the truth; a discarded event is run by nobody."""
    (row,) = check_events(conn, endings).values()
    discarded = rows(conn, "SELECT FROM webhooks.audit WHERE action = 'discard'")
    assert (row["state"] == State.IGNORED) == bool(discarded), (
        f"{row['state']}, discarded {len(discarded)} times"
    )


def _worked_off_and_sent_again(conn: Connection, endings: Sequence[Ending]) -> None:
    worked_off(conn, endings)
    sent_again(conn, [])


TRIOS: dict[str, Pair] = {
    "receive x receive x receive, same id": pair(_received_thrice, sent_again, floors=(46, 49)),
    "claim and process x three": pair(_claimed_thrice, worked_off, floors=(16, 74), turns=1),
    "receive x process x lease expiry and process": pair(
        _late_duplicate_and_takeover, worked_off, floors=(12, 67), turns=1
    ),
    "process x prune x late duplicate": pair(
        _late_duplicate_of_a_run, _worked_off_and_sent_again, floors=(19, 97), turns=1
    ),
    "discard x retry x claim and process": pair(
        _discarded_and_retried, _never_after_a_discard, floors=(29, 129), turns=1
    ),
}
