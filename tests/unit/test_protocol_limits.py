"""A claim within a limit asks for no more than it leaves, and says when to ask again; without one it is as ever."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.fixtures.arrivals import SCHEMA
from tests.fixtures.plans import Played, play
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.model.claim import WorkerId
from webhook_inbox.model.limit import Limit
from webhook_inbox.protocol.lease import ClaimsUnknownError, Wanted
from webhook_inbox.protocol.limits import LOCKED_SECONDS, Claimed, claim, limit_endpoint
from webhook_inbox.protocol.operate import Operator
from webhook_inbox.sql.statements import Statements

WORKER = WorkerId(7)
AWAY = StoreUnavailableError("away")
PLAIN = ["begin", "claim_events", "commit"]
MEASURED = ["begin", "lock_limit", "measure_limits"]


def row(event: int, endpoint: str = "a") -> tuple[Any, ...]:
    """A row of ``claim_events``."""
    key = (event, 1, "stripe", endpoint, "", "", f"evt_{event}", "t", "delivery")
    return (*key, None, 0, 1, 0, False, None, b"{}", "[]", 0)


def played(answers: list[object], *limited: str, asked: str = "ab", looking: bool = False) -> Played[Claimed]:
    """A claim of 10 events of each endpoint in *asked*."""
    wanted = [Wanted(endpoint=each, limit=10, hold_seconds=1.0) for each in asked]
    return play(claim(wanted, limited, WORKER, Statements.of(SCHEMA), looking=looking), answers)


def ids(done: Played[Claimed]) -> list[int]:
    """What was claimed."""
    return [] if done.value is None else [each.id for each in done.value.claims]


def test_what_has_no_limit_is_claimed_together_and_nothing_else_is_asked() -> None:
    """One claim for all of them, in one transaction."""
    done = played([None, [row(1), row(2, "b")], None])
    assert (done.names, ids(done)) == (PLAIN, [1, 2])
    (asked,) = done.params("claim_events")
    assert (asked["endpoints"], asked["limits"], asked["limited"]) == (["a", "b"], [10, 10], False)
    assert done.value is not None
    assert done.value.waits == {}


def test_limits_are_looked_for_in_the_round_trip_that_claims() -> None:
    """And one that is found is claimed within at once."""
    answers = [None, [row(1)], [("b", 3, 0.0, True)], None]
    done = played([*answers, None, ("b",), [("b", 3, 0.0, True)], [row(2, "b")], (0.0,), None], looking=True)
    found = ["begin", "claim_events", "measure_limits", "commit"]
    assert (done.names, ids(done)) == ([*found, *MEASURED, "claim_events", "spend_rate", "commit"], [1, 2])
    assert [each["endpoints"] for each in done.params("measure_limits")] == [["a", "b"], ["b"]]
    within = done.params("claim_events")[1]
    assert (within["endpoints"], within["limits"], within["limited"]) == (["b"], [3], True)
    assert done.params("spend_rate") == [{"name": "b", "begun": 1}]
    assert done.value is not None
    assert done.value.waits == {"b": 0.0}


@pytest.mark.parametrize(
    ("allowed", "claimed", "spent", "wait"),
    [
        (3, 3, (0.5,), 0.5),  # the rate is spent
        (3, 3, (0.0,), 0.0),  # it was, and has given one more meanwhile
        (3, 3, None, math.inf),  # as many are under way as may be
        (3, 2, None, 0.0),  # nothing more is due
        (30, 10, (0.0,), 0.0),  # no more was asked for
    ],
)
def test_a_claim_says_when_to_ask_again(
    allowed: int, claimed: int, spent: tuple[float] | None, wait: float
) -> None:
    """It asks for no more than the limit leaves, nor than was wanted."""
    rows = [row(number) for number in range(claimed)]
    done = played([None, ("a",), [("a", allowed, 0.0, True)], rows, spent, None], "a", asked="a")
    assert done.names == [*MEASURED, "claim_events", "spend_rate", "commit"]
    assert done.params("claim_events")[0]["limits"] == [min(allowed, 10)]
    assert done.value is not None
    assert (len(done.value.claims), done.value.waits) == (claimed, {"a": wait})


@pytest.mark.parametrize(
    ("locked", "limits", "waits"),
    [
        (("a",), [("a", 0, 0.25, True)], {"a": 0.25}),  # its rate
        (("a",), [("a", 0, 0.0, True)], {"a": math.inf}),  # its places
        (("a",), [("a", 0, 0.25, False)], {"a": 0.0}),  # nothing is due
        (("a",), [("a", 3, 0.0, False)], {"a": 0.0}),
        (None, [("a", 3, 0.0, True)], {"a": LOCKED_SECONDS}),  # another worker claims
        (None, [("a", 3, 0.0, False)], {"a": 0.0}),
        (None, [], {}),  # lifted
        (("a",), [], {}),  # paused
    ],
)
def test_where_nothing_may_begin_nothing_is_claimed(
    locked: tuple[str] | None, limits: list[Any], waits: dict[str, float]
) -> None:
    """P-COUNT: what is held back is not touched; and it is said why, so that nobody asks in vain."""
    done = played([None, locked, limits, None], "a", asked="a")
    assert done.names == [*MEASURED, "rollback"]
    assert done.value == Claimed((), waits)


def test_where_nothing_was_claimed_within_a_limit_nothing_is_spent() -> None:
    """What was due is locked by somebody, or waits for its turn at an order key."""
    done = played([None, ("a",), [("a", 3, 0.0, True)], [], None], "a", asked="a")
    assert done.names == [*MEASURED, "claim_events", "rollback"]
    assert done.value == Claimed((), {"a": 0.0})


def test_what_was_claimed_before_a_failure_is_not_forgotten() -> None:
    """P-COUNT: nobody would run it, so its incarnation has to end; where nothing was claimed, it need not."""
    assert isinstance(played([None, [row(1)], None, AWAY], "b").error, ClaimsUnknownError)
    assert played([None, [], None, AWAY], "b").error is AWAY
    measured = [None, ("a",), [("a", 3, 0.0, True)], [row(1)], (0.0,)]
    assert isinstance(played([*measured, AWAY], "a", asked="a").error, ClaimsUnknownError)
    assert played([*measured[:-1], AWAY], "a", asked="a").error is AWAY


@pytest.mark.parametrize(("row", "changed"), [(("a",), True), (None, False)])
def test_a_limit_is_set_and_lifted_in_one_transaction(row: object, changed: bool) -> None:
    """What nothing is said of any more is forgotten in it."""
    limit = Limit(concurrency=4, rate_events=30, rate_seconds=60)
    done = play(limit_endpoint("a", limit, Operator("ada", "why"), SCHEMA), [None, row, None, None])
    assert done.names == ["begin", "limit_endpoint", "forget_endpoint", "commit"]
    assert done.params("limit_endpoint") == [
        {"name": "a", "concurrency": 4, "rate_events": 30, "rate_seconds": 60, "by": "ada", "reason": "why"}
    ]
    assert done.params("forget_endpoint") == [{"name": "a"}]
    assert done.value is changed
