"""Tell what an exploration tried and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from webhook_inbox.testing.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Broken:
    """
    Hold a schedule after which the check failed.

    Attributes:
        schedule: Runs again by ``Explorer.replay``.
        reason: What the check said.
        story: A line for each step, as it was taken; equal whenever the schedule runs again.
        endings: How each actor ended.
    """

    schedule: Schedule
    reason: str
    story: Sequence[str]
    endings: Sequence[str]

    def __str__(self) -> str:
        said = f"schedule {str(self.schedule) or '(empty)'}: {self.reason}"
        return "\n  ".join([said, *self.story, *self.endings])


@dataclass(slots=True)
class Report:
    """
    Count what was tried.

    Attributes:
        schedules: How many were run to their end.
        faulted: How many of these had a crash, a cut or a lost reply.
        waits: How often an actor waited for another's lock.
        steps: How many steps were taken in all.
        seconds: How long it took.
        turns_max: Up to how many turns everything was tried; None where that was no bound.
        cut_short: Why it ended before everything was tried; empty where everything was.
        broken: The schedules after which the check failed, that with the fewest turns first.
    """

    schedules: int = 0
    faulted: int = 0
    waits: int = 0
    steps: int = 0
    seconds: float = 0.0
    turns_max: int | None = None
    cut_short: str = ""
    broken: list[Broken] = field(default_factory=list)

    def __str__(self) -> str:
        tried = (
            f"{self.schedules} schedules ({self.faulted} with a fault), {self.steps} steps, {self.waits} waits, "
            f"{self.seconds:.1f} s, {len(self.broken)} broken"
        )
        return "\n".join([f"{tried}; {self._end}", *map(str, self.broken)])

    @property
    def _end(self) -> str:
        if self.cut_short:
            return f"cut short: {self.cut_short}"
        return "all there are" if self.turns_max is None else f"all with at most {self.turns_max} turns"
