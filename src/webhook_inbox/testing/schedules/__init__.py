"""
Run plans step by step, each on its own connection, in every order in which their steps can interleave.

    with Explorer(dsn) as explorer:
        report = explorer.explore(Scenario(prepare=..., check=...), faults=ALL_FAULTS, seconds_max=60)
    assert not report.broken, str(report)

A schedule is a short text, ``A A B! A``, and runs again from it: see ``Schedule``.
"""

from __future__ import annotations

from webhook_inbox.testing.schedules.actor import Ending
from webhook_inbox.testing.schedules.course import DivergedError, StuckError
from webhook_inbox.testing.schedules.explorer import Explorer, Scenario
from webhook_inbox.testing.schedules.place import Place
from webhook_inbox.testing.schedules.report import Broken, Report
from webhook_inbox.testing.schedules.schedule import ALL_FAULTS, Fault, Move, Schedule

__all__ = [
    "ALL_FAULTS",
    "Broken",
    "DivergedError",
    "Ending",
    "Explorer",
    "Fault",
    "Move",
    "Place",
    "Report",
    "Scenario",
    "Schedule",
    "StuckError",
]
