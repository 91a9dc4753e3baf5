"""Tell what a proof tried and what it found: to people, to programs, to JUnit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from webhook_inbox.errors import InboxError
from webhook_inbox.model.failure import describe
from webhook_inbox.testing.junit import Case, suite


@dataclass(frozen=True, slots=True)
class Finding:
    """
    Hold one thing that is wrong with the handlers.

    Attributes:
        trial: Which trial found it.
        what: What happened, to which events.
        schedule: The turns and faults that show it, as ``testing.schedules`` writes them; empty: none were needed.
        story: Each step as it was taken.
        rows: The rows that are missing (``-``) or too many (``+``) in the end.
    """

    trial: str
    what: str
    schedule: str = ""
    story: Sequence[str] = ()
    rows: Sequence[str] = ()

    def __str__(self) -> str:
        schedule = f" (schedule {self.schedule})" if self.schedule else ""
        return "\n  ".join([f"{self.trial}: {self.what}{schedule}", *self.rows, *self.story])


@dataclass(slots=True)
class Proof:
    """
    Say what came of a proof.

    Attributes:
        schedules: How many each trial has run.
        findings: At most one of each trial, the shortest.
        seed: Of the orders that chance chose.
        cut_short: The trials that were not run to their end within the time.
        not_tried: What else could not be tried, and why.
    """

    seed: int
    schedules: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    cut_short: list[str] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Say whether something was tried, and nothing was found."""
        return bool(sum(self.schedules.values())) and not self.findings

    def __str__(self) -> str:
        tried = ", ".join(f"{trial} {number}" for trial, number in self.schedules.items())
        lines = [
            f"{sum(self.schedules.values())} schedules in {self.seconds:.1f} s, seed {self.seed}: {tried}"
        ]
        if self.cut_short:
            lines.append(f"not tried to the end, for want of time: {', '.join(self.cut_short)}")
        lines += [f"not tried: {each}" for each in self.not_tried]
        return "\n".join([*lines, *map(str, self.findings)])

    def as_json(self) -> dict[str, Any]:
        """Give it as what JSON can hold."""
        findings = [
            {
                "trial": each.trial,
                "what": each.what,
                "schedule": each.schedule,
                "rows": list(each.rows),
                "story": list(each.story),
            }
            for each in self.findings
        ]
        return {
            "holds": self.holds,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "schedules": self.schedules,
            "cut_short": self.cut_short,
            "not_tried": self.not_tried,
            "findings": findings,
        }

    def as_junit(self) -> str:
        """Give it as JUnit's XML, a test case for each trial, and for what was found beside them."""
        trials = dict.fromkeys([*self.schedules, *(each.trial for each in self.findings), *self.cut_short])
        return suite("webhook-inbox prove", [self._case(trial) for trial in trials])

    def _case(self, trial: str) -> Case:
        found = "\n".join(str(each) for each in self.findings if each.trial == trial)
        skipped = "not tried to the end, for want of time" if trial in self.cut_short else ""
        return Case(trial, failure=found, skipped=skipped)


def said(error: InboxError) -> str:
    """
    Give what *error* says and, where it stands for one that is not ours, that one's type and where it rose.

    What that one says is left out: it may quote the payload (P-QUIET).
    """
    if error.__cause__ is None or isinstance(error.__cause__, InboxError):
        return str(error)
    return f"{error}: {replace(describe(error), text='')}"
