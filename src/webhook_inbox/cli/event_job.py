"""Do one action with the events that are meant: count them, ask, do it, and tell what was left and why."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import typer

from webhook_inbox.cli.events import the_event
from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.output import counted, is_terminal, say, tell, tell_json, visible
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.event_filter import EventFilter
from webhook_inbox.model.states import State

if TYPE_CHECKING:
    from webhook_inbox.cli.store import Store
    from webhook_inbox.model.event_record import EventRecord
    from webhook_inbox.protocol.operate import Action, Operated, Operator

_DONE = {"retry": "retried", "replay": "replayed", "discard": "discarded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventJob:
    """
    Do one action with events.

    Attributes:
        store: Where they are.
        action: What is done.
        by: Who does it, and why.
        every_seconds: How much later than the one before each is due.
        json: Whether it is told as JSON.
    """

    store: Store
    action: Action
    by: Operator
    every_seconds: float = 0.0
    json: bool

    def do(
        self,
        ids: Sequence[str] | None,
        meant: EventFilter,
        usual: Sequence[State],
        *,
        dry_run: bool,
        yes: bool,
    ) -> int:
        """
        Do it with the events of *ids*, else with all that *meant* means; give the exit code, 1 where one was left.

        Args:
            usual: The states that *meant* means where it names none.

        Raises:
            ConfigurationError: *meant* says nothing, or more than an endpoint beside ids; it names a state with which
                this cannot be done; an id means none or several; or nobody said yes.
        """
        if ids:
            return self._do_named(ids, meant, dry_run=dry_run)
        return self._do_all(meant, usual, dry_run=dry_run, yes=yes)

    def _do_named(self, ids: Sequence[str], meant: EventFilter, *, dry_run: bool) -> int:
        if meant != EventFilter(endpoint=meant.endpoint):
            raise ConfigurationError(
                "say which events by ids or by options, not by both; --endpoint goes with ids"
            )
        records = [the_event(self.store, each, meant.endpoint) for each in dict.fromkeys(ids)]
        parts = [
            _Part(EventFilter(rows=rows), rereads)
            for rereads in (False, True)
            if (rows := tuple(each.row for each in records if self._rereads_record(each) is rereads))
        ]
        return self._tell_count(parts) if dry_run else self._tell([self._do(part) for part in parts])

    def _do_all(self, meant: EventFilter, usual: Sequence[State], *, dry_run: bool, yes: bool) -> int:
        if meant == EventFilter():
            raise ConfigurationError("say which events: by ids, or by options such as --state or --type")
        asked = meant.states or tuple(usual)
        for state in asked:
            if state not in self.action.states and not self._rereads(state):
                raise ConfigurationError(f"events {self.action.name} does nothing with {state} ones")
        parts = [
            _Part(self._possible(replace(meant, states=states), rereads), rereads)
            for rereads in (False, True)
            if (states := tuple(each for each in asked if self._rereads(each) is rereads))
        ]
        if dry_run:
            return self._tell_count(parts)
        if not yes:
            self._ask(self._count(parts).total())
        return self._tell([self._do(part) for part in parts])

    def _rereads(self, state: State) -> bool:
        """Say whether an event of *state* is read again, rather than run."""
        return self.action.rereads and state is State.QUARANTINED

    def _rereads_record(self, event: EventRecord) -> bool:
        """Say it of *event*: one that was quarantined and then discarded is no event to run, either."""
        return self._rereads(event.state) or (self.action.rereads and not event.identified)

    def _possible(self, meant: EventFilter, rereads: bool) -> EventFilter:
        """Leave away with what nothing can be done."""
        return replace(meant, kept=self.action.runs, identified=self.action.runs and not rereads)

    def _do(self, part: _Part) -> Operated:
        from webhook_inbox.protocol.operate import operate
        from webhook_inbox.protocol.reread import reread

        if not part.rereads:
            return self.store.perform(
                lambda schema: operate(
                    self.action,
                    part.meant,
                    self.by,
                    schema,
                    every_seconds=self.every_seconds,
                    progress=self._progress,
                )
            )
        if self.store.inbox is None:
            raise ConfigurationError("a quarantined delivery is read by its endpoint's source: say --app")
        plans = self.store.inbox.endpoint_plans
        return self.store.perform(lambda schema: reread(part.meant, plans, self.by, schema))

    def _progress(self, changed: int) -> None:
        from webhook_inbox.protocol.operate import BATCH_EVENTS

        if changed >= BATCH_EVENTS and is_terminal(sys.stderr):  # fewer are done at once
            say(f"{changed} so far; what is done stays done")

    def _count(self, parts: Sequence[_Part]) -> Counter[State]:
        """Count those with which it can be done, by state."""
        from webhook_inbox.protocol.look import count_events
        from webhook_inbox.protocol.reread import REREAD

        found: Counter[State] = Counter()
        for part in parts:
            states = part.meant.states or (REREAD if part.rereads else self.action).states
            meant = self._possible(replace(part.meant, states=states), part.rereads)
            found.update(self.store.perform(partial(count_events, meant)))
        return found

    def _ask(self, number: int) -> None:
        if not is_terminal(sys.stdin):
            raise ConfigurationError(
                f"{counted(number, 'event')} would be {self._done}: say --yes, or --dry-run"
            )
        typer.confirm(f"{self.action.name} {counted(number, 'event')}?", abort=True, err=True)

    def _tell_count(self, parts: Sequence[_Part]) -> int:
        found = self._count(parts)
        if self.json:
            tell_json({"action": self.action.name, "dry_run": True, "meant": found.total(), "states": found})
            return GOOD
        by_state = ", ".join(f"{number} {state}" for state, number in sorted(found.items()))
        tell(": ".join(filter(None, (f"{counted(found.total(), 'event')} would be {self._done}", by_state))))
        return GOOD

    def _tell(self, parts: Sequence[Operated]) -> int:
        changed = sum(each.changed for each in parts)
        left = [each for part in parts for each in part.left]
        if self.json:
            told = [
                {"row": each.event.row, "event_id": each.event.event_id, "why": each.why} for each in left
            ]
            tell_json({"action": self.action.name, "dry_run": False, "changed": changed, "left": told})
        else:
            tell(f"{counted(changed, 'event')} {self._done}")
        for each in left:
            say(visible(f"left as it is: {each.event.event_id} (row {each.event.row}): {each.why}"))
        if changed and self.action.runs and not self.json and not self._worked():
            app = shlex.quote(self.store.app) if self.store.app else "APP"
            say(visible(f"due, and no worker runs: webhook-inbox worker {app} --drain does what is due"))
        return BAD if left else GOOD

    def _worked(self) -> bool:
        """Say whether somebody is there who runs what is due."""
        from webhook_inbox.protocol.lease import is_worked
        from webhook_inbox.sql.statements import Statements

        return self.store.perform(lambda schema: is_worked(Statements.of(schema), besides=""))

    @property
    def _done(self) -> str:
        return _DONE[self.action.name]


@dataclass(frozen=True, slots=True)
class _Part:
    """Name events of one kind: to be read again, or not."""

    meant: EventFilter
    rereads: bool
