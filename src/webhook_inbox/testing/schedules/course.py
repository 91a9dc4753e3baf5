"""
Take the course of one schedule, actor by actor, and note where it could have gone another way.

*Blocked steps.* A step that does not end is blocked where ``pg_blocking_pids`` names nobody but actors that stand
still, as PostgreSQL's own isolation tester does it; a schedule goes on with the others.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import psycopg

from webhook_inbox.testing.schedules.actor import Actor, Ending, Stop
from webhook_inbox.testing.schedules.schedule import Fault, Move, Schedule

_LOOK_SECONDS = 0.002
# Far beyond deadlock_timeout, after which the server ends a wait in a circle.
_STUCK_SECONDS = 30.0


class StuckError(Exception):
    """Say that a schedule did not come to its end: an actor waits for something that is no lock of another's."""


class DivergedError(ValueError):
    """Say that a schedule names an actor that cannot move then: it is of other plans, or their steps have changed."""


class Course:
    """
    Run one schedule, and note which other moves there would have been.

    Attributes:
        taken: The moves that were taken.
        others: Schedules that part from this one, each at a move beyond what was given.
        story: A line for each step.
        waits: How often an actor waited for another.
        cut_short: Why some others were not noted; empty where all were.
    """

    def __init__(
        self,
        monitor: psycopg.Connection[Any],
        actors: Sequence[Actor],
        schedule: Schedule,
        *,
        faults: frozenset[Fault] = frozenset(),
        steps_max: int,
    ) -> None:
        self._monitor = monitor
        self._actors = actors
        self._given = schedule
        self._faults = faults
        self._steps_max = steps_max
        self._blocked: set[Actor] = set()
        self._gone: set[Actor] = set()
        self._last = 0
        self.taken = Schedule()
        self.others: list[Schedule] = []
        self.story: list[str] = []
        self.waits = 0
        self.cut_short = ""

    def to_the_end(self) -> list[Ending]:
        """Run until every actor has ended."""
        try:
            for actor in self._actors:
                self._settle(actor)
            while self._unfinished():
                self._step()
        finally:
            for actor in self._unfinished():
                actor.abandon()
        return [actor.ending or Ending() for actor in self._actors]

    def _step(self) -> None:
        ready = [position for position, actor in enumerate(self._actors) if actor.stop is not None]
        if not ready:
            self._wait_for_the_server()
        elif local := [position for position in ready if self._stop(position).local]:
            self._move(Move(local[0]))
        else:
            move = self._chosen(ready)
            self.taken, self._last = self.taken.then(move), move.actor
            self._move(move)

    def _unfinished(self) -> list[Actor]:
        return [actor for actor in self._actors if actor.ending is None]

    def _stop(self, position: int) -> Stop:
        stop = self._actors[position].stop
        assert stop is not None  # noqa: S101 - it is ready
        return stop

    def _chosen(self, ready: Sequence[int]) -> Move:
        """Give the move to take now, and note the others."""
        taken = len(self.taken)
        if taken < len(self._given):
            move = self._given.moves[taken]
            if move.actor not in ready:
                raise DivergedError(
                    f"in schedule {self._given}, move {taken + 1} is of an actor that cannot move then"
                )
            return move
        move = Move(self._last if self._last in ready else ready[0])
        if taken >= self._steps_max:
            if len(ready) > 1:
                self.cut_short = f"a schedule has more than {self._steps_max} steps"
            return move
        others = [Move(position) for position in ready if position != move.actor]
        if not any(each.fault for each in self.taken):
            others += [Move(position, fault) for position in ready for fault in self._possible(position)]
        self.others += [self.taken.then(other) for other in others]
        return move

    def _possible(self, position: int) -> list[Fault]:
        """Give the faults that make a difference at the step: without a COMMIT, a lost reply comes to a later cut."""
        commits = self._stop(position).commits
        return [each for each in Fault if each in self._faults and (commits or each is not Fault.LOST_REPLY)]

    def _move(self, move: Move) -> None:
        actor = self._actors[move.actor]
        line = f"{move} {self._stop(move.actor).name}"
        actor.go(move.fault)
        self._settle(actor)
        self.story.append(f"{line} (waits)" if actor in self._blocked else line)
        self.waits += actor in self._blocked
        # Whoever was let go may let another go in turn.
        while freed := [other for other in self._blocked - {actor} if not self._waits(other)]:
            for other in freed:
                self._settle(other)

    def _settle(self, actor: Actor) -> None:
        """Wait until *actor* stands, has ended, or is seen to wait for another that stands."""
        ends_at = time.monotonic() + _STUCK_SECONDS
        while not actor.stands(_LOOK_SECONDS):
            if self._waits(actor):
                self._blocked.add(actor)
                return
            if time.monotonic() > ends_at:
                raise StuckError(f"{self.taken}: a step did not end, and waits for nobody here")
        self._blocked.discard(actor)
        if actor.severed and actor not in self._gone:
            self._gone.add(actor)
            self._until_gone(actor, ends_at)

    def _waits(self, actor: Actor) -> bool:
        """Say whether *actor* waits for a lock of actors that do not move by themselves."""
        row = self._monitor.execute("SELECT pg_blocking_pids(%s)", [actor.pid]).fetchone()
        still = {each.pid for each in self._actors if each is not actor}
        return row is not None and bool(row[0]) and set(row[0]) <= still

    def _until_gone(self, actor: Actor, ends_at: float) -> None:
        """Wait until the server has noticed, and given up the locks of a session that was cut."""
        asks = "SELECT FROM pg_stat_activity WHERE pid = %s"
        while self._monitor.execute(asks, [actor.pid]).fetchone() is not None:
            if time.monotonic() > ends_at:
                raise StuckError(f"{self.taken}: the server does not notice that a session was cut")

    def _wait_for_the_server(self) -> None:
        """Wait until the server ends a wait in a circle, or one that took too long."""
        ends_at = time.monotonic() + _STUCK_SECONDS
        while not any(actor.stands(_LOOK_SECONDS) for actor in self._blocked):
            if time.monotonic() > ends_at:
                raise StuckError(f"{self.taken}: every actor waits for another")
        for actor in list(self._blocked):
            if actor.stands(0.0) or not self._waits(actor):
                self._settle(actor)
