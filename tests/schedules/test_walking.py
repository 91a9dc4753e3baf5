"""Asking a provider beside its deliveries, and beside another who asks, loses and doubles nothing in any order."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.schedules.walking import WALKS
from webhook_inbox.testing.schedules import ALL_FAULTS, Explorer, Fault

EVERYTHING = bool(os.environ.get("WEBHOOK_INBOX_TEST_SCHEDULES"))
SECONDS_MAX = 600.0 if EVERYTHING else 60.0
FAULTS = ALL_FAULTS if EVERYTHING else (Fault.CRASH, Fault.LOST_REPLY)


@pytest.mark.timeout(SECONDS_MAX * 2)
@pytest.mark.parametrize("name", WALKS)
@pytest.mark.parametrize("faulted", [False, True], ids=["orders", "faults"])
def test_a_list_is_complete_only_when_its_events_are_here(
    explorer: Explorer, name: str, faulted: bool, tally: Counter[str]
) -> None:
    """P-FIND, P-ONCE, P-DUP: with each turn, each crash and each lost COMMIT; the next walk finishes what is left."""
    walk = WALKS[name]
    report = explorer.explore(
        walk.scenario,
        faults=FAULTS if faulted else (),
        turns_max=None if EVERYTHING else 1,
        seconds_max=SECONDS_MAX,
    )
    tally[f"schedules {'with' if faulted else 'without'} a fault: {name}"] += report.schedules
    assert not report.broken, str(report)
    assert report.schedules >= (walk.floor_faulted if faulted else walk.floor), (
        f"the explorer has explored less than it did: {report}"
    )
