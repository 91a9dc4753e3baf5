"""
List the ways of claimed events through a worker, each with the state in which its events must end, whoever dies.

``Walk`` walks one of them, in peace or to a death; what is left over waits for the end of all walks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from tests.faults.conftest import KILLS
from tests.faults.meanwhile import CUT, LET_GO, LIMIT, LOCK, ROB
from tests.faults.worker_bench import WorkerBench
from tests.faults.yields import Place
from webhook_inbox.testing.points import Passing

#: Their second passing depends on who is faster, the run or the next look for work.
SHARED = ("register.", "reap.", "claim.", "next_due.", "renew.")
_LEASE_TO_THE_DEAD = """
WITH dead AS (
    INSERT INTO webhooks.workers (name, lease_ends_at)
    VALUES ('dead', clock_timestamp() - interval '1 second') RETURNING id
)
UPDATE webhooks.inbox SET state = 'leased', claims = claims + 1, attempts = attempts + 1, crashes = %s,
    worker_id = dead.id
FROM dead WHERE event_id = %s
"""


FALLS_APART = ("batch", "set", "set_ordered")
BOTH = ("sync", "async")


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
        reviews: That each event leaves behind.
        role: Who walks; see ``WorkerSetup``.
        meanwhile: What others do to the first event, by the worker's passing; see ``meanwhile.py``.
        lease_seconds: How long a lease lasts; None: far longer than the test.
        only: How the points to die at here begin, where other ways have the rest.
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
    reviews: int = 0
    role: str = "worker"
    meanwhile: Mapping[str, str] = field(default_factory=dict)
    lease_seconds: float | None = None
    only: tuple[str, ...] = ("",)

    @property
    def settings(self) -> dict[str, Any]:
        """Those of its workers; only what is meant to share a transaction does."""
        more: dict[str, Any] = {} if self.shape in FALLS_APART else {"batch_events_max": 1}
        if self.lease_seconds is not None:
            more["lease_seconds"] = self.lease_seconds
        return {
            "poll_seconds": 0.05,
            "backoff_seconds_max": 1e-6,
            "stop_seconds_max": self.grace_seconds,
            **more,
        }


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
    Way(
        "set of several keys",
        "set_ordered",
        ("sync",),
        (PAID,) * 3,
        (PROCESSED,) * 3,
        ("process_set.lock_order_key", "process_set.commit"),
        only=("process_set.",),
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
    Way("digest", "digest", BOTH, (PAID,), (PROCESSED,), ("process.drop_body",), only=("process.",)),
    Way(
        "give-up with a review",
        "one",
        ("sync",),
        ("test.give_up_reviewed",),
        ("dead",),
        ("process.insert_review",),
        reviews=1,
        only=("process.",),
    ),
    Way(
        "robbed before the run",
        "one",
        BOTH,
        (PAID,),
        (PROCESSED,),
        ("process.rollback",),
        meanwhile={"process.begin.before#1": ROB},
        only=("process.",),
    ),
    Way(
        "robbed before the verdict",
        "one",
        ("async",),
        ("test.give_up",),
        ("dead",),
        ("process.rollback",),
        meanwhile={"process.begin.before#2": ROB},
        only=("process.",),
    ),
    Way(
        "robbed after a failure",
        "one",
        ("async",),
        ("test.fail_once",),
        (PROCESSED,),
        ("fail.rollback",),
        meanwhile={"fail.begin.before#1": ROB},
        only=("fail.",),
    ),
    Way(
        "batch of which one is robbed",
        "batch",
        ("async",),
        (PAID,) * 3,
        (PROCESSED,) * 3,
        ("process_batch.commit",),
        meanwhile={"process_batch.begin.before#1": ROB},
        only=("process_batch.",),
    ),
    Way(
        "batch of which one is locked",
        "batch",
        ("sync",),
        (PAID,) * 3,
        (PROCESSED,) * 3,
        ("process_batch.commit", "process.run"),
        meanwhile={"process_batch.begin.before#1": LOCK, "process_batch.commit.after#1": LET_GO},
        only=("process_batch.", "process."),
    ),
    Way(
        "set of which one is robbed",
        "set",
        ("sync",),
        (PAID,) * 3,
        (PROCESSED,) * 3,
        ("process_set.run", "process_set.commit"),
        meanwhile={"process_set.begin.before#1": ROB},
        only=("process_set.",),
    ),
    Way(
        "claim of unknown fate",
        "one",
        ("async",),
        (PAID,),
        (PROCESSED,),
        ("register.end_worker", "process.commit"),
        meanwhile={"claim.commit.before#1": CUT},
        only=("claim.", "register."),
    ),
    Way(
        "claimed within a limit",
        "limited",
        ("async",),
        (PAID,),
        (PROCESSED,),
        ("claim.measure_limits", "claim.lock_limit", "claim.spend_rate", "claim.commit"),
        meanwhile={"register.commit.after#1": LIMIT},
        only=("claim.",),
    ),
    Way(
        "lease renewed",
        "one",
        ("async",),
        ("test.pause_once",),
        (PROCESSED,),
        ("renew.renew_lease", "renew.commit", "end.end_worker"),
        lease_seconds=2.0,
        only=("renew.",),
    ),
    Way(
        "paused and resumed",
        "one",
        ("async",),
        (PAID,),
        (PROCESSED,),
        ("pause.pause_endpoint", "pause.commit", "resume.resume_endpoint", "resume.commit"),
        role="operator",
    ),
)
WALKS = [(way, kind) for way in WAYS for kind in way.kinds]
CASES = [pytest.param(way, kind, id=f"{way.name}-{kind}") for way, kind in WALKS]


@dataclass(frozen=True, slots=True)
class Passed:
    """Hold what one walk passed: fault points in order, and the places from which steps were asked for."""

    passings: tuple[Passing, ...]
    places: frozenset[Place]


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

    def deliver(self) -> dict[str, Any]:
        """Record the events of the next walk; say how its worker is set up."""
        name = f"evt_{next(self.names)}"
        for number, (event_type, state) in enumerate(zip(self.way.types, self.way.states, strict=True)):
            event = f"{name}_{number}"
            letter = self.bench.letter(self.endpoint, event, event_type, key=name, seconds=2.0)
            self.bench.receive(letter)
            self.bench.expect(letter, state, reviews=self.way.reviews)
            if self.way.crashes is not None:
                self.bench.connection.execute(_LEASE_TO_THE_DEAD, (self.way.crashes, letter.event))
        deeds = {passing: deed.format(event=f"{name}_0") for passing, deed in self.way.meanwhile.items()}
        return {"role": self.way.role, "drain": self.way.drain, "meanwhile": deeds}

    def in_peace(self) -> Passed:
        """Walk to the end, and give what was passed."""
        told = self.bench.drained(record=True, **self.deliver())
        self.bench.park()
        return Passed(
            tuple(Passing.parse(text) for text in told["points"]),
            frozenset((module, function, line) for module, function, line in told["yields"]),
        )

    def die_at(self, passing: Passing) -> None:
        """Walk and die; what is left waits for the end of all walks."""
        server, death = self.bench.worker(die_at=str(passing), **self.deliver())
        said = self.bench.log_of(death.pid)
        assert server.witnessed(death, passing), f"no witness of a death at {passing}: {death}\n{said}"
        self.bench.park()


Map: TypeAlias = dict[tuple[str, str], Passed]


def deaths_on(way: Way, kind: str, of_all: Map) -> list[Passing]:
    """Say where to die: at each passing that is sure to come, and at each point this way's share of KILLS."""
    ways_of_point = Counter(
        point for each, its_kind in WALKS for point in {each.point for each in _own(each, its_kind, of_all)}
    )
    of_point: dict[str, list[Passing]] = {}
    for passing in _own(way, kind, of_all):
        of_point.setdefault(passing.point, []).append(passing)
    return [
        of[number % len(of)]
        for point, of in of_point.items()
        for number in range(max(-(-KILLS // ways_of_point[point]), len(of)))
    ]


def _own(way: Way, kind: str, of_all: Map) -> list[Passing]:
    """The passings that are sure to come on a way, and are not left to others."""
    return [
        passing
        for passing in of_all[way.name, kind].passings
        if passing.point.startswith(way.only) and (passing.nth == 1 or not passing.point.startswith(SHARED))
    ]
