"""Put the model's events on a real database: handlers that do as they are told, and the rows as the model has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from tests.property.inbox_model import (
    ATTEMPTS_MAX,
    KEY_DAYS,
    PAYLOAD_DAYS,
    RETRY_MINUTES,
    SETTLED,
    Inbox,
    Row,
)
from tests.schedules.stage import PROCESSING, SQL, Connection, rows
from webhook_inbox.model.claim import Claim, Retry
from webhook_inbox.model.states import State
from webhook_inbox.model.steering import GiveUp, Ignore, NotYet
from webhook_inbox.protocol.handlers import Handler, Handlers
from webhook_inbox.protocol.lease import bookkeeping
from webhook_inbox.protocol.process import Processing, Work
from webhook_inbox.protocol.prune import Retention
from webhook_inbox.protocol.steps import Commit, One, Plan

RETENTION = (Retention("billing", payload_days=PAYLOAD_DAYS, key_days=KEY_DAYS),)
_RETRY = Retry(backoff_seconds_max=60.0, retry_seconds_max=60.0 * RETRY_MINUTES, attempts_max=ATTEMPTS_MAX)
TO: Processing = replace(PROCESSING, retry=_RETRY)


class Says(StrEnum):
    """What a handler does once it has had its effect and emitted a message."""

    BOOKS = "books"
    ASKS = "books, and asks for a review"
    FAILS = "fails"
    NOT_YET = "says NotYet"
    IGNORES = "asks for a review and says Ignore"
    GIVES_UP = "asks for a review and says GiveUp"

    @property
    def done(self) -> bool:
        """Whether the effect stays."""
        return self in {Says.BOOKS, Says.ASKS}

    @property
    def reviews(self) -> bool:
        """Whether a review is asked for that stays."""
        return self in {Says.ASKS, Says.IGNORES, Says.GIVES_UP}


def handlers(says: Mapping[str, Says]) -> tuple[Handler, ...]:
    """Give a handler that does with each event what *says* has for it."""
    registered = Handlers()

    @registered.on("*")
    def book(tx: Any, event: Any) -> None:
        """Have an effect, tell of it, and then do as one is told."""
        tx.conn.execute("INSERT INTO effects (event_id) VALUES (%s)", [event.id])
        tx.emit("Booked", {"event": event.id})
        told = says[event.id]
        if told.reviews:
            tx.review("look at this")
        if told is Says.FAILS:
            raise RuntimeError("it failed")
        if told is Says.NOT_YET:
            raise NotYet("not yet")
        if told is Says.IGNORES:
            raise Ignore("not ours")
        if told is Says.GIVES_UP:
            raise GiveUp("unknown")

    return registered.matching("invoice.paid")


def settled(says: Says) -> State:
    """Give the state of an event whose run has ended so."""
    return {Says.IGNORES: State.IGNORED, Says.GIVES_UP: State.DEAD}.get(says, State.PROCESSED)


def work(claim: Claim, says: Says) -> Work:
    """Pair *claim* with a handler that does as *says*."""
    return Work(claim, handlers({claim.event.id: says}))


class DiedError(Exception):
    """Says that whoever ran a plan is no more."""


def dying(plan: Plan[Any], after: int) -> Plan[Any]:
    """Perform *after* steps of *plan*, and nothing more."""
    step = next(plan)
    for _ in range(after):
        result = yield step
        step = plan.send(result)
    plan.close()
    raise DiedError


def passing(minutes: int) -> Plan[None]:
    """Bring forward whatever is to happen."""
    yield bookkeeping(SQL)
    yield One(SQL.bring_forward, {"seconds": 60.0 * minutes})
    yield Commit()


def age(conn: Connection, days: int) -> None:
    """Have everything come in, and be processed, *days* earlier."""
    by = f"- interval '{days} days'"
    conn.execute(
        f"UPDATE webhooks.inbox SET received_at = received_at {by}, processed_at = processed_at {by}".encode()
    )
    conn.execute(f"UPDATE webhooks.bodies SET received_at = received_at {by}".encode())


_ROWS = """
    SELECT i.event_id, state, origin, order_key, attempts, claims, crashes, solitary, worker_id,
           available_at <= clock_timestamp() AS due, give_up_at <= clock_timestamp() AS over,
           (SELECT count(*) FROM webhooks.bodies b WHERE (b.received_at, b.id) = (i.received_at, i.id)) AS kept,
           (SELECT count(*) FROM webhooks.conflicts c WHERE c.inbox_id = i.id) AS others,
           (SELECT count(*) FROM webhooks.reviews r WHERE r.inbox_id = i.id AND resolved_at IS NULL) AS reviews,
           EXISTS (SELECT FROM effects e WHERE e.event_id = i.event_id AND e.transaction = i.effect_transaction) AS own
    FROM webhooks.inbox i ORDER BY i.id
"""


def found(conn: Connection) -> list[dict[str, Any]]:
    """Read the events as the model has them; minutes only as to whether they are over."""
    return rows(conn, _ROWS)


def wanted(model: Inbox) -> list[dict[str, Any]]:
    """Give what ``found`` should give."""
    return [_wanted(row) for row in model.rows.values()]


def _wanted(row: Row) -> dict[str, Any]:
    unfinished = row.state not in SETTLED and row.state is not State.QUARANTINED
    return {
        "event_id": row.event_id,
        "state": row.state,
        "origin": row.origin,
        "order_key": row.order_key,
        "attempts": row.attempts,
        "claims": row.claims,
        "crashes": row.crashes,
        "solitary": row.solitary,
        "worker_id": row.worker,
        "due": row.due_in <= 0 or not unfinished,
        "over": None if row.give_up_in is None else row.give_up_in <= 0,
        "kept": row.kept,
        "others": len(row.other_bodies),
        "reviews": row.reviews,
        "own": row.state is State.PROCESSED,
    }
