"""
Run the user's handlers under everything that may happen to their events; the end must be the same each time.

    in turn         each event once, in the order given: the end that all others are compared with
    outside         what a handler does outside of the database, seen while all of this runs
    order           every order, those with the fewest exchanges first; beyond ``orders_max`` such as chance chooses
    second id       each event once more under another id, as some providers send
    copies at once  two copies of each event, in every interleaving of their steps with at most two turns
    at once         each two neighbours, likewise, unless their order alone makes a difference
    set             the events of a set-based handler as one list, with a crash as below
    crash           each event alone, with a crash before each statement and a lost reply of the COMMIT

After each schedule every event is delivered again, as its provider would: so what failed or crashed has its effect, and
what had it must not have it twice. Events run as an inline endpoint runs them, after their prepare stages; the
transaction of a worker is the same but for the row that it marks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.errors import InboxError
from webhook_inbox.model.claim import Claim
from webhook_inbox.protocol.handlers import Kind
from webhook_inbox.protocol.recording import Item, Recording
from webhook_inbox.protocol.steps import Plan
from webhook_inbox.testing.proof.delivering import delivering
from webhook_inbox.testing.proof.orders import is_free, other_orders
from webhook_inbox.testing.proof.places import Places
from webhook_inbox.testing.proof.report import Finding, Proof, said
from webhook_inbox.testing.proof.samples import second_id
from webhook_inbox.testing.proof.sets import ItemSet, claimed, running, sets_of
from webhook_inbox.testing.proof.tables import Connection, Tables
from webhook_inbox.testing.rows import State, difference
from webhook_inbox.testing.schedules import (
    Broken,
    DivergedError,
    Ending,
    Explorer,
    Fault,
    Report,
    Scenario,
    Schedule,
    StuckError,
)

_DIES = frozenset({Fault.CRASH, Fault.LOST_REPLY})


class Trials:
    """
    Run the trials one after the other, as long as there is time.

    Args:
        kept: The tables as they were at first.
        items: The events, each with handlers.
        proof: Is told what was tried and found.
        ends_at: When to end, of ``time.monotonic``.
        to: How events are recorded.
    """

    def __init__(
        self,
        explorer: Explorer,
        places: Places,
        kept: Tables,
        items: list[Item],
        *,
        proof: Proof,
        ends_at: float,
        to: Recording,
    ) -> None:
        self._explorer = explorer
        self._places = places
        self._kept = kept
        self._items = items
        self._proof = proof
        self._ends_at = ends_at
        self._to = to
        self._expected: State | None = None
        self._rows: list[str] = []

    def run(self, chance: random.Random, orders_max: int, *, second_ids: bool) -> None:
        """Run them all; none where the events do not even come to an end in turn."""
        items = self._items
        if not self._in_turn("in turn", "each event once", items):
            return
        for order in other_orders(items, chance, orders_max):
            if not self._in_turn("order", f"delivered as {_ids(order)}", order):
                break
        for number, item in enumerate(items):
            before, what = items[:number], f"event {item.arrival.key.event_id}"
            if second_ids:
                again = [*before, item, second_id(item), *items[number + 1 :]]
                self._in_turn("second id", f"{what}, again under a second id", again)
            self._at_once("copies at once", f"{what}, twice at once", before, [item, item], turns_max=2)
            self._at_once("crash", what, before, [item], faults=_DIES, turns_max=1)
        if self._found("order"):
            return  # what follows would find the same once more
        for each in sets_of(items):
            self._as_set(each)
        for number, pair in enumerate(pairwise(items)):
            if is_free(pair[::-1], items):
                self._at_once("at once", f"events {_ids(pair)} at once", items[:number], pair, turns_max=2)

    def _in_turn(self, trial: str, what: str, items: Sequence[Item]) -> bool:
        """Deliver *items* one after the other; say whether nothing was found."""

        def deliver(_: float) -> Report:
            report = Report(schedules=1)
            self._kept.restore()
            errors = self._deliver(items)
            try:
                self._check(errors)
            except AssertionError as error:
                report.broken.append(Broken(Schedule(), str(error), (), ()))
            return report

        return self._try(trial, what, deliver)

    def _at_once(
        self,
        trial: str,
        what: str,
        before: Sequence[Item],
        items: Sequence[Item],
        **bounds: Any,  # noqa: ANN401 - of explore
    ) -> None:
        """Explore the deliveries of *items*, after those of *before*."""

        def prepare(_: Connection) -> list[Plan[Any]]:
            self._kept.restore()
            self._deliver(before)
            return [delivering(each, self._to) for each in items]

        def check(_: Connection, endings: Sequence[Ending]) -> None:
            _understand(endings)
            self._check()

        scenario = Scenario(prepare=prepare, check=check, places=self._places.at(*map(_kind, items)))
        self._try(trial, what, partial(self._explore, scenario, **bounds))

    def _as_set(self, given: ItemSet) -> None:
        """Explore a worker's run of a set; what it leaves, because it dies, another run takes up."""
        claims: list[Claim] = []

        def prepare(conn: Connection) -> list[Plan[Any]]:
            self._kept.restore()
            claims[:] = PsycopgRunner(conn).run(claimed(given.items, self._to))
            return [running(given.handler, claims, self._to)]

        def check(_: Connection, endings: Sequence[Ending]) -> None:
            _understand(endings)
            try:
                self._places.run(given.handler.kind, running(given.handler, claims, self._to))
            except InboxError as error:
                raise AssertionError(f"run again, it fails: {said(error)}") from error
            self._check()

        scenario = Scenario(prepare=prepare, check=check, places=self._places.at(given.handler.kind))
        explore = partial(self._explore, scenario, faults=_DIES, turns_max=1)
        self._try("set", f"events {_ids(given.items)} as one set", explore)

    def _explore(self, scenario: Scenario, seconds_left: float, /, **bounds: Any) -> Report:  # noqa: ANN401 - of explore
        return self._explorer.explore(scenario, seconds_max=seconds_left, **bounds)

    def _try(self, trial: str, what: str, explore: Callable[[float], Report]) -> bool:
        """Have *explore* try *what* within the seconds that are left; say whether nothing was found."""
        if self._found(trial):
            return False
        left = self._ends_at - time.monotonic()
        if left <= 0:
            self._cut_short(trial)
            return True
        try:
            report = explore(left)
        except (StuckError, TimeoutError) as error:
            reason = str(error) or "it does not come to an end"
            self._proof.findings.append(Finding(trial, f"{what}: {reason}"))
            return False
        except DivergedError:
            self._proof.not_tried.append(
                f"{trial}, {what}, to the end: its statements differ from run to run"
            )
            return True
        self._proof.schedules[trial] = self._proof.schedules.get(trial, 0) + report.schedules
        for broken in report.broken:
            found = Finding(trial, f"{what}: {broken.reason}", str(broken.schedule), broken.story, self._rows)
            self._proof.findings.append(found)
        if report.cut_short and not report.broken:
            self._cut_short(trial)
        return not report.broken

    def _found(self, trial: str) -> bool:
        return any(each.trial == trial for each in self._proof.findings)

    def _cut_short(self, trial: str) -> None:
        if trial not in self._proof.cut_short:
            self._proof.cut_short.append(trial)

    def _deliver(self, items: Sequence[Item]) -> list[InboxError]:
        """Deliver *items* one after the other, each once; give what those that failed failed with."""
        errors = []
        for item in items:
            try:
                self._places.run(_kind(item), delivering(item, self._to))
            except InboxError as error:
                errors.append(error)
        return errors

    def _check(self, met: Sequence[InboxError] = ()) -> None:
        """Deliver every event again, as its provider would, and compare the end; *met* is what the first ones met."""
        self._rows = []
        if met and self._expected is None:
            raise AssertionError(said(met[0])) from met[0]
        if errors := self._deliver(self._items):
            raise AssertionError(f"delivered again, it fails: {said(errors[0])}") from errors[0]
        state = self._kept.state()
        if self._expected is None:
            self._expected = state
        elif rows := difference(self._expected, state):
            self._rows = rows
            raise AssertionError("the tables are not as when each event comes once and in turn")


def _understand(endings: Sequence[Ending]) -> None:
    """Raise what is no answer to an event: it comes from us, and would leave a part of the schedule untried."""
    for ending in endings:
        if ending.error is not None and not isinstance(ending.error, InboxError):
            raise ending.error


def _kind(item: Item) -> Kind:
    return item.handlers[0].kind


def _ids(items: Sequence[Item]) -> str:
    return ", ".join(item.arrival.key.event_id for item in items)
