"""Everybody has a turn in every round, and only runs of the same round are compared."""

from __future__ import annotations

from typing import Any, cast

import pytest

from benchmarks.harness.errors import BenchmarkError, InvariantError
from benchmarks.harness.figures import Figures, Spread, number, ratio, spreads
from benchmarks.harness.rounds import choose, measure, table
from benchmarks.harness.suite import Bench, Subject, Suite

NO_SERVER = Bench(cast("Any", None), 1.0, quick=True)


def suite_of(turns: list[str], **figures: list[float | None]) -> Suite:
    """A suite whose subjects give these rates, one a round; None: that run does not count."""

    def subject(name: str, rates: list[float | None]) -> Subject:
        left = iter(rates)

        def take_turn(_: Bench) -> Figures:
            turns.append(name)
            rate = next(left)
            if rate is None:
                raise InvariantError("effects and events differ")
            return {"per_second": rate}

        return Subject(name=name, group="peers", title=name, setting="", measure=take_turn)

    subjects = [subject(name, rates) for name, rates in figures.items()]
    return Suite(name="made", about="", subjects=subjects, reference="a", seconds=1.0)


def test_subjects_take_turns_and_one_that_fails_stops_nobody() -> None:
    """A B A B: what the machine does meanwhile, it does to all; a failed run is named and has no figure."""
    turns: list[str] = []
    suite = suite_of(turns, a=[10.0, None, 30.0], b=[1.0, 2.0, 3.0])
    outcome = measure(suite, suite.subjects, NO_SERVER, rounds=3)
    assert turns == ["a", "b", "a", "b", "a", "b"]
    assert outcome.failures == ["made a: effects and events differ"]
    assert [run and run["per_second"] for run in outcome.runs["a"]] == [10.0, None, 30.0]
    assert "0.100 of a" in table(suite, suite.subjects, outcome)


def test_a_ratio_leaves_out_the_rounds_in_which_one_did_not_count() -> None:
    """Runs are compared with what ran beside them, never with another round."""
    ours: list[Figures | None] = [{"x": 10.0}, None, {"x": 40.0}]
    others: list[Figures | None] = [{"x": 1.0}, {"x": 2.0}, {"x": 8.0}]
    assert ratio(ours, others, "x") == Spread(7.5, 5.0, 10.0)
    assert ratio([None], [{"x": 1.0}], "x") is None


def test_a_figure_that_one_run_lacks_has_no_spread() -> None:
    """A median is never that of some of the runs."""
    assert spreads([{"x": 1.0, "y": 5.0}, None, {"x": 3.0}]) == {"x": Spread(2.0, 1.0, 3.0)}
    assert spreads([None]) == {}


def test_only_takes_names_and_groups_of_every_suite_and_refuses_others() -> None:
    """A misspelled subject is no empty measurement, and a suite that has none of those named is left out."""
    suites = [suite_of([], a=[], b=[]), suite_of([], c=[])]
    assert [[each.name for each in subjects] for _, subjects in choose(suites, ["b"])] == [["b"]]
    assert [[each.name for each in subjects] for _, subjects in choose(suites, ["peers"])] == [
        ["a", "b"],
        ["c"],
    ]
    assert choose(suites, []) == choose(suites, ["peers"])
    with pytest.raises(BenchmarkError, match="there is no d; there is a, b, c, peers"):
        choose(suites, ["a", "d"])


@pytest.mark.parametrize(
    ("value", "written"), [(0, "0"), (0.1234, "0.123"), (1.234, "1.23"), (12.34, "12.3"), (12345.6, "12,346")]
)
def test_numbers_are_written_with_three_digits(value: float, written: str) -> None:
    """No more digits than a measurement has."""
    assert number(value) == written
