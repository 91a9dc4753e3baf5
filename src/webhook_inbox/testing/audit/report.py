"""
Tell what an audit found: to people, to programs, to JUnit.

The grade is a rule, not an opinion:

    A   every check that applies passed, and every critical one was tried
    B   as A, but something minor failed, or something critical was not tried
    C   one serious check failed
    D   several serious checks failed
    F   a critical check failed: events are lost, doubled or forged
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from webhook_inbox.testing.audit.verdict import Check, State, Verdict, Weight
from webhook_inbox.testing.junit import Case, suite

Grade: TypeAlias = Literal["A", "B", "C", "D", "F"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    Say what came of an audit.

    Attributes:
        verdicts: Of each check, in the order in which they ran.
        seed: Of ids and choices.
        marked: What the texts of its events' ids have in them, so that the owner can delete them.
        requests: How many were sent.
    """

    verdicts: Mapping[Check, Verdict]
    seed: int
    marked: str
    requests: int
    seconds: float

    @property
    def grade(self) -> Grade:
        """Give the grade; the rule stands above."""
        if self._count("failed", "critical"):
            return "F"
        serious = self._count("failed", "serious")
        if serious:
            return "C" if serious == 1 else "D"
        return "B" if self._count("failed", "minor") or self._count("untried", "critical") else "A"

    @property
    def good(self) -> bool:
        """Say whether nothing critical or serious was found."""
        return self.grade in {"A", "B"}

    def failed(self) -> list[str]:
        """Name the checks that failed."""
        return [check.id for check, verdict in self.verdicts.items() if verdict.state == "failed"]

    def mistakes(self) -> list[str]:
        """Name the well-known mistakes that were seen, each once."""
        found = [check.mistake for check, verdict in self.verdicts.items() if verdict.state == "failed"]
        return [name for name in dict.fromkeys(found) if name]

    def lines(self) -> Iterator[str]:
        """Give it for people: what failed with why and what to do, the rest in a line each."""
        left_out: dict[str, list[str]] = {}
        for check, verdict in self.verdicts.items():
            if verdict.state in {"passed", "failed"}:
                yield f"{'ok' if verdict.state == 'passed' else 'FAIL':<4} {check.id}: {verdict.saw}"
            else:
                left_out.setdefault(f"{_TOTALS[verdict.state]} ({verdict.saw})", []).append(check.id)
            if verdict.state == "failed":
                yield f"       {check.weight}: a sound receiver {check.title}"
                yield f"       why: {check.why}"
                yield f"       do:  {check.remedy}"
        for why, names in left_out.items():
            yield f"-    {why}: {', '.join(names)}"
        states = [verdict.state for verdict in self.verdicts.values()]
        counts = ", ".join(
            f"{states.count(state)} {word}" for state, word in _TOTALS.items() if state in states
        )
        yield f"grade {self.grade}: {counts}; {self.requests} requests in {self.seconds:.1f} s, seed {self.seed}"
        if mistakes := self.mistakes():
            yield f"the mistake is known as: {', '.join(mistakes)}"
        yield f"its events have {self.marked} in their ids (a UUID begins with a0d17, a number with 9)"

    def as_json(self) -> dict[str, Any]:
        """Give it as what JSON can hold."""
        checks = [
            {
                "check": check.id,
                "weight": check.weight,
                "state": verdict.state,
                "saw": verdict.saw,
                "why": check.why,
                "remedy": check.remedy,
            }
            for check, verdict in self.verdicts.items()
        ]
        return {
            "grade": self.grade,
            "good": self.good,
            "mistakes": self.mistakes(),
            "seed": self.seed,
            "marked": self.marked,
            "requests": self.requests,
            "seconds": round(self.seconds, 1),
            "checks": checks,
        }

    def as_junit(self) -> str:
        """Give it as JUnit's XML, a test case for each check."""
        return suite(
            "webhook-inbox audit", [_case(check, verdict) for check, verdict in self.verdicts.items()]
        )

    def _count(self, state: State, weight: Weight) -> int:
        return sum(
            verdict.state == state and check.weight == weight for check, verdict in self.verdicts.items()
        )


_TOTALS: Mapping[State, str] = {
    "failed": "failed",
    "passed": "passed",
    "untried": "not tried",
    "inapplicable": "not applicable",
}


def _case(check: Check, verdict: Verdict) -> Case:
    match verdict.state:
        case "failed":
            return Case(check.id, failure=f"{check.weight}: {verdict.saw}. {check.why} {check.remedy}")
        case "passed":
            return Case(check.id)
        case _:
            return Case(check.id, skipped=verdict.saw)
