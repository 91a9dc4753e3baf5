"""Give every subject its turn, round after round: what the machine does meanwhile, it does to all of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.harness.errors import BenchmarkError
from benchmarks.harness.figures import Figures, number, ratio, spreads
from benchmarks.harness.suite import Bench, Subject, Suite


@dataclass(slots=True)
class Outcome:
    """
    Hold what became of a suite.

    Attributes:
        runs: Of each subject, one entry a round; None for a run that did not count.
        failures: ``subject: why``.
    """

    runs: dict[str, list[Figures | None]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def choose(suites: Sequence[Suite], only: Sequence[str]) -> list[tuple[Suite, list[Subject]]]:
    """
    Give each suite with its subjects that *only* names, by name or group; all of them where it is empty.

    Raises:
        BenchmarkError: No suite has what *only* names.
    """
    known = {name for suite in suites for each in suite.subjects for name in (each.name, each.group)}
    if unknown := [each for each in only if each not in known]:
        raise BenchmarkError(f"there is no {', '.join(unknown)}; there is {', '.join(sorted(known))}")
    chosen = [
        (suite, [each for each in suite.subjects if not only or each.name in only or each.group in only])
        for suite in suites
    ]
    return [(suite, subjects) for suite, subjects in chosen if subjects]


def measure(suite: Suite, subjects: Sequence[Subject], bench: Bench, *, rounds: int) -> Outcome:
    """Measure *subjects* in turn, A B C A B C; a run that fails is reported, and the others go on."""
    outcome = Outcome({each.name: [] for each in subjects})
    for turn in range(1, rounds + 1):
        for subject in subjects:
            began = time.monotonic()
            figures: Figures | None = None
            try:
                figures = subject.measure(bench)
            except BenchmarkError as error:
                outcome.failures.append(f"{suite.name} {subject.name}: {error}")
                said = f"FAILED: {error}"
            else:
                said = _short(figures)
            outcome.runs[subject.name].append(figures)
            _tell(
                f"{suite.name} {turn}/{rounds} {subject.name:<18} {said} [{time.monotonic() - began:.0f} s]"
            )
    return outcome


def table(suite: Suite, subjects: Sequence[Subject], outcome: Outcome) -> str:
    """Draw the medians, with least and most, and the ratio to what each is compared with, in plain text."""
    lines = []
    for subject in subjects:
        found = spreads(outcome.runs[subject.name])
        if (head := found.pop(subject.headline, None)) is None:
            continue
        reference = subject.reference or suite.reference
        compared = ratio(outcome.runs[subject.name], outcome.runs.get(reference, ()), subject.headline)
        lines.append(
            f"{subject.name:<18} {number(head.median):>10} ({number(head.least)} - {number(head.most)})  "
            + (f"{number(compared.median):>6} of {reference}  " if compared else "")
            + _short({name: spread.median for name, spread in found.items()})
        )
    return "\n".join(lines)


def _short(figures: Figures) -> str:
    return " ".join(f"{name}={number(value)}" for name, value in figures.items())


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
