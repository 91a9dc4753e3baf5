"""
Kill the receiver of queued and hybrid endpoints at every fault point; a resend and a worker settle every event once.

What the receiver of inline endpoints passes is in ``test_kill_points``; here it is what only these modes pass: the
group commit, the lease of a hybrid process, and the run that goes on under it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import count

import pytest

from tests.faults.conftest import KILLS
from tests.faults.ledger import Ledger
from tests.faults.sender import Letter, Sender
from tests.faults.server import Server
from tests.faults.worker_app import KINDS
from tests.faults.worker_bench import WorkerBench
from webhook_inbox.testing.points import Passing


@dataclass(frozen=True, slots=True)
class Way:
    """
    Name one way of a delivery.

    Attributes:
        event_type: Of the event.
        state: In which it ends.
        before: Whether a first copy was delivered in peace.
        expected: A step that must be passed.
    """

    name: str
    shape: str
    event_type: str
    expected: str
    state: str = "processed"
    before: bool = False


WAYS = (
    Way("queued", "one", "test.paid", "enqueue.commit"),
    Way("queued duplicate", "one", "test.paid", "enqueue.find_event", before=True),
    Way("queued with a key", "ordered", "test.paid", "enqueue.record_events"),
    Way("hybrid", "hybrid", "test.paid", "record_leased.record_leased"),
    Way("hybrid failing", "hybrid", "test.fail_once", "fail.fail_claimed"),
    Way("hybrid giving up", "hybrid", "test.give_up", "process.rollback", state="dead"),
    Way("hybrid duplicate", "hybrid", "test.paid", "record_leased.find_event", before=True),
)
#: A queued delivery runs no handler.
CASES = [
    pytest.param(way, kind, id=f"{way.name}-{kind}")
    for way in WAYS
    for kind in (KINDS if way.shape == "hybrid" else ("async",))
]


@pytest.mark.parametrize(("way", "kind"), CASES)
@pytest.mark.timeout(60 + 30 * KILLS)
def test_a_receiver_killed_at_every_point_loses_and_doubles_nothing(
    way: Way, kind: str, workers: WorkerBench, tally: Counter[str]
) -> None:
    """What was answered 200 is there; what was not is sent again; one effect each (P-ACK, P-DUP, P-ONCE, P-COUNT)."""
    bench = workers.on(f"{way.shape}-{kind}", poll_seconds=0.05, backoff_seconds_max=1e-6, batch_events_max=1)
    server, names = bench.nursery.servers[0], count(1)
    sender = Sender(server.address, Ledger(bench.room / "ledger"))
    server.start(bench.setup(role="receiver", record=True))
    passings = tuple(dict.fromkeys(_first_of_each(_passed(way, bench, server, sender, names))))
    assert f"{way.expected}.after" in {passing.point for passing in passings}
    deaths = [passing for passing in passings for _ in range(-(-KILLS // _ways_of(passing)))]
    warm = True
    for passing in deaths:
        if warm and not way.before:  # it is to be the first delivery after a start
            server.kill()
            server.start()
        letter = _story(way, bench, sender, names)
        answer = sender.attempt(letter, x_fault_point=str(passing))
        death = server.death()
        assert server.witnessed(death, passing), f"no witness of a death at {passing}: {death}, {answer}"
        server.start()
        warm = not answer.heard
        if warm:
            sender.deliver(letter)
    server.close()
    bench.work_off()
    bench.check()
    tally["kills of receivers of workers"] += len(deaths)


def _story(way: Way, bench: WorkerBench, sender: Sender, names: count[int]) -> Letter:
    """The next letter to be delivered under fire."""
    number = next(names)
    letter = bench.letter(bench.endpoints[0], f"evt_{number}", way.event_type, key="a")
    bench.expect(letter, way.state)
    if way.before:
        sender.deliver(letter)
    return letter


def _passed(
    way: Way, bench: WorkerBench, server: Server, sender: Sender, names: count[int]
) -> tuple[Passing, ...]:
    """What one delivery passes: the first one after the start, unless a first copy was before it."""
    letter = _story(way, bench, sender, names)
    server.points()
    assert sender.attempt(letter).heard
    return server.points()


def _first_of_each(passings: tuple[Passing, ...]) -> list[Passing]:
    return [passing for passing in passings if passing.nth == 1]


def _ways_of(passing: Passing) -> int:
    """On how many cases a point is passed at least; those of a run get their own kills in ``test_worker_kills``."""
    return 2 if passing.point.startswith(("enqueue.", "record_leased.find_event.")) else 6
