"""
Try every order in which the steps of a few plans can interleave, with faults at every step, on real PostgreSQL.

*Every order.* One run follows a schedule and notes at each choice which other moves there were; each of these is a
schedule to run later. Those with the fewest turns away from "whoever moved last goes on" come first, so what is found
first is the shortest (as in Musuvathi and Qadeer, "Iterative Context Bounding for Systematic Testing of Multithreaded
Programs", PLDI 2007).

*Fewer orders.* A step that is ``local`` (see ``Stop``) commutes with every step of every other actor, so it is taken
at once, and no other order of it is tried. A fault before a local step comes to the same as one before the next that is
not: no other session can see or meet what lies between the two.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

import psycopg

from webhook_inbox.protocol.steps import Plan
from webhook_inbox.testing.schedules.actor import Actor, Ending
from webhook_inbox.testing.schedules.course import Course
from webhook_inbox.testing.schedules.place import Place, PsycopgPlace
from webhook_inbox.testing.schedules.report import Broken, Report
from webhook_inbox.testing.schedules.schedule import Fault, Move, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    Say what is explored.

    Attributes:
        prepare: Puts the tables into their first state and makes the plans, afresh for each schedule. Its connection is
            in autocommit.
        check: Called after each schedule with how each plan ended; raises AssertionError where a promise is broken.
        local: How statements of handlers begin that are ``local`` as far as the check can tell: for instance those that
            write to a table which has neither a key nor a trigger, and which no plan reads.
        places: Where each plan runs, all of them free; empty: on psycopg's connections, which the explorer opens.
    """

    prepare: Callable[[psycopg.Connection[Any]], Sequence[Plan[Any]]]
    check: Callable[[psycopg.Connection[Any], Sequence[Ending]], None]
    local: tuple[str, ...] = ()
    places: Sequence[Place] = ()


class Explorer:
    """
    Run the schedules of scenarios on the database *dsn*; a context manager, which opens and closes the connections.

    The user must be one who sees the others' sessions in ``pg_stat_activity``: the same one will do.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._places: list[Place] = []

    def __enter__(self) -> Self:
        # psycopg drops all that a session has prepared after a DROP; a scenario may need one, and the plans go on.
        self._monitor = psycopg.connect(self._dsn, autocommit=True, prepare_threshold=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._monitor.close()
        for place in self._places:
            place.close()

    def explore(
        self,
        scenario: Scenario,
        *,
        faults: Collection[Fault] = (),
        turns_max: int | None = None,
        steps_max: int = 60,
        schedules_max: int = 100_000,
        seconds_max: float = 60.0,
        broken_max: int = 1,
    ) -> Report:
        """
        Run every schedule of *scenario*, each with none or one of *faults*.

        Args:
            turns_max: How often a schedule may depart from "whoever moved last goes on", a fault included; None: as
                often as it can.
            steps_max: Moves of one schedule up to which every choice is tried.
            schedules_max: How many to run.
            seconds_max: How long to go on.
            broken_max: How many broken ones to find.

        Returns:
            What was tried and found; the same each time unless it was cut short by *seconds_max*.

        Raises:
            StuckError: A plan waits for something else than a lock of another plan's.
        """
        report, started = Report(), time.monotonic()
        waiting: list[tuple[int, int, str, Schedule]] = [(0, 0, "", Schedule())]
        while waiting and not report.cut_short:
            turns, _, _, schedule = heapq.heappop(waiting)
            run = self._run(scenario, schedule, report, faults=frozenset(faults), steps_max=steps_max)
            if turns_max is None or turns < turns_max:
                for other in run.others:
                    heapq.heappush(waiting, (turns + 1, len(other), str(other), other))
            elif run.others:
                report.turns_max = turns_max
            report.seconds = time.monotonic() - started
            report.cut_short = run.cut_short or _spent(
                report, schedules_max, seconds_max, broken_max, waiting
            )
        return report

    def replay(self, scenario: Scenario, schedule: Schedule | str) -> Report:
        """
        Run one schedule again.

        Raises:
            ValueError: *schedule* is none, or not one of *scenario*: it names an actor that cannot move then.
        """
        report = Report()
        given = Schedule.parse(schedule) if isinstance(schedule, str) else schedule
        self._run(scenario, given, report, steps_max=len(given))
        return report

    def _run(self, scenario: Scenario, schedule: Schedule, report: Report, **bounds: Any) -> Course:  # noqa: ANN401 - as Course takes them
        """Run *schedule* and add it to *report*."""
        plans = scenario.prepare(self._monitor)
        places = scenario.places or self._own_places(len(plans))
        actors = [Actor(place, plan, scenario.local) for place, plan in zip(places, plans, strict=True)]
        run = Course(self._monitor, actors, schedule, **bounds)
        endings = run.to_the_end()
        report.schedules += 1
        report.faulted += any(move.fault for move in run.taken)
        report.steps += len(run.taken)
        report.waits += run.waits
        try:
            scenario.check(self._monitor, endings)
        except AssertionError as error:
            told = [f"{Move(position)} {ending}" for position, ending in enumerate(endings)]
            report.broken.append(Broken(schedule, str(error) or "the check failed", run.story, told))
        return run

    def _own_places(self, number: int) -> list[Place]:
        self._places = [place for place in self._places if place.free]
        while len(self._places) < number:
            self._places.append(PsycopgPlace(partial(psycopg.connect, self._dsn)))
        return self._places[:number]


def _spent(
    report: Report, schedules_max: int, seconds_max: float, broken_max: int, waiting: Collection[object]
) -> str:
    if not waiting:
        return ""
    if len(report.broken) >= broken_max:
        return "enough is broken"
    if report.schedules >= schedules_max:
        return f"{schedules_max} schedules are the most that were asked for"
    return f"{seconds_max} s are over" if report.seconds >= seconds_max else ""
