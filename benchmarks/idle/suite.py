"""
Let ``webhook-inbox worker`` do nothing for a while, then give it one event at a time.

Its processor time is what proc(5) says. How soon an event is picked up is the time from its 200 to the first statement
of its handler; both clocks are this machine's. Without NOTIFY, what is recorded is found by the next look alone.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import psycopg

from benchmarks.harness.environments import project_python
from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.events import event_body, signature
from benchmarks.harness.figures import Figures
from benchmarks.harness.ours import migrate
from benchmarks.harness.processes import Program, program
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench, Subject, Suite
from benchmarks.idle.app import ENDPOINTS_VARIABLE, TABLES, make_inbox
from webhook_inbox import Inbox
from webhook_inbox.runtime.notifier import Notifier

EVENTS, QUICK_EVENTS = 50, 5
PICK_UP_SECONDS_MAX = 30.0
SETTLE_SECONDS = 5.0  # imports, pools and the first looks are over
PAUSE_SECONDS = (
    0.2,
    1.2,
)  # longer than the worker polls: chance decides where between two looks an event comes
_LISTENS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN %' AND state = 'idle'
"""
_OPEN = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND state LIKE 'idle in transaction%' AND clock_timestamp() - state_change > interval '100 milliseconds'
"""
_BEGUN = "SELECT extract(epoch FROM at)::float8 FROM begun WHERE event_id = '{}'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """
    Hold one way to be idle.

    Attributes:
        endpoints: How many the worker works for.
        notifies: Whether whoever records says so.
    """

    name: str
    title: str
    endpoints: int = 1
    notifies: bool = True


WAYS = (
    Way(name="one", title="one endpoint"),
    Way(name="ten", title="ten endpoints", endpoints=10),
    Way(name="unnotified", title="one endpoint, no NOTIFY", notifies=False),
)


def measure(way: Way, bench: Bench) -> Figures:
    """Make one run: idle, then picking up."""
    with bench.server.database() as database, ExitStack() as held:
        migrate(database)
        database.execute(TABLES)
        environment = {"DATABASE_URL": database.dsn, ENDPOINTS_VARIABLE: str(way.endpoints)}
        command = [str(project_python()), "-m", "webhook_inbox", "worker", "benchmarks.idle.app:inbox"]
        worker = held.enter_context(program(command, environment=environment))
        _await_listening(worker, database)
        cpu_percent = _cpu_percent(worker, database, bench.seconds)
        inbox = held.enter_context(_receiver(database, notifies=way.notifies))
        count = QUICK_EVENTS if bench.quick else EVENTS
        picked_up = [_pick_up_ms(inbox, database, number) for number in range(count)]
        worker.check()
    return {
        "cpu_percent": cpu_percent,
        "pick_up_median_ms": statistics.median(picked_up),
        "pick_up_max_ms": max(picked_up),
    }


def _await_listening(worker: Program, database: Database) -> None:
    ends_at = time.monotonic() + PICK_UP_SECONDS_MAX
    while database.value(_LISTENS) == 0:
        worker.check()
        if time.monotonic() > ends_at:
            raise BenchmarkError(f"the worker does not listen: {worker.said()}")
        time.sleep(0.1)
    time.sleep(SETTLE_SECONDS)


def _cpu_percent(worker: Program, database: Database, seconds: float) -> float:
    """Give the part of one core that the idle worker takes; raise where it leaves a transaction open."""
    began_at, before = time.monotonic(), worker.cpu_seconds()
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        while time.monotonic() < began_at + seconds:
            row = conn.execute(_OPEN).fetchone()
            if row is None or row[0]:
                raise InvariantError("an idle worker is inside a transaction")
            time.sleep(1.0)
    return (worker.cpu_seconds() - before) / (time.monotonic() - began_at) * 100


@contextmanager
def _receiver(database: Database, *, notifies: bool) -> Iterator[Inbox]:
    inbox = make_inbox(database.dsn)
    with ExitStack() as held:
        if not notifies:
            held.enter_context(patch.object(Notifier, "send_soon", lambda _: None))
        held.callback(inbox.close)
        yield inbox


def _pick_up_ms(inbox: Inbox, database: Database, number: int) -> float:
    """Deliver one event; give the milliseconds from its 200 until its handler began."""
    time.sleep(random.uniform(*PAUSE_SECONDS))  # noqa: S311 - chance keeps us out of step with the worker's own clock
    body = event_body(number)
    headers = (("stripe-signature", signature(body, int(time.time())).decode()),)
    receipt = inbox.receive_sync("endpoint-0", headers=headers, body=body)
    answered_at, ends_at = time.time(), time.monotonic() + PICK_UP_SECONDS_MAX
    if receipt.status != 200:  # noqa: PLR2004 - the answer that means recorded
        raise BenchmarkError(f"event {number} was answered {receipt.status}")
    while (begun_at := database.value(_BEGUN.format(receipt.results[0].event_id))) is None:
        if time.monotonic() > ends_at:
            raise BenchmarkError(f"event {number} was not picked up within {PICK_UP_SECONDS_MAX:g} s")
        time.sleep(0.02)
    return max(0.0, (float(begun_at) - answered_at) * 1e3)


SUITE = Suite(
    name="idle",
    about="a worker with nothing to do, in percent of one core, and how soon it picks up an event",
    subjects=tuple(
        Subject(
            name=each.name,
            group="ours",
            title=each.title,
            setting="webhook-inbox worker with its defaults: poll_seconds 1",
            measure=partial(measure, each),
            headline="cpu_percent",
        )
        for each in WAYS
    ),
    reference="one",
    seconds=60.0,
)
