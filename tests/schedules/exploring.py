"""
Try every interleaving of the steps of some plans, and a fault at every step: nothing breaks a promise.

``make test`` tries all with few turns, and of those with a fault all with no turn beside it. ``make schedules`` tries
all there are, for up to ten minutes a scenario and kind, or for as many seconds as ``WEBHOOK_INBOX_TEST_SCHEDULES``
says in place of ``all``; its last lines say how many, and what was cut short.
"""

from __future__ import annotations

import os
from collections import Counter

from tests.schedules.pairs import Pair
from webhook_inbox.testing.schedules import ALL_FAULTS, Explorer, Report

_GIVEN = os.environ.get("WEBHOOK_INBOX_TEST_SCHEDULES", "")
EVERYTHING = bool(_GIVEN)
SECONDS_MAX = float(_GIVEN) if _GIVEN.isdecimal() else 600.0 if EVERYTHING else 60.0


def try_orders(explorer: Explorer, name: str, pair: Pair, tally: Counter[str]) -> None:
    """Try the orders in which the steps can come."""
    turns_max = None if EVERYTHING else pair.turns
    report = explorer.explore(pair.scenario, turns_max=turns_max, seconds_max=SECONDS_MAX)
    _told(name, "without a fault", report, tally)
    assert not report.broken, str(report)
    assert EVERYTHING or report.schedules >= pair.floor, (
        f"the explorer has explored less than it did: {report}"
    )


def try_faults(explorer: Explorer, name: str, pair: Pair, tally: Counter[str]) -> None:
    """Try a crash, a cut and a lost reply at every step."""
    turns_max = None if EVERYTHING else 1
    report = explorer.explore(pair.scenario, faults=ALL_FAULTS, turns_max=turns_max, seconds_max=SECONDS_MAX)
    _told(name, "with a fault", report, tally)
    assert not report.broken, str(report)
    assert EVERYTHING or report.schedules >= pair.floor_faulted, (
        f"the explorer has tried fewer faults than it did: {report}"
    )


def _told(name: str, how: str, report: Report, tally: Counter[str]) -> None:
    """Say how many schedules there were."""
    end = f", cut short: {report.cut_short}" if report.cut_short else ""
    tally[f"schedules {how}: {name}{end}"] += report.schedules
