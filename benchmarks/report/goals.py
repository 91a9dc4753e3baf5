"""Hold what was aimed at against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from benchmarks.harness.figures import Spread, number
from benchmarks.process.contenders import OURS, PEERS
from benchmarks.report.data import Measurement, Results

ONE_BY_ONE = tuple(each.name for each in OURS if not each.batch)
QUEUES = tuple(each.name for each in PEERS if not each.batch)
PYTHON_QUEUES = tuple(each.name for each in PEERS if each.runtime == "python")


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """
    Hold one goal.

    Attributes:
        what: What is compared.
        bound: What the median is to reach, or not to pass.
        kind: Which of the two.
        measured: None where it was not measured.
    """

    what: str
    kind: Literal["at least", "at most"]
    bound: float
    measured: Spread | None

    @property
    def row(self) -> str:
        """Give its row of the table."""
        if self.measured is None:
            return f"| {self.what} | {self.kind} {self.bound:g} | not measured | |"
        median = self.measured.median
        met = median >= self.bound if self.kind == "at least" else median <= self.bound
        spread = f"{number(median)} ({number(self.measured.least)} to {number(self.measured.most)})"
        return f"| {self.what} | {self.kind} {self.bound:g} | {spread} | {'yes' if met else 'no'} |"


def goals(results: Results) -> Iterator[Goal]:
    """Give every goal, in the order of an event's life."""
    for name, found in _PARTS.items():
        suite = results.suites.get(name, _NOTHING)
        yield from found(suite, results)


def _receive(suite: Measurement, _: Results) -> Iterator[Goal]:
    for what, other, bound in (
        ("the HTTP limit", "http_limit", 0.5),
        ("FastAPI, the usual recipe", "fastapi_threads", 15),
        ("FastAPI, careful", "fastapi_async", 4),
    ):
        found = suite.ratio("queued", other)
        yield Goal(what=f"receive, queued: rate, of {what}", kind="at least", bound=bound, measured=found)
    yield Goal(
        what="receive, queued: p99, of FastAPI, careful",
        kind="at most",
        bound=0.25,
        measured=suite.ratio("queued", "fastapi_async", "p99_ms"),
    )


def _process(suite: Measurement, results: Results) -> Iterator[Goal]:
    ours = suite.best(ONE_BY_ONE)
    for what, queues, bound in (
        ("the best queue in any language", QUEUES, 2),
        ("the best queue in Python", PYTHON_QUEUES, 3),
    ):
        found = suite.ratio(ours, suite.best(queues))
        yield Goal(what=f"process: rate, of {what}", kind="at least", bound=bound, measured=found)
    yield Goal(
        what="process, set-based: rate, of the same SQL driven by pgbench (medians of two suites)",
        kind="at least",
        bound=0.7,
        measured=_across(suite, "ours-set", results.suites.get("limits", _NOTHING), "process_100_rows"),
    )


def _scaling(suite: Measurement, _: Results) -> Iterator[Goal]:
    best = suite.best([f"{name}-1" for name in ONE_BY_ONE]).removesuffix("-1")
    yield Goal(
        what="process, 1 % of the events fail: rate, of none failing",
        kind="at least",
        bound=0.9,
        measured=suite.ratio(f"{best}-failing", f"{best}-1"),
    )


def _across(suite: Measurement, name: str, other: Measurement, other_name: str) -> Spread | None:
    """Compare what did not run in the same rounds: median to median."""
    if name not in suite.subjects or other_name not in other.subjects:
        return None
    return Spread.of([suite.subjects[name].head.median / other.subjects[other_name].head.median])


def _latency(suite: Measurement, _: Results) -> Iterator[Goal]:
    apart = suite.subjects.get("apart")
    for percentile, bound in (("p50", 10), ("p99", 50)):
        measured = apart.spreads[f"{percentile}_commits"] if apart else None
        what = f"from the 200 to the effect, idle: {percentile}, in commits"
        yield Goal(what=what, kind="at most", bound=bound, measured=measured)


def _growth(suite: Measurement, _: Results) -> Iterator[Goal]:
    for what, name, bound in (
        ("with 10 million processed events", "claims_10_million", 1.5),
        ("under an hour-old open transaction", "claims_hour_open", 3),
    ):
        found = suite.ratio(name, "claims_none", "claim_p99_ms")
        yield Goal(what=f"claim: p99 {what}, of that with none", kind="at most", bound=bound, measured=found)
    stored = suite.subjects.get("event_stored")
    dead = stored.spreads["dead_rows"] if stored else None
    yield Goal(what="one event, received and processed: dead rows", kind="at most", bound=2, measured=dead)
    yield Goal(
        what="one event, received and processed: write-ahead log, of the bytes alone",
        kind="at most",
        bound=1.6,
        measured=suite.ratio("event_stored", "bytes_alone", "wal_bytes"),
    )


_NOTHING = Measurement("", 0.0, {}, {})
_PARTS: dict[str, Callable[[Measurement, Results], Iterator[Goal]]] = {
    "receive": _receive,
    "process": _process,
    "scaling": _scaling,
    "latency": _latency,
    "growth": _growth,
}
