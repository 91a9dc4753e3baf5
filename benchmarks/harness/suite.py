"""Say what a suite is: subjects that are measured in turn, on one server, under the same conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.harness.figures import Figures
from benchmarks.harness.server import Server


@dataclass(frozen=True, slots=True)
class Bench:
    """
    Hold the conditions of a run.

    Attributes:
        server: Serves a new database to each run.
        seconds: How long a run measures, warm-up not counted.
        quick: Whether the run only has to show that everything works.
    """

    server: Server
    seconds: float
    quick: bool


#: Makes one run, checks its invariant, and gives its figures; raises BenchmarkError where it does not count.
Measure: TypeAlias = Callable[[Bench], Figures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """
    Hold one thing that is measured.

    Attributes:
        name: What ``--only`` calls it.
        group: What ``--only`` calls it and its like: ``ours``, ``peers``, ``limits``.
        title: What a table calls it.
        setting: How it is set up, and where its own documentation says so.
        measure: Makes one run.
        headline: The figure that its suite compares.
        reference: The subject that it is divided by, where that is another than the suite's.
    """

    name: str
    group: str
    title: str
    setting: str
    measure: Measure
    headline: str = "per_second"
    reference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """
    Hold a suite.

    Attributes:
        name: What the command line calls it.
        about: One line on what is measured.
        subjects: In the order in which they take their turns.
        reference: The subject that the others are divided by.
        seconds: What a run measures by default; 0 where a run ends by itself.
    """

    name: str
    about: str
    subjects: Sequence[Subject]
    reference: str
    seconds: float
