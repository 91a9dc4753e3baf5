"""What is told of an import is the database's own verdict, whoever else records events meanwhile."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import psycopg

from tests.fixtures.recorded import Recorded
from webhook_inbox.cli.database import run_plan
from webhook_inbox.model.processed_before import ProcessedBefore
from webhook_inbox.model.settings import Settings
from webhook_inbox.model.states import State
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.importing import BATCH_EVENTS, Imported, import_events
from webhook_inbox.protocol.operate import Operator
from webhook_inbox.sources import Stripe

SHOP = EndpointPlan(name="shop", source=Stripe("whsec_fake_import"), mode="queued", settings=Settings())
ADA = Operator("ada", "moved")
DEADLINE_SECONDS = 30.0


def event(name: str) -> ProcessedBefore:
    """An event of Stripe's."""
    return ProcessedBefore(event_id=name, environment="test")


def imported(dsn: str, events: Iterable[ProcessedBefore], **more: Any) -> Imported:
    """What came of importing *events* at the shop."""
    return run_plan(dsn, lambda: import_events(events, SHOP, ADA, "webhooks", **more))


def test_what_a_rival_records_meanwhile_is_known_and_not_new(database: str) -> None:
    """P-DUP: the key decides, and so it does about what is told."""
    recorded = Recorded(database)
    done: list[Imported] = []
    importing = threading.Thread(
        target=lambda: done.append(imported(database, map(event, ("evt_1", "evt_2", "evt_3"))))
    )
    with psycopg.connect(database) as rival:
        rival.execute(
            "INSERT INTO webhooks.inbox (provider, endpoint, environment, event_id, event_type, state, body_sha256, "
            "body_bytes) VALUES ('stripe', 'shop', 'test', 'evt_2', 't', 'waiting', '', 0)"
        )
        importing.start()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not recorded.rows("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"):
            assert time.monotonic() < deadline, "nobody waits"
        rival.commit()
    importing.join(DEADLINE_SECONDS)
    assert done == [Imported(new=2, known=Counter({State.WAITING: 1}))]
    assert recorded.rows("SELECT after FROM webhooks.audit") == [{"after": {"events": 2}}]


def test_what_is_named_again_is_known(database: str) -> None:
    """Within a transaction it is told apart; a dry run, which records nothing, counts it as new once for each."""
    names = [f"evt_{number}" for number in range(BATCH_EVENTS)] + ["evt_0", "evt_new", "evt_new"]
    dry = imported(database, map(event, names), dry_run=True)
    assert (dry.new, dry.known, dry.repeated) == (BATCH_EVENTS + 2, Counter(), 1)
    done = imported(database, map(event, names))
    assert (done.new, done.known, done.repeated) == (
        BATCH_EVENTS + 1,
        Counter({State.PROCESSED: 1}),
        1,
    )
