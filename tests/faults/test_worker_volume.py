"""
Queue many real events over HTTP and drain them by one, two and four workers: each effect once.

In CI it is a thousand or so. ``WEBHOOK_INBOX_TEST_VOLUME=20000`` makes it more; the figures are printed.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from typing import Any

import pytest

from tests.deliveries import payload_files
from tests.faults.invariants import one_row, until
from tests.faults.ledger import Ledger
from tests.faults.sender import Letter, Sender
from tests.faults.worker_bench import WorkerBench

VOLUME = int(os.environ.get("WEBHOOK_INBOX_TEST_VOLUME", "1000"))
SENDERS = 16


def real_events() -> list[dict[str, Any]]:
    """Every event among the shared payloads of Stripe's."""
    found = []
    for path in payload_files("stripe/events", "stripe/events-connect"):
        event = json.loads(path.read_bytes())
        if isinstance(event, dict) and event.get("object") == "event":
            found.append(event)
    assert len(found) > 10
    return found


def real_letters(bench: WorkerBench, count: int) -> list[Letter]:
    """Make *count* deliveries of real events, each under an id of its own and of a type that the handlers know."""
    letters = []
    for number, event in enumerate(islice(cycle(real_events()), count)):
        body = json.dumps({**event, "id": f"evt_real_{number}", "type": f"test.{event['type']}"}).encode()
        letters.append(Letter(f"evt_real_{number}", f"/{bench.endpoints[0]}", body))
    return letters


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.timeout(180 + VOLUME // 10)
def test_many_real_events_are_drained_by_any_number_of_workers_once_each(
    count: int, workers: WorkerBench, tally: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Queued over HTTP while nobody works, then drained: one effect each, whoever runs it (P-ACK, P-ONCE)."""
    bench = workers.on("one-async", poll_seconds=0.2)
    receiver, *draining = bench.nursery.servers[: 1 + count]
    letters = real_letters(bench, VOLUME // (1 if VOLUME > 1000 else 2))
    try:
        receiver.start(bench.setup(0, role="receiver"))
        sender = Sender(receiver.address, Ledger(bench.room / "ledger"))
        began = time.monotonic()
        with ThreadPoolExecutor(SENDERS) as senders:
            answers = Counter(answer.outcome for answer in senders.map(sender.deliver, letters))
        accepted = time.monotonic() - began
        assert answers == {"queued": len(letters)}
        began = time.monotonic()
        for number, server in enumerate(draining, start=1):
            server.start(bench.setup(number))
        until(lambda: bench.unsettled() == 0, "everything is drained", 60 + VOLUME / 40)
        drained = time.monotonic() - began
        deaths = [server.death() for server in draining]
    finally:
        for server in (receiver, *draining):
            server.close()
    assert {(death.signal, death.status) for death in deaths} == {(0, 0)}
    for letter in letters:
        bench.expect(letter)
    bench.check()
    assert min(2, count) <= len({run["pid"] for run in bench.journal()}) <= count
    assert one_row(bench.connection, "SELECT min(attempts), max(claims) FROM webhooks.inbox") == (1, 1)
    tally["real events queued over HTTP and drained"] += len(letters)
    with capsys.disabled():
        print(  # noqa: T201 - the figures are the report
            f"\n{len(letters)} events: accepted {len(letters) / accepted:.0f}/s by {SENDERS} senders, "
            f"drained {len(letters) / drained:.0f}/s by {count} workers, their start included"
        )
