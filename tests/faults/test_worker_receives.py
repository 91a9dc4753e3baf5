"""
Kill the receiver of queued and hybrid endpoints at every fault point; a resend and a worker settle every event once.

What the receiver of inline endpoints passes is in ``test_kill_points``; here it is what only these modes pass: the
group commit, the lease of a hybrid process, and the run that goes on under it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from itertools import count

import pytest

from tests.faults.conftest import KILLS
from tests.faults.invariants import until
from tests.faults.ledger import Ledger
from tests.faults.sender import Letter, Sender
from tests.faults.server import Server
from tests.faults.worker_app import KINDS, WORKER_PLANS, make_worker_inbox
from tests.faults.worker_bench import WorkerBench
from tests.faults.yields import Place, YieldWatch
from webhook_inbox.testing.points import Passing, PointRecorder


@dataclass(frozen=True, slots=True)
class Way:
    """
    Name one way of a delivery.

    Attributes:
        event_type: Of the event.
        state: In which it ends.
        before: Whether a first copy was delivered in peace.
        dead: Whether that copy has died since, where it waits for a worker.
        only: The beginning of the points to die at; none: all but those of the notifier, which come in their own time.
        expected: A step that must be passed.
    """

    name: str
    shape: str
    event_type: str
    expected: str
    state: str = "processed"
    before: bool = False
    dead: bool = False
    only: str = ""


_DIE = "UPDATE webhooks.inbox SET state = 'dead' WHERE event_id = %s AND state = 'waiting'"
NOTIFIER = "notify."
WAYS = (
    Way("queued", "one", "test.paid", "enqueue.commit"),
    Way("queued duplicate", "one", "test.paid", "enqueue.find_event", before=True),
    Way("queued with a key", "ordered", "test.paid", "enqueue.record_events"),
    Way("hybrid", "hybrid", "test.paid", "record_leased.record_leased"),
    Way("hybrid failing", "hybrid", "test.fail_once", "fail.fail_claimed"),
    Way("hybrid giving up", "hybrid", "test.give_up", "process.rollback", state="dead"),
    Way("hybrid duplicate", "hybrid", "test.paid", "record_leased.find_event", before=True),
    Way("queued revived", "revive", "test.paid", "enqueue.revive_dead", before=True, dead=True),
    Way("hybrid revived", "hybrid_revive", "test.give_up_once", "record_leased.revive_dead", before=True),
    Way("queued, notifying", "one", "test.paid", "notify.commit", only=NOTIFIER),
    Way("inline after a prepare stage", "inline_prepared", "test.paid", "is_known.find_event"),
)
#: A queued delivery runs no handler.
CASES = [
    pytest.param(way, kind, id=f"{way.name}-{kind}")
    for way in WAYS
    for kind in (("async",) if way.shape in {"one", "ordered", "revive"} else KINDS)
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
    bench.check(
        again_in_one_claim=way.shape == "inline_prepared"
    )  # a redelivery runs it under no claim at all
    tally["kills of receivers of workers"] += len(deaths)


def _story(way: Way, bench: WorkerBench, sender: Sender, names: count[int]) -> Letter:
    """The next letter to be delivered under fire."""
    number = next(names)
    letter = bench.letter(bench.endpoints[0], f"evt_{number}", way.event_type, key="a")
    bench.expect(letter, way.state)
    if way.before:
        sender.deliver(letter)
    if way.dead:
        bench.connection.execute(_DIE, (letter.event,))
    return letter


def _passed(
    way: Way, bench: WorkerBench, server: Server, sender: Sender, names: count[int]
) -> tuple[Passing, ...]:
    """What one delivery passes: the first one after the start, unless a first copy was before it."""
    letter = _story(way, bench, sender, names)
    server.points()
    assert sender.attempt(letter).heard
    passed = list(server.points())

    def notified() -> bool:
        passed.extend(server.points())
        return any(passing.point == f"{NOTIFIER}commit.after" for passing in passed)

    if way.only == NOTIFIER:
        until(notified, "the worker is notified")
    of_the_notifier = [passing for passing in passed if passing.point.startswith(NOTIFIER)]
    return tuple(of_the_notifier if way.only else [each for each in passed if each not in of_the_notifier])


def _first_of_each(passings: tuple[Passing, ...]) -> list[Passing]:
    return [passing for passing in passings if passing.nth == 1]


def walked_by_receivers(bench: WorkerBench) -> set[Place]:
    """Walk each way in this process; give the places of the workers' plans that were passed."""
    watch = YieldWatch(*WORKER_PLANS)
    with watch.watching():
        for number, way in enumerate(WAYS):
            asyncio.run(_in_process(way, bench, f"evt_in_process_{number}"))
    return watch.places


async def _in_process(way: Way, bench: WorkerBench, event_id: str) -> None:
    recorder = PointRecorder()
    inbox = make_worker_inbox(bench.setup(endpoints=(f"{way.shape}-async",)), recorder)
    letter = bench.letter(f"{way.shape}-async", event_id, way.event_type, key="a")
    headers = tuple(letter.sign(letter.body).items())
    async with inbox.running():
        for _ in range(1 + way.before):
            receipt = await inbox.receive(f"{way.shape}-async", headers=headers, body=letter.body)
            assert receipt.status == 200
            if way.dead:
                bench.connection.execute(_DIE, (event_id,))
        await asyncio.to_thread(_await_point, recorder, f"{way.expected}.after")


def _await_point(recorder: PointRecorder, point: str) -> None:
    until(lambda: any(passing.point == point for passing in recorder.passings), f"{point} is passed")


def _ways_of(passing: Passing) -> int:
    """On how many cases a point is passed at least; those of a run get their own kills in ``test_worker_kills``."""
    return 2 if passing.point.startswith(("enqueue.", "record_leased.find_event.")) else 6
