"""List what happens beside the traffic, as pairs: migrating, forgetting, discarding, replaying, reconciling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.fixtures.arrivals import SCHEMA, arrival, recording
from tests.schedules.pairs import BY, Pair, Plans, held, one_wins, pair, sent_again, worked_off
from tests.schedules.stage import (
    EVENTS,
    TO,
    Connection,
    booked,
    expiring,
    processing,
    rows,
    run,
    worker,
    working,
)
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.states import Origin, State
from webhook_inbox.protocol.enqueue import enqueue
from webhook_inbox.protocol.migrate import migrate, schema_status
from webhook_inbox.protocol.operate import DISCARD, REPLAY_PROCESSED, operate
from webhook_inbox.protocol.prune import Retention, prune
from webhook_inbox.protocol.record import record_one
from webhook_inbox.sql.migrations import bootstrap, migrations
from webhook_inbox.testing.schedules import Ending

UPGRADED = "upgraded"
# A key is kept for longer than payloads, and for longer than anybody sends again.
RETENTION = (Retention("billing", payload_days=10, key_days=20),)


def _migrating(conn: Connection) -> Plans:
    """The schema is one step behind; who receives meanwhile is of the release before."""
    *steps, last = migrations(UPGRADED)
    conn.execute(f"DROP SCHEMA IF EXISTS {UPGRADED} CASCADE".encode())
    conn.execute("\n".join([bootstrap(UPGRADED), *(step.text for step in steps)]).encode())
    for step in steps:
        conn.execute(
            f"INSERT INTO {UPGRADED}.migrations (version, name, serves_from) VALUES (%s, %s, 1)",
            [step.version, step.name],
        )
    assert last.serves_from < last.version, (
        "the release before does not survive this step: receive nothing meanwhile"
    )
    return [migrate(UPGRADED), enqueue([arrival()], recording(UPGRADED))]


def _migrated(conn: Connection, endings: Sequence[Ending]) -> None:
    """What was acknowledged is there, and the next migrator finishes what this one has left."""
    run(conn, migrate(UPGRADED))
    assert run(conn, schema_status(UPGRADED)).pending == 0
    again = run(conn, enqueue([arrival()], recording(UPGRADED)))
    known = endings[1].value is not None
    assert again[0].state == "waiting"
    assert not known or again[0].outcome == "duplicate", "P-ACK: acknowledged, and lost in the migration"
    assert (
        len(rows(conn, f"SELECT FROM {UPGRADED}.inbox JOIN {UPGRADED}.bodies USING (received_at, id)")) == 1
    )


def old(conn: Connection, *, processed: bool) -> Any:
    """An event that came before its key's days and is run only now; give who holds it, and the claim."""
    holder, claims = held(conn, "evt_1")
    conn.execute("UPDATE webhooks.inbox SET received_at = received_at - interval '25 days'")
    conn.execute("UPDATE webhooks.bodies SET received_at = received_at - interval '25 days'")
    if processed:
        run(conn, processing(claims))
    return holder, claims


def late_duplicate(conn: Connection) -> Plans:
    """Old, and processed a moment ago: its bytes may go, its key may not (P-KEEP)."""
    old(conn, processed=True)
    return [prune(RETENTION, SCHEMA), record_one(booked(), TO)]


def _discarding(conn: Connection) -> Plans:
    _, claims = held(conn, "evt_1")
    return [operate(DISCARD, EventFilter(event_id="evt_1"), BY, SCHEMA), processing(claims)]


def _replaying(conn: Connection) -> Plans:
    _, claims = held(conn, "evt_1")
    return [operate(REPLAY_PROCESSED, EventFilter(event_id="evt_1"), BY, SCHEMA), processing(claims)]


def _once_more(conn: Connection, _: Sequence[Ending]) -> None:
    """A replay that was committed has its effect once more, and none that was not; the audit says which."""
    for (each,) in conn.execute("SELECT id FROM webhooks.workers").fetchall():
        run(conn, expiring(each))
    run(conn, working(worker(conn)))
    (row,) = rows(conn, EVENTS)
    (audit,) = rows(conn, "SELECT count(*) AS replays FROM webhooks.audit")
    assert row["state"] == State.PROCESSED, f"P-ACK: what was recorded is left {row['state']}"
    assert row["effects"] == 1 + audit["replays"], (
        f"P-ONCE: {row['effects']} effects, {audit['replays']} replays"
    )
    assert row["own"] == 1, "P-ONCE: the last effect is of another transaction than the mark"


def _reconciling(_: Connection) -> Plans:
    copy = arrival(body=b"copy", signed_id=False, origin=Origin.RECONCILE)
    return [enqueue([copy], TO), enqueue([arrival(signed_id=False)], TO)]


def _one_event(conn: Connection, endings: Sequence[Ending]) -> None:
    """Copy and delivery are one event, and no conflict, in whatever order they come."""
    worked_off(conn, endings)
    assert not rows(conn, "SELECT FROM webhooks.conflicts")
    told = [result for ending in endings for result in ending.value or () if isinstance(result, EventResult)]
    assert sum(result.outcome == "queued" for result in told) <= 1, "P-DUP: one event was recorded twice"


UPKEEP: dict[str, Pair] = {
    "migrate x receive": pair(_migrating, _migrated, floors=(18, 50)),
    "prune x late duplicate": pair(late_duplicate, sent_again, floors=(37, 72)),
    "discard x process": pair(_discarding, one_wins, floors=(31, 59)),
    "replay x process": pair(_replaying, _once_more, floors=(31, 59)),
    "reconcile x receive": pair(_reconciling, _one_event, floors=(4, 22)),
}
