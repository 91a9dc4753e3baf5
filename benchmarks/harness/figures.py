"""Make one figure of several runs: the median, with the least and the most beside it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

#: What one run of one subject came to, by the figure's name, which ends in its unit.
Figures: TypeAlias = Mapping[str, float]


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
    """Write *value* with three digits or more."""
    places = next((places for places, least in enumerate((100, 10, 1)) if abs(value) >= least), 3)
    return f"{value:,.{places}f}"


def spreads(runs: Sequence[Figures]) -> dict[str, Spread]:
    """Give the spread of each figure that every run has."""
    names = [name for name in runs[0] if all(name in run for run in runs)] if runs else []
    return {name: Spread.of(run[name] for run in runs) for name in names}


def ratio(runs: Sequence[Figures], others: Sequence[Figures], name: str) -> Spread:
    """
    Compare two subjects round by round: *runs* divided by *others*.

    Only what ran in the same round met the same machine; the ratio of two medians would compare different minutes.
    """
    return Spread.of(run[name] / other[name] for run, other in zip(runs, others, strict=False) if other[name])
