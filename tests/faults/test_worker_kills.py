"""
Kill the worker at every fault point, and find every effect once.

The points are enumerated, not chosen: each way of a claimed event is walked once and its passings are recorded. Then a
worker is killed by SIGKILL on each way at each passing that is the way's own at least once, and at each point at least
WEBHOOK_INBOX_TEST_KILLS times (5), on the ways that pass it together. A death counts only with its witness. What a dead
worker held stays held until its lease ends by the server's clock; then one worker settles everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from tests.faults.conftest import KILLS
from tests.faults.server import Nursery
from tests.faults.test_worker_receives import walked_by_receivers
from tests.faults.worker_app import WORKER_PLANS, WORKER_TABLES
from tests.faults.worker_bench import WorkerBench
from tests.faults.worker_ways import CASES, FALLS_APART, WALKS, Map, Passed, Walk, Way, deaths_on
from tests.faults.yields import yields_of
from tests.fixtures.postgres import PostgresServer


@pytest.fixture(scope="session")
def passed_on(
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
            first, second = walk.in_peace(), walk.in_peace()
            passings = tuple(passing for passing in first.passings if passing in second.passings)
            found[way.name, kind] = Passed(passings, first.places | second.places)
        finally:
            bench.close()
    yield found
    postgres.drop(name)


def test_each_way_passes_what_it_is_named_for(passed_on: Map) -> None:
    """No way is another one in disguise, and each point before a step has its twin after it."""
    for way, kind in WALKS:
        passed = {passing.point for passing in passed_on[way.name, kind].passings}
        assert {f"{point}.{side}" for point in way.expected for side in ("before", "after")} <= passed, way


@pytest.mark.parametrize(("way", "kind"), CASES)
@pytest.mark.timeout(60 + 40 * KILLS)
def test_a_worker_killed_at_every_point_leaves_each_effect_once(
    way: Way, kind: str, workers: WorkerBench, passed_on: Map, tally: Counter[str]
) -> None:
    """The next worker settles what it left: nothing lost, doubled or miscounted (P-ONCE, P-COUNT, P-FENCE)."""
    bench = workers.on(f"{way.shape}-{kind}", **way.settings)
    walk = Walk(way, bench, count(1))
    deaths = deaths_on(way, kind, passed_on)
    for passing in deaths:
        walk.die_at(passing)
    if way.role != "worker":
        bench.drained(role=way.role)
    bench.work_off()
    bench.check(again_in_one_claim=way.shape in FALLS_APART)
    tally["kills of workers"] += len(deaths)


#: These read, and roll back: before there is any lease, where the user gave an engine; and by a receiver, which asks
#: whether there is a worker at all (tests/integration/test_lookout.py). And what an operator alone does.
ELSEWHERE = {"which_database", "is_worked", "limit_endpoint"}


def test_no_step_of_a_worker_is_without_a_point(passed_on: Map, workers: WorkerBench) -> None:
    """The ways together ask for a step at every ``yield`` of the workers' plans: nothing is left out by choice."""
    walked = walked_by_receivers(workers).union(*(passed.places for passed in passed_on.values()))
    assert len(yields_of(*WORKER_PLANS)) > 60
    unwalked = {place for place in yields_of(*WORKER_PLANS) - walked if place[1] not in ELSEWHERE}
    assert unwalked == set()
