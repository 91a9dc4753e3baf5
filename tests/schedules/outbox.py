"""Put two relays on the stage, and check what must hold of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.fixtures.arrivals import SCHEMA
from tests.schedules.stage import SQL, Connection, expiring, rows, run
from webhook_inbox.model.claim import Retry, WorkerId
from webhook_inbox.model.message import Limits, Sent
from webhook_inbox.model.routing import Outlet, Route, Routing
from webhook_inbox.protocol.lease import register
from webhook_inbox.protocol.relay import (
    Claimed,
    Relaying,
    Settled,
    claim_messages,
    return_messages,
    route_messages,
    settle_messages,
)
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.testing.schedules import Ending

OUTLET = Outlet(name="mail", limits=Limits())
ROUTING = Routing((OUTLET,), [Route("*", "mail")])
# No delay after a relay died: the next one may claim at once.
TO = Relaying(
    sql=SQL, schema=SCHEMA, retry=Retry(backoff_seconds_max=0.0, retry_seconds_max=3600.0, attempts_max=0)
)
WRITE = (
    f"INSERT INTO {SCHEMA}.outbox (event_type, payload) SELECT 'Booked', '{{}}' FROM generate_series(1, 2)"
)


def routing(worker_id: WorkerId) -> Plan[tuple[Claimed, ...]]:
    """Route what is new, and claim what is due."""
    yield from route_messages(ROUTING, TO)
    return (yield from claim_messages(OUTLET, 10, worker_id, TO))


def sending(worker_id: WorkerId) -> Plan[tuple[Settled, ...]]:
    """Claim what is due and settle it."""
    claims = yield from claim_messages(OUTLET, 10, worker_id, TO)
    return (yield from settling(claims))


def settling(claims: Sequence[Claimed], to: Relaying = TO) -> Plan[tuple[Settled, ...]]:
    """Have all of *claims* confirmed."""
    if not claims:
        return ()
    return (yield from settle_messages(OUTLET, [(each, Sent()) for each in claims], to))


def relay(conn: Connection) -> WorkerId:
    """Register a relay."""
    return run(conn, register("relay", 120.0, SQL))


def routings(conn: Connection) -> list[Plan[Any]]:
    """Two relays route two new messages, and claim them."""
    conn.execute(WRITE.encode())
    return [routing(relay(conn)), routing(relay(conn))]


def sendings(conn: Connection) -> list[Plan[Any]]:
    """Two relays send two messages that are due."""
    conn.execute(WRITE.encode())
    run(conn, route_messages(ROUTING, TO))
    return [sending(relay(conn)), sending(relay(conn))]


def takeover(conn: Connection) -> list[Plan[Any]]:
    """A relay settles what another takes for lost and sends again."""
    conn.execute(WRITE.encode())
    run(conn, route_messages(ROUTING, TO))
    first, second = relay(conn), relay(conn)
    claims = run(conn, claim_messages(OUTLET, 10, first, TO))
    return [settling(claims), taking_over(first, second)]


def taking_over(first: WorkerId, second: WorkerId) -> Plan[tuple[Settled, ...]]:
    """Let the lease of *first* end, and send what it held."""
    yield from expiring(first)
    yield from return_messages(TO)
    return (yield from sending(second))


def check(conn: Connection, endings: Sequence[Ending]) -> None:
    """A message is marked sent by who holds it and by nobody else, and published exactly where it is sent."""
    messages = rows(
        conn,
        "SELECT o.id, o.published_at IS NOT NULL AS published, s.state, s.claims, s.attempts "
        f"FROM {SCHEMA}.outbox o LEFT JOIN {SCHEMA}.sends s ON s.message_id = o.id",
    )
    assert len(messages) == 2, "P-OUT: a message went to one destination twice, or is gone"
    by_id = {row["id"]: row for row in messages}
    for row in messages:
        assert row["published"] == (row["state"] == "sent"), (
            f"P-OUT: {row['state']}, published {row['published']}"
        )
        assert row["state"] is None or row["attempts"] >= row["claims"], (
            "P-COUNT: a claim that was not counted"
        )
    told = [each for ending in endings for each in ending.value or ()]
    claimed = [each.message.id for each in told if isinstance(each, Claimed)]
    assert len(claimed) == len(set(claimed)), "P-FENCE: a message was claimed twice"
    for each in told:
        if isinstance(each, Settled) and each.state is not None:
            row = by_id[each.claimed.message.id]
            assert row["claims"] == each.claimed.token, "P-FENCE: settled by who had lost the claim"
            assert row["state"] == "sent", "P-OUT: said to be sent, and is not"
