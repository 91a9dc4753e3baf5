"""Whatever database a process was given: killed before its COMMIT, or right after it, there is one effect."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.fixtures.databases import GIVEN, Given
from tests.fixtures.programs import Programs, eventually
from tests.fixtures.queue import SECRET, body_of, signed
from webhook_inbox import Inbox, Outcome
from webhook_inbox.sources import Stripe

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, json, os, time
from tests.faults.test_databases_killed import deliver_by
from tests.fixtures.databases import GIVEN

def probe(point):
    if point == os.environ["POINT"]:
        print(json.dumps(point), flush=True)
        time.sleep(600)

given = next(each for each in GIVEN if each.label == os.environ["LABEL"])
asyncio.run(deliver_by(given, os.environ["DSN"], probe))
"""


async def deliver_by(given: Given, dsn: str, probe: Any) -> Outcome:
    """Deliver one event to an inbox over *given*, whose handler writes one effect."""
    async with given.open(dsn) as database:
        inbox = Inbox(database, probe=probe)
        billing = inbox.endpoint("billing", Stripe(secrets=SECRET), mode="inline")
        billing.on("invoice.paid")(given.handler(lambda event: f"INSERT INTO effects VALUES ('{event.id}')"))
        body = body_of("evt_1")
        async with inbox.running():
            return (await inbox.receive("billing", headers=signed(body), body=body)).outcome


@pytest.mark.parametrize(("point", "survives"), [("commit.before", False), ("commit.after", True)])
@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.label)
def test_a_process_that_is_killed_at_the_commit_leaves_all_or_nothing(
    database: str, programs: Programs, given: Given, point: str, survives: bool
) -> None:
    """P-ONCE, P-ACK: SIGKILL; the resend, to another process, is processed or a duplicate: one effect, one message."""
    with psycopg.connect(database, autocommit=True) as witness:
        witness.execute("CREATE TABLE effects (event_id text NOT NULL)")
        counts = "SELECT (SELECT count(*) FROM effects), (SELECT count(*) FROM webhooks.inbox)"
        code = os.pathsep.join(map(str, (ROOT, *programs._code(copied=False))))
        environment = {
            "LABEL": given.label,
            "DSN": database,
            "POINT": f"record_one.{point}",
            "PYTHONPATH": code,
        }
        program = programs.start(PROGRAM, environment=environment)
        assert program.report() == f"record_one.{point}"
        program.kill()
        ended = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle'"
        eventually(lambda: witness.execute(ended).fetchone() == (1,), what="the server noticed")
        assert witness.execute(counts).fetchone() == ((1, 1) if survives else (0, 0))
        outcome = asyncio.run(deliver_by(given, database, lambda _: None))
        assert outcome is (Outcome.DUPLICATE if survives else Outcome.PROCESSED)
        assert witness.execute(counts).fetchone() == (1, 1)
        assert witness.execute("SELECT count(*) FROM webhooks.outbox").fetchone() == (1,)
