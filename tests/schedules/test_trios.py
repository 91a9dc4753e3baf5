"""Every interleaving of the steps of three plans, up to a bound, keeps every promise, and so it does with a fault."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.schedules.exploring import SECONDS_MAX, try_faults, try_orders
from tests.schedules.trios import TRIOS
from webhook_inbox.testing.schedules import Explorer


@pytest.mark.timeout(SECONDS_MAX * 2)
@pytest.mark.parametrize("name", TRIOS)
def test_every_interleaving_keeps_the_promises(explorer: Explorer, name: str, tally: Counter[str]) -> None:
    """All orders in which the steps can come are tried, and none breaks a promise (P-ONCE, P-FENCE, P-KEEP)."""
    try_orders(explorer, name, TRIOS[name], tally)


@pytest.mark.timeout(SECONDS_MAX * 2)
@pytest.mark.parametrize("name", TRIOS)
def test_a_fault_at_every_step_keeps_the_promises(explorer: Explorer, name: str, tally: Counter[str]) -> None:
    """A crash, a cut and a lost reply at every step break no promise, and whoever comes next finishes."""
    try_faults(explorer, name, TRIOS[name], tally)
