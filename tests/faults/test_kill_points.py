"""
Kill the receiver at every fault point, and find every effect once.

The points are enumerated, not chosen: each way through the receiver is walked once and its passings are recorded
(``test_fault_points`` shows that no step of a plan is missing among them). Then the receiver is killed by SIGKILL at
each passing at least once and at each point at least WEBHOOK_INBOX_TEST_KILLS times (5), while a sender that behaves
like Stripe delivers until it hears 2xx. A death counts only with its witness: the signal that the parent saw, and what
the dying process wrote about where it died.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count

import pytest

from tests.faults.app import KINDS
from tests.faults.bench import Bench
from tests.faults.conftest import KILLS
from tests.faults.paths import CASE_IDS, CASES, PATHS, Expected, Path, Story, applied, stripe_letter
from tests.faults.rivals import rival_of
from tests.faults.sender import Letter
from tests.faults.server import Server
from webhook_inbox.testing.points import Passing

LANES = 2
#: Senders that are under way at once when the receiver dies.
SENDERS = 8
KILLS_UNDER_LOAD = 4 * KILLS


@dataclass
class Walk:
    """
    Walk one path through one server, again and again, under names that no other walk uses.

    Attributes:
        warm: Whether the server has looked at the schema, which is a way of its own ("first after a start").
        expected: What must be true in the end of everything that was delivered.
    """

    path: Path
    kind: str
    bench: Bench
    server: Server
    names: Iterator[int]
    warm: bool = False
    expected: list[Expected] = field(default_factory=list)

    def story(self) -> Story:
        """The next story, up to where its letter is sent."""
        story = self.path.make(self.kind, str(next(self.names)))
        self.expected += story.expected
        for letter in story.before:
            self.deliver(letter)
        if self.path.fresh:
            self.server.kill()
            self.server.start()
        elif not self.warm:
            letter = stripe_letter(f"evt_warm_{next(self.names)}", "test.paid", self.kind)
            self.expected.append(applied(letter))
            self.deliver(letter)
        return story

    def deliver(self, letter: Letter) -> None:
        """Deliver *letter* in peace."""
        answer = self.bench.sender(self.server).deliver(letter)
        self.warm = self.warm or answer.heard

    def passings(self) -> tuple[Passing, ...]:
        """Walk in peace, and give what was passed."""
        story = self.story()
        self.server.points()
        with rival_of(self.bench.dsn, story, self.server.witness):
            answer = self.bench.sender(self.server).attempt(story.letter, **story.first)
        assert answer.status == self.path.first_status, answer
        passed = self.server.points()
        self.deliver(story.letter)
        return passed

    def die_at(self, passing: Passing) -> None:
        """Walk, die, come back, and deliver what was not acknowledged."""
        story = self.story()
        with rival_of(self.bench.dsn, story, self.server.witness):
            answer = self.bench.sender(self.server).attempt(
                story.letter, **story.first, x_fault_point=str(passing)
            )
            death = self.server.death()
        assert self.server.witnessed(death, passing), f"no witness of a death at {passing}: {death}, {answer}"
        self.server.start()
        self.warm = False
        if not (answer.status and story.letter.answered(answer.status)):
            self.deliver(story.letter)


def deaths_at(passings: tuple[Passing, ...]) -> list[Passing]:
    """Say where to die: at each passing, and at each point at least KILLS times, the passings of it in turn."""
    of_point: dict[str, list[Passing]] = {}
    for passing in passings:
        of_point.setdefault(passing.point, []).append(passing)
    return [of[number % len(of)] for of in of_point.values() for number in range(max(KILLS, len(of)))]


@pytest.mark.parametrize(("path", "kind"), CASES, ids=CASE_IDS)
@pytest.mark.timeout(60 + 30 * KILLS)
def test_killed_at_every_point_each_event_takes_effect_once(
    path: Path, kind: str, bench: Bench, tally: Counter[str]
) -> None:
    """Wherever the receiver dies a resend settles it, nothing lost or doubled (P-ACK, P-ONCE, P-DUP, P-STATE)."""
    names = count(1)
    with bench.servers(record=True) as (server,):
        walks = [Walk(path, kind, bench, server, names)]
        passings = walks[0].passings()
    assert {"answer.before#1", "answer.after#1"} <= set(map(str, passings))
    deaths = deaths_at(passings)
    todo, taking = iter(deaths), threading.Lock()

    def kill_until_done(server: Server) -> int:
        walk = Walk(path, kind, bench, server, names)
        walks.append(walk)
        killed = 0
        while True:
            with taking:
                passing = next(todo, None)
            if passing is None:
                return killed
            walk.die_at(passing)
            killed += 1

    with bench.servers(LANES) as servers, ThreadPoolExecutor(LANES) as lanes:
        killed = sum(lanes.map(kill_until_done, servers))
    assert killed == len(deaths) >= KILLS * len({passing.point for passing in passings})
    expected = [event for walk in walks for event in walk.expected]
    bench.check(expected, refused=frozenset({path.first_status} & {400}))
    tally["kills"] += killed
    tally["passings of fault points killed at"] += len(passings)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(60 + 10 * KILLS)
def test_killed_amid_many_deliveries_each_event_takes_effect_once(
    kind: str, bench: Bench, chance: random.Random, tally: Counter[str]
) -> None:
    """Die where chance says while many deliveries are under way: those are settled by their resends too (P-ONCE)."""
    names, stop = count(1), threading.Event()
    processed = next(path for path in PATHS if path.name == "processed")
    with bench.servers(record=True) as (server,):
        walk = Walk(processed, kind, bench, server, names)
        passings = walk.passings()

    def deliver_until_done(_: int) -> None:
        while not stop.is_set():
            letter = stripe_letter(f"evt_load_{next(names)}", "test.paid", kind)
            walk.expected.append(applied(letter))
            bench.sender(server).deliver(letter)

    def kill(number: int) -> None:
        passing = Passing(chance.choice(passings).point, chance.randint(1, 3 * SENDERS))
        last = stripe_letter(f"evt_last_{number}", "test.paid", kind)
        walk.expected.append(applied(last))
        answer = bench.sender(server).attempt(last, x_fault_point=str(passing))
        assert server.witnessed(server.death(), passing)
        server.start()
        if not answer.heard:
            bench.sender(server).deliver(last)

    with bench.servers() as (server,), ThreadPoolExecutor(SENDERS) as senders:
        under_way = [senders.submit(deliver_until_done, number) for number in range(SENDERS)]
        try:
            for number in range(KILLS_UNDER_LOAD):
                kill(number)
        finally:
            stop.set()
        for sender in under_way:
            sender.result()
    bench.check(walk.expected)
    tally["kills amid many deliveries"] += KILLS_UNDER_LOAD
