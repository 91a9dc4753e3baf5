"""A destination that takes nothing is left alone, for longer each time; one message finds out when it does again."""

from __future__ import annotations

import pytest

from webhook_inbox.model.message import Failed, Sent, Verdict
from webhook_inbox.runtime.breaker import FAILURES_MAX, Breaker

DOWN = Failed("unreachable", stop=True)
BAD = Failed("refused")


class Clock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The breaker's clock."""
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    """A breaker that is closed."""
    return Breaker(clock)


def test_it_is_closed_until_something_fails(breaker: Breaker) -> None:
    """Everything may be sent."""
    assert (breaker.seconds_left, breaker.trying) == (0.0, False)
    assert breaker.take([Sent(), BAD, Sent()]) == 0.0
    assert (breaker.seconds_left, breaker.trying) == (0.0, False)


def test_a_destination_that_is_down_opens_it_at_once_and_longer_each_time(
    breaker: Breaker, clock: Clock
) -> None:
    """Between half of and all of 1, 2, 4, ... 60 seconds."""
    for longest in (1, 2, 4, 8, 16, 32, 60, 60):
        seconds = breaker.take([DOWN])
        assert longest / 2 <= seconds <= longest
        assert breaker.seconds_left == pytest.approx(seconds)
        clock.now += seconds + 0.001
        assert (breaker.seconds_left, breaker.trying) == (0.0, True)


def test_what_comes_back_while_it_is_open_does_not_open_it_further(breaker: Breaker, clock: Clock) -> None:
    """What was under way when the destination went away fails all at once, and is one failure of its."""
    seconds = breaker.take([DOWN] * 50)
    assert seconds <= 1
    assert breaker.take([DOWN] * 50) == pytest.approx(seconds)
    clock.now += seconds + 0.001
    assert breaker.take([DOWN]) <= 2


def test_it_opens_for_as_long_as_the_destination_asks(breaker: Breaker, clock: Clock) -> None:
    """``Retry-After``; no time, or one in the past, asks for nothing: it is not hammered."""
    assert breaker.take([Failed("busy", stop=True, retry_in_seconds=30)]) == 30
    for longest, seconds in ((2, -5), (4, 0)):
        clock.now += breaker.seconds_left + 0.001
        assert longest / 2 <= breaker.take([Failed("busy", stop=True, retry_in_seconds=seconds)]) <= longest


def test_it_knows_whether_anything_arrives(breaker: Breaker, clock: Clock) -> None:
    """From the first that arrives until it opens."""
    seen = [breaker.confirms]
    for verdict in (DOWN, Sent(), BAD, DOWN, BAD):
        clock.now += breaker.seconds_left + 0.001
        breaker.take([verdict])
        seen.append(breaker.confirms)
    assert seen == [False, False, True, True, False, False]


def test_one_that_arrives_closes_it(breaker: Breaker, clock: Clock) -> None:
    """And the next outage begins anew, with a second."""
    for _ in range(3):
        clock.now += breaker.take([DOWN]) + 0.001
    tried = [breaker.trying, breaker.take([Sent()]) > 0, breaker.trying]
    assert tried == [True, False, False]
    assert breaker.take([DOWN]) <= 1


@pytest.mark.parametrize("between", [Sent(), Failed("no such customer", permanent=True)])
def test_failures_of_messages_open_it_only_where_none_arrives_between(
    breaker: Breaker, between: Verdict
) -> None:
    """P-FLOW: messages that fail for reasons of their own do not stop the others; a refusal for good is an answer."""
    for _ in range(5):
        assert breaker.take([BAD] * (FAILURES_MAX - 1) + [between]) == 0
    assert breaker.take([BAD] * FAILURES_MAX) > 0


def test_while_it_tries_one_failure_is_enough(breaker: Breaker, clock: Clock) -> None:
    """Nothing has shown yet that the destination is well."""
    clock.now += breaker.take([BAD] * FAILURES_MAX) + 0.001
    assert breaker.trying
    assert breaker.take([BAD]) > 0
