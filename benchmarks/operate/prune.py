"""
Deliver at a steady rate while nothing else happens, and while a million old events are forgotten with their payloads.

The payloads lie in no day's partition of their own, so that each is deleted by itself: dropping whole days is cheaper.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.harness.environments import project_python
from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.events import SECRET, event_body
from benchmarks.harness.figures import Figures
from benchmarks.harness.open_loop import send_at
from benchmarks.harness.ours import migrate
from benchmarks.harness.processes import Program, free_port, program, wait_until_it_answers
from benchmarks.harness.requests import write_requests
from benchmarks.harness.server import Database
from benchmarks.harness.suite import Bench
from benchmarks.receive.receivers import RECEIVERS

ROWS, QUICK_ROWS = 1_000_000, 5_000
PER_SECOND = 200
WARM_UP_SECONDS = 2.0
PRUNE_SECONDS_MAX = 900.0
_APP = "benchmarks.receive.apps.ours:inbox"
_QUEUED = next(each for each in RECEIVERS if each.name == "queued")
_FILL = """
    INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, received_at, available_at,
                                processed_at, attempts, claims, body_sha256, body_bytes)
    SELECT 'stripe', 'stripe', 'evt_old_' || lpad(n::text, 20, '0'), 'charge.succeeded', 'processed', at, at, at,
           1, 1, sha256(int8send(n)), 992
    FROM generate_series(1, %(rows)s) n, LATERAL (SELECT now() - interval '92 days' + n * interval '50 ms' AS at) moment
"""
_FILL_BODIES = """
    INSERT INTO webhooks.bodies (received_at, id, body, headers)
    SELECT received_at, id, decode(repeat(encode(body_sha256, 'hex'), 31), 'hex'), '[]' FROM webhooks.inbox
"""
_OLD = "SELECT count(*) FROM webhooks.inbox WHERE starts_with(event_id, 'evt_old_')"


def measure(bench: Bench, *, pruning: bool) -> Figures:
    """Make one run; forgetting goes on for as long as it is delivered, and leaves nothing that is old."""
    rows = QUICK_ROWS if bench.quick else ROWS
    template = bench.server.template(f"old_{rows}", partial(_fill, rows=rows))
    with bench.server.database(template) as database, ExitStack() as held:
        environment = {"DATABASE_URL": database.dsn, "STRIPE_WEBHOOK_SECRET": SECRET, **_QUEUED.environment}
        port = free_port()
        serving = held.enter_context(program(_QUEUED.command(port), environment=environment))
        wait_until_it_answers(serving, port)
        file = Path(held.enter_context(TemporaryDirectory(prefix="benchmarks-"))) / "requests"
        warm_up = int(WARM_UP_SECONDS * PER_SECOND)
        send_at(write_requests(file, event_body, first=0, count=warm_up), port, per_second=PER_SECOND)
        requests = write_requests(
            file, event_body, first=warm_up, count=max(2, int(bench.seconds * PER_SECOND))
        )
        began = time.monotonic()
        command = [str(project_python()), "-m", "webhook_inbox", "prune", _APP]
        pruner = held.enter_context(program(command, environment=environment)) if pruning else None
        paced = send_at(requests, port, per_second=PER_SECOND)
        if bad := paced.refused + paced.unanswered:
            raise InvariantError(f"{bad} of {requests.count} deliveries were refused or not answered")
        figures = {"p50_ms": paced.p50_ms, "p99_ms": paced.p99_ms, "max_ms": paced.max_ms}
        if pruner is not None:
            if not bench.quick:
                pruner.check()
            figures["pruned_per_second"] = rows / (_ended(pruner, database) - began)
        return figures


def _fill(database: Database, *, rows: int) -> None:
    migrate(database)
    database.execute(_FILL, {"rows": rows})
    database.execute(_FILL_BODIES)
    database.vacuum()


def _ended(pruner: Program, database: Database) -> float:
    """Wait until all is forgotten; give when."""
    if pruner.process.wait(PRUNE_SECONDS_MAX) != 0:
        raise BenchmarkError(f"pruning failed: {pruner.said()}")
    ended = time.monotonic()
    if left := database.value(_OLD):
        raise InvariantError(f"{left} events are old, and still there")
    return ended
