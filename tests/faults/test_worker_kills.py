"""
Kill the worker at every fault point, and find every effect once.

The points are enumerated, not chosen: each way of a claimed event is walked once and its passings are recorded. Then a
worker is killed by SIGKILL on each way at each passing at least once, and at each point at least
WEBHOOK_INBOX_TEST_KILLS times (5), on the ways that pass it together. A death counts only with its witness. What a dead
worker held stays held until its lease ends by the server's clock; then one worker settles everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import psycopg
import pytest

from tests.faults.conftest import KILLS
from tests.faults.server import Nursery
from tests.faults.worker_app import WORKER_TABLES
from tests.faults.worker_bench import WorkerBench
from tests.fixtures.postgres import PostgresServer
from webhook_inbox.testing.points import Passing

#: Their second passing depends on who is faster, the run or the next look for work.
SHARED = ("register.", "reap.", "claim.", "next_due.")
_LEASE_TO_THE_DEAD = """
WITH dead AS (
    INSERT INTO webhooks.workers (name, lease_ends_at)
    VALUES ('dead', clock_timestamp() - interval '1 second') RETURNING id
)
UPDATE webhooks.inbox SET state = 'leased', claims = claims + 1, attempts = attempts + 1, crashes = %s,
    worker_id = dead.id
