"""The explorer finds each mistake that the promises exclude, and shows the schedule."""

from __future__ import annotations

import pytest

from tests.schedules.mistakes import MISTAKES
from webhook_inbox.testing.schedules import Explorer


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_with_a_schedule_that_shows_it_again(explorer: Explorer, name: str) -> None:
    """The mistake breaks the promise that is there against it, under the same schedule each time."""
    mistake = MISTAKES[name]
    found = explorer.explore(mistake.scenario, faults=mistake.faults)
    assert found.broken, f"{name}: not found; {found}"
    again = explorer.replay(mistake.scenario, str(found.broken[0].schedule))
    for report in (found, again):
        assert mistake.shows in report.broken[0].reason, str(report)
    assert again.broken[0].story == found.broken[0].story
