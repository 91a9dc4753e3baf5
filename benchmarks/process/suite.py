"""Turn the contenders into the suite that the command line knows: recorded to effect, one worker process."""

from __future__ import annotations

from benchmarks.harness.figures import Figures
from benchmarks.harness.suite import Bench, Measure, Subject, Suite
from benchmarks.process.contenders import CONTENDERS, Contender
from benchmarks.process.drain import drain

QUICK_JOBS = 500


def subject(contender: Contender) -> Subject:
    """Give what the harness runs in turn: one drain."""
    return Subject(
        name=contender.name,
        group="ours" if contender.runtime == "project" else "peers",
        title=contender.title,
        setting=contender.setting,
        measure=_measure(contender),
    )


def _measure(contender: Contender) -> Measure:
    def measure(bench: Bench) -> Figures:
        jobs = min(contender.jobs, QUICK_JOBS) if bench.quick else contender.jobs
        return drain(contender, bench.server, jobs=jobs)

    return measure


SUITE = Suite(
    name="process",
    about="queued events, three business statements in one transaction each, one worker process; effects per second",
    subjects=[subject(each) for each in CONTENDERS],
    reference="pgqueuer",
    seconds=0.0,
)