FROM dead WHERE event_id = %s
"""


@dataclass(frozen=True, slots=True)
class Way:
    """
    Name one way of claimed events through a worker.

    Attributes:
        shape: Of the endpoint.
        kinds: Of handlers.
        types: Of the events, in their order.
        states: In which they end, in that order.
        expected: Fault points that must be among those passed, so that the way is what it says.
        crashes: Deaths that the events have behind them, a worker's lease on them ended; None: they are new.
        drain: Whether the worker ends when nothing is due; else the event ends it.
        grace_seconds: What a run that is under way at the end is given.
    """

    name: str
    shape: str
    kinds: tuple[str, ...]
    types: tuple[str, ...]
    states: tuple[str, ...]
    expected: tuple[str, ...]
    crashes: int | None = None
    drain: bool = True
    grace_seconds: float = 25.0

    @property
    def settings(self) -> dict[str, Any]:
        """Those of its workers; only what is meant to share a transaction does."""
        more = {} if self.shape in FALLS_APART else {"batch_events_max": 1}
        return {
            "poll_seconds": 0.05,
            "backoff_seconds_max": 1e-6,
            "stop_seconds_max": self.grace_seconds,
            **more,
        }


FALLS_APART = ("batch", "set")
BOTH = ("sync", "async")
PAID, PROCESSED = "test.paid", "processed"
WAYS = (
    Way("processed", "one", BOTH, (PAID,), (PROCESSED,), ("process.settle_claimed", "process.commit")),
    Way("failing", "one", BOTH, ("test.fail_once",), (PROCESSED,), ("fail.fail_claimed", "fail.commit")),
    Way("not yet", "one", ("sync",), ("test.not_yet_once",), (PROCESSED,), ("fail.fail_claimed",)),
    Way("give-up", "one", ("async",), ("test.give_up",), ("dead",), ("process.rollback",)),
    Way("ignored", "one", ("sync",), ("test.ignore",), ("ignored",), ("process.rollback",)),
    Way("prepared", "prepared", ("async",), (PAID,), (PROCESSED,), ("process.commit",)),
    Way(
        "given up early",
        "prepared",
        ("sync",),
        ("test.give_up_early",),
        ("dead",),
        ("settle_steered.commit",),
    ),
    Way(
        "batch",
        "batch",
        BOTH,
        (PAID, "test.fail_once", "test.give_up"),
        (PROCESSED, PROCESSED, "dead"),
        ("process_batch.savepoint", "process_batch.release", "process_batch.rollback_to", "process.run"),
    ),
    Way("set", "set", BOTH, (PAID,) * 3, (PROCESSED,) * 3, ("process_set.run", "process_set.commit")),
    Way(
        "set that falls apart",
        "set",
        ("async",),
        (PAID, "test.fail_once"),
        (PROCESSED, PROCESSED),
        ("process_set.run", "process.run"),
    ),
    Way("ordered", "ordered", ("async",), (PAID,) * 3, (PROCESSED,) * 3, ("process.lock_order_key",)),
    Way("taken back", "one", ("sync",), (PAID,), (PROCESSED,), ("reap.return_expired",), crashes=0),
    Way("dead by deaths", "one", ("sync",), (PAID,), ("dead",), ("reap.return_expired",), crashes=2),
    Way(
        "given back at the end",
        "one",
        ("async",),
        ("test.stop_then_hang",),
        (PROCESSED,),
        ("give_back.give_back_claimed", "give_back.commit"),
        drain=False,
        grace_seconds=0.5,
    ),
    Way(
        "given back after a loss",
        "one",
        BOTH,
        ("test.lose_then_stop",),
        (PROCESSED,),
        ("give_back.give_back_claimed", "give_back.commit", "process.commit"),
        drain=False,
    ),
)
WALKS = [(way, kind) for way in WAYS for kind in way.kinds]
CASES = [pytest.param(way, kind, id=f"{way.name}-{kind}") for way, kind in WALKS]


@dataclass
class Walk:
    """Walk one way, again and again, under names that no other walk uses."""

    way: Way
    bench: WorkerBench
    names: Iterator[int]

    @property
    def endpoint(self) -> str:
        """The only endpoint of the bench."""
        return self.bench.endpoints[0]

    def deliver(self) -> None:
        """Record the events of the next walk."""
        name = f"evt_{next(self.names)}"
        for number, (event_type, state) in enumerate(zip(self.way.types, self.way.states, strict=True)):
            letter = self.bench.letter(self.endpoint, f"{name}_{number}", event_type, key=name)
            self.bench.receive(letter)
            self.bench.expect(letter, state)
            if self.way.crashes is not None:
                self.bench.connection.execute(_LEASE_TO_THE_DEAD, (self.way.crashes, letter.event))

    def passings(self) -> tuple[Passing, ...]:
        """Walk in peace, and give what was passed."""
        self.deliver()
        told = self.bench.drained(record=True, drain=self.way.drain)
        self.bench.park()
        return tuple(Passing.parse(text) for text in told["points"])

    def die_at(self, passing: Passing) -> None:
        """Walk and die; what is left waits for the end of all walks."""
        self.deliver()
        server, death = self.bench.worker(die_at=str(passing), drain=self.way.drain)
        said = self.bench.log_of(death.pid)
        assert server.witnessed(death, passing), f"no witness of a death at {passing}: {death}\n{said}"
        self.bench.park()


Map: TypeAlias = dict[tuple[str, str], tuple[Passing, ...]]


@pytest.fixture(scope="session")
def passings_of(
    postgres: PostgresServer,
    _template: str,
    worker_nursery: Nursery,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Map]:
    """What is passed on each way where nobody dies, whoever is faster."""
    name = postgres.create(template=_template)
    with psycopg.connect(postgres.dsn_of(name)) as connection:
        connection.execute(WORKER_TABLES)
    found: Map = {}
    for way, kind in WALKS:
        room = tmp_path_factory.mktemp("way")
        bench = WorkerBench(worker_nursery, postgres.dsn_of(name), room).on(
            f"{way.shape}-{kind}", **way.settings
        )
        try:
            walk = Walk(way, bench, count(1 + 1000 * len(found)))
            first, second = walk.passings(), walk.passings()
            found[way.name, kind] = tuple(passing for passing in first if passing in second)
        finally:
            bench.close()
    yield found
    postgres.drop(name)


def deaths_on(way: Way, kind: str, of_all: Map) -> list[Passing]:
    """Say where to die: at each passing that is sure to come, and at each point this way's share of KILLS."""
    ways_of_point = Counter(point for passed in of_all.values() for point in {each.point for each in passed})
    of_point: dict[str, list[Passing]] = {}
    for passing in of_all[way.name, kind]:
        if passing.nth == 1 or not passing.point.startswith(SHARED):
            of_point.setdefault(passing.point, []).append(passing)
    return [
        of[number % len(of)]
        for point, of in of_point.items()
        for number in range(max(-(-KILLS // ways_of_point[point]), len(of)))
    ]


def test_each_way_passes_what_it_is_named_for(passings_of: Map) -> None:
    """No way is another one in disguise, and each point before a step has its twin after it."""
    for way, kind in WALKS:
        passed = {passing.point for passing in passings_of[way.name, kind]}
        assert {f"{point}.{side}" for point in way.expected for side in ("before", "after")} <= passed, way


@pytest.mark.parametrize(("way", "kind"), CASES)
@pytest.mark.timeout(60 + 40 * KILLS)
def test_a_worker_killed_at_every_point_leaves_each_effect_once(
    way: Way, kind: str, workers: WorkerBench, passings_of: Map, tally: Counter[str]
) -> None:
    """The next worker settles what it left: nothing lost, doubled or miscounted (P-ONCE, P-COUNT, P-FENCE)."""
    bench = workers.on(f"{way.shape}-{kind}", **way.settings)
    walk = Walk(way, bench, count(1))
    deaths = deaths_on(way, kind, passings_of)
    for passing in deaths:
        walk.die_at(passing)
    bench.work_off()
    bench.check(again_in_one_claim=way.shape in FALLS_APART)
    tally["kills of workers"] += len(deaths)
