"""Read the results back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from benchmarks.harness.figures import Runs, Spread, ratio, spreads

RESULTS = Path(__file__).parents[1] / "results.json"


@dataclass(frozen=True)
class Measured:
    """Hold one subject and its runs; see ``harness.suite.Subject``."""

    name: str
    group: str
    title: str
    setting: str
    headline: str
    reference: str
    runs: Runs

    @cached_property
    def spreads(self) -> Mapping[str, Spread]:
        """Give each figure of its runs."""
        return spreads(self.runs)

    @property
    def head(self) -> Spread:
        """Give the figure that its suite compares."""
        return self.spreads[self.headline]

    def median(self, figure: str) -> float | None:
        """Give the median of *figure*, None where it was not measured."""
        found = self.spreads.get(figure)
        return None if found is None else found.median


@dataclass(frozen=True)
class Measurement:
    """
    Hold one suite's results.

    Attributes:
        conditions: When, of which commit, on what machine, server and versions.
    """

    about: str
    seconds: float
    subjects: Mapping[str, Measured]
    conditions: Mapping[str, Any]

    def of(self, *groups: str) -> list[Measured]:
        """Give the subjects of *groups*, or all of them."""
        return [each for each in self.subjects.values() if not groups or each.group in groups]

    def ratio(self, name: str, other: str, figure: str = "per_second") -> Spread | None:
        """Compare two subjects round by round; None where one of them was not measured."""
        if name not in self.subjects or other not in self.subjects:
            return None
        return ratio(self.subjects[name].runs, self.subjects[other].runs, figure)

    def best(self, names: Sequence[str]) -> str:
        """Give whichever of *names* has the highest headline; empty where none was measured."""
        there = [each for each in names if each in self.subjects]
        return max(there, key=lambda name: self.subjects[name].head.median, default="")

    @property
    def rounds(self) -> int:
        """Give the number of rounds."""
        return max((len(each.runs) for each in self.subjects.values()), default=0)


@dataclass(frozen=True)
class Results:
    """Hold all suites that were measured, by name."""

    suites: Mapping[str, Measurement]

    @classmethod
    def read(cls, file: Path = RESULTS) -> Self:
        """Read *file*; a subject without a run that counted is left out."""
        return cls(
            {name: _measurement(part) for name, part in json.loads(file.read_text())["suites"].items()}
        )


def _measurement(part: dict[str, Any]) -> Measurement:
    subjects = {name: Measured(name=name, **given) for name, given in part["subjects"].items()}
    conditions = {name: part[name] for name in ("measured_at", "commit", "machine", "postgres", "versions")}
    counted = {name: each for name, each in subjects.items() if each.headline in each.spreads}
    return Measurement(part["about"], part["seconds"], counted, conditions)
