"""
Lease, token and clock keep their promises in every state there is, up to a bound.

The bound: one event, two workers, three incarnations in all, three claims; time goes on for ever.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.property.lease_model import Found, Rules, State, explore

RULES = Rules()
WITHOUT = {
    "fenced": "P-FENCE",
    "lock_respected": "P-FENCE",
    "counted_first": "P-COUNT",
    "trusted_from_asking": "P-CLOCK",
    "claims_checked": "P-CLOCK",
}


@pytest.fixture(scope="module")
def everything() -> Found:
    """Every state that can be reached."""
    return explore(RULES)


def test_no_move_in_any_state_breaks_a_promise(everything: Found, tally: Counter[str]) -> None:
    """P-ONCE, P-FENCE, P-COUNT, P-CLOCK; and the model has not become smaller than it was."""
    tally["states of a lease"] += len(everything.parents)
    tally["moves between states of a lease"] += everything.moved
    assert everything.broken is None, everything.broken
    assert len(everything.parents) >= 20_000


@pytest.mark.parametrize("rule", WITHOUT)
def test_every_rule_is_needed(rule: str) -> None:
    """Without it a promise breaks, and the model shows how."""
    found = explore(replace(RULES, **{rule: False}))
    assert found.broken is not None, f"nothing needs {rule}"
    reason, way = found.broken
    assert reason.startswith(WITHOUT[rule]), (reason, way)


def test_an_event_is_never_stuck(everything: Found) -> None:
    """From each state there is a way to its effect, as long as somebody may still claim it."""
    before: dict[State, list[State]] = {}
    for state, following in everything.after.items():
        for after in following:
            before.setdefault(after, []).append(state)
    waiting = [state for state in everything.after if state.row.state == "processed"]
    ends = set(waiting)
    while waiting:
        for each in before.get(waiting.pop(), ()):
            if each not in ends:
                ends.add(each)
                waiting.append(each)
    stuck = [state for state in everything.after if state not in ends]
    assert all(_out_of_bounds(state) for state in stuck), stuck[:1]


def _out_of_bounds(state: State) -> bool:
    """Whether the bound alone keeps the event from its effect: nobody may claim it any more, or nobody is left."""
    claims_spent = state.row.token == RULES.claims
    nobody_left = len(state.leases) == RULES.incarnations and any(
        w.incarnation is None for w in state.workers
    )
    return claims_spent or nobody_left
