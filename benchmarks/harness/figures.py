"""Make one figure of several runs: the median, with the least and the most beside it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

#: What one run of one subject came to, by the figure's name, which ends in its unit.
Figures: TypeAlias = Mapping[str, float]
#: The runs of one subject, one a round; None where a run did not count.
Runs: TypeAlias = Sequence[Figures | None]


@dataclass(frozen=True, slots=True)
class Spread:
    """Hold the median of several runs, the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Take at least one value."""
        sorted_values = sorted(values)
        return cls(statistics.median(sorted_values), sorted_values[0], sorted_values[-1])


def number(value: float) -> str:
    """Write *value* with three digits or more, zero as ``0``."""
    if value == 0:
        return "0"
    places = next((places for places, least in enumerate((100, 10, 1)) if abs(value) >= least), 3)
    return f"{value:,.{places}f}"


def spreads(runs: Runs) -> dict[str, Spread]:
    """Give the spread of each figure that every run which counted has."""
    counted = [run for run in runs if run is not None]
    names = [name for name in counted[0] if all(name in run for run in counted)] if counted else []
    return {name: Spread.of(run[name] for run in counted) for name in names}


def ratio(runs: Runs, others: Runs, name: str) -> Spread | None:
    """
    Compare two subjects round by round: *runs* divided by *others*; None where no round has both.

    Only what ran in the same round met the same machine; the ratio of two medians would compare different minutes.
    """
    pairs = ((run, other) for run, other in zip(runs, others, strict=False) if run and other)
    ratios = [run[name] / other[name] for run, other in pairs if name in run and other.get(name)]
    return Spread.of(ratios) if ratios else None
