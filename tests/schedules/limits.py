"""Put an endpoint on the stage of whose events one may be under way, and two workers that claim within that."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fixtures.arrivals import SCHEMA
from tests.schedules.stage import SQL, Connection, check_events, recorded, rows, run, worker
from webhook_inbox.model.claim import Claim, WorkerId
from webhook_inbox.model.limit import Limit
from webhook_inbox.protocol import limits
from webhook_inbox.protocol.lease import Wanted
from webhook_inbox.protocol.operate import Operator
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.schedules import Ending

BY = Operator("somebody")


def claiming(worker_id: WorkerId, sql: Statements = SQL) -> Plan[tuple[Claim, ...]]:
    """Claim what is due, within the limit."""
    wanted = [Wanted(endpoint="billing", limit=10, hold_seconds=1e9)]
    claimed = yield from limits.claim(wanted, {"billing"}, worker_id, sql, looking=False)
    return claimed.claims


def claims(conn: Connection, sql: Statements = SQL) -> list[Plan[tuple[Claim, ...]]]:
    """Two that claim at once, of two events."""
    recorded(conn, "evt_1", "evt_2")
    assert run(conn, limits.limit_endpoint("billing", Limit(concurrency=1), BY, SCHEMA))
    return [claiming(worker(conn), sql), claiming(worker(conn), sql)]


def one_at_once(conn: Connection, endings: Sequence[Ending]) -> None:
    """No more is under way than was said; afterwards nothing is limited."""
    check_events(conn, endings)
    leased = rows(conn, "SELECT event_id FROM webhooks.inbox WHERE state = 'leased'")
    assert len(leased) <= 1, f"a limit of 1, and {len(leased)} are under way"
    assert run(conn, limits.limit_endpoint("billing", Limit(), BY, SCHEMA))
