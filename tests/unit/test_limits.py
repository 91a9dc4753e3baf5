"""What a worker knows of limits spares questions, and keeps it from none that could bring something."""

from __future__ import annotations

import math

import pytest

from webhook_inbox.runtime.limits import LOOK_SECONDS, Limits

POLL_SECONDS = 30.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that is seen; its only element may be changed."""
    now = [100.0]
    monkeypatch.setattr("webhook_inbox.runtime.limits.time.monotonic", lambda: now[0])
    return now


def test_limits_are_looked_for_once_in_a_while(clock: list[float]) -> None:
    """However often a worker claims."""
    limits = Limits(POLL_SECONDS)
    assert [limits.look(), limits.look()] == [True, False]
    clock[0] += LOOK_SECONDS
    assert [limits.look(), limits.look()] == [True, False]


def test_an_endpoint_is_not_asked_for_before_its_rate_lets_one_begin(clock: list[float]) -> None:
    """Nor before that does the worker wake for it: no busy polling."""
    limits = Limits(POLL_SECONDS)
    limits.found(["a", "b", "c"], {"a": 2.0, "b": 5.0})
    assert (set(limits.names), set(limits.held), limits.seconds_until_next) == ({"a", "b"}, {"a", "b"}, 2.0)
    limits.ended("a")
    assert limits.held == {"a", "b"}
    clock[0] += 2.0
    assert (set(limits.held), limits.seconds_until_next) == ({"b"}, 3.0)
    clock[0] += 3.0
    assert (set(limits.names), set(limits.held), limits.seconds_until_next) == ({"a", "b"}, set(), 0.0)


def test_a_full_endpoint_is_asked_for_when_a_run_of_it_has_ended(clock: list[float]) -> None:
    """Or when the worker looks anyway: its places may be others', who have gone."""
    limits = Limits(POLL_SECONDS)
    limits.found(["a", "b"], {"a": math.inf, "b": math.inf})
    assert (set(limits.held), limits.seconds_until_next) == ({"a", "b"}, POLL_SECONDS)
    limits.ended("a")
    limits.ended("c")
    assert limits.held == {"b"}
    clock[0] += POLL_SECONDS
    assert limits.held == set()


def test_a_limit_that_was_changed_is_seen_at_the_next_poll(clock: list[float]) -> None:
    """One event an hour does not mean that the worker asks once an hour."""
    limits = Limits(POLL_SECONDS)
    limits.found(["a"], {"a": 3600.0})
    assert limits.seconds_until_next == POLL_SECONDS
    clock[0] += POLL_SECONDS
    assert limits.held == set()


def test_what_has_no_limit_any_more_is_forgotten(clock: list[float]) -> None:
    """What was not asked for stays known."""
    limits = Limits(POLL_SECONDS)
    limits.found(["a", "b"], {"a": math.inf, "b": 0.0})
    limits.found(["a"], {})
    assert (set(limits.names), set(limits.held)) == ({"b"}, set())
    limits.ended("a")
    assert limits.names == {"b"}
    assert clock == [100.0]
