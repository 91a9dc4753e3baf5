"""
Kill any of two receivers, three workers and a relay, at random and without a pause, while events come in.

Seconds of it in every run; WEBHOOK_INBOX_TEST_CHAOS_SECONDS says how long, WEBHOOK_INBOX_TEST_CHAOS_RATE how many
events a second (`make faults`). Whatever dies is started again at once, as a supervisor does; what it held comes back
when its lease ends. In the end nothing acknowledged is lost, nothing is applied twice, and every committed message has
arrived under its own id.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count, takewhile
from pathlib import Path
from typing import Self

import psycopg
import pytest

from tests.faults.invariants import check_ledger, one_row, until
from tests.faults.ledger import Ledger
from tests.faults.load import Load
from tests.faults.relay_app import RelaySetup
from tests.faults.sender import Letter
from tests.faults.server import Nursery, Server
from tests.faults.worker_bench import WorkerBench

SECONDS = float(os.environ.get("WEBHOOK_INBOX_TEST_CHAOS_SECONDS", "8"))
EVENTS_PER_SECOND = float(os.environ.get("WEBHOOK_INBOX_TEST_CHAOS_RATE", "40"))
RECEIVERS, WORKERS = 2, 3
#: A death every so often, on average.
DEATH_SECONDS = 0.4
SETTLE_SECONDS_MAX = 60.0
ENDPOINTS = ("one-sync", "one-async", "batch-sync", "batch-async", "set-async", "inline-async", "hybrid-sync")
EVENT_TYPES = ("test.paid", "test.paid", "test.paid", "test.fail_once")
#: Leases end soon; and of a process that dies all the time, no event is held to be the cause.
SETTINGS = {"lease_seconds": 2.0, "poll_seconds": 0.1, "crashes_max": 10_000, "backoff_seconds_max": 0.5}
UNSENT = "SELECT count(*) FROM webhooks.outbox WHERE published_at IS NULL"


def letters(bench: WorkerBench, chance: random.Random) -> Iterator[Letter]:
    """Make events, as many a second as there shall be, or as fast as they are taken."""
    began = time.monotonic()
    for number in takewhile(lambda _: time.monotonic() < began + SECONDS, count()):
        time.sleep(max(0.0, began + number / EVENTS_PER_SECOND - time.monotonic()))
        letter = bench.letter(chance.choice(ENDPOINTS), f"evt_{number}", chance.choice(EVENT_TYPES))
        bench.expect(letter)
        yield letter


class Supervisor:
    """Start programs, kill one of them at random now and then, and start it again."""

    def __init__(self, chance: random.Random, tally: Counter[str]) -> None:
        self._chance = chance
        self._tally = tally
        self._programs: list[tuple[str, Server, Callable[[], None]]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._kill_some)

    def start(self, kind: str, server: Server, start: Callable[[], None]) -> None:
        """Start one, which is under supervision from now on."""
        start()
        self._programs.append((kind, server, start))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _kill_some(self) -> None:
        while not self._over.wait(self._chance.uniform(0, 2 * DEATH_SECONDS)):
            kind, server, start = self._chance.choice(self._programs)
            server.kill()
            self._tally[f"kills of a {kind} at random"] += 1
            start()


@pytest.mark.timeout(SECONDS + 2 * SETTLE_SECONDS_MAX + 60)
def test_whatever_is_killed_nothing_is_lost_and_nothing_is_done_twice(
    workers: WorkerBench,
    relay_nursery: Nursery,
    tmp_path: Path,
    chance: random.Random,
    tally: Counter[str],
) -> None:
    """SIGKILL at any moment, of anything: each event has one effect and one message that has arrived (all promises)."""
    bench = workers.on(*ENDPOINTS, **SETTINGS)
    lanes, relay = bench.nursery.servers[: RECEIVERS + WORKERS], relay_nursery.servers[0]
    relaying = RelaySetup(
        bench.dsn,
        str(tmp_path / "witness-relay"),
        settings={"lease_seconds": 2.0, "poll_seconds": 0.1},
        room=str(tmp_path),
        kinds=("call",),
        drain=False,
    )
    ledger, supervisor = Ledger(tmp_path / "ledger"), Supervisor(chance, tally)
    with ExitStack() as held:
        for number, server in enumerate(lanes):
            role = "receiver" if number < RECEIVERS else "worker"
            setup = bench.setup(number, role=role, drain=False)
            held.callback(server.close)
            supervisor.start(role, server, lambda server=server, setup=setup: server.start(setup))  # type: ignore[misc]
        held.callback(relay.close)
        supervisor.start("relay", relay, lambda: relay.start(relaying))
        with supervisor:
            addresses = [server.address for server in lanes[:RECEIVERS]]
            load = Load(addresses, letters(bench, chance), ledger, attempts_max=10_000)
            load.finish(SECONDS + SETTLE_SECONDS_MAX)
        ended = time.monotonic()
        until(lambda: bench.unsettled() == 0, "every event is settled", SETTLE_SECONDS_MAX)
        until(lambda: one_row(bench.connection, UNSENT) == (0,), "every message is sent", SETTLE_SECONDS_MAX)
        tally["tenths of a second from the last kill until all was settled"] += int(
            10 * (time.monotonic() - ended)
        )
    uncounted = {each.event for each in ledger.entries if each.path.startswith(("/inline-", "/set-"))}
    bench.check(again_in_one_claim=True, uncounted=uncounted)
    called = Counter((tmp_path / "called").read_text().split())
    with psycopg.connect(bench.dsn) as connection:
        assert not check_ledger(connection, ledger)
        committed = {str(row[0]) for row in connection.execute("SELECT id FROM webhooks.outbox")}
    assert called.keys() == committed
    assert len(committed) == len(bench.expected) == len(ledger.acknowledged)
    tally["events under random kills: deliveries tried"] += len(ledger.entries)
    tally["events under random kills: acknowledged, and in effect once"] += len(committed)
    tally["events under random kills: messages sent again, each under its id"] += called.total() - len(called)
