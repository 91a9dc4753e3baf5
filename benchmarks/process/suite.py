"""Turn the contenders into the suite that the command line knows: recorded to effect, one worker process."""

from __future__ import annotations

from benchmarks.harness.figures import Figures
from benchmarks.harness.suite import Bench, Measure, Subject, Suite
from benchmarks.process.contenders import CONTENDERS, Contender
from benchmarks.process.drain import drain

QUICK_JOBS = 500


def _measure(contender: Contender) -> Measure:
    def measure(bench: Bench) -> Figures:
        return drain(
            contender, bench.server, jobs=min(contender.jobs, QUICK_JOBS) if bench.quick else contender.jobs
        )

    return measure


SUITE = Suite(
    name="process",
    about="queued events, three business statements in one transaction each, one worker process; effects per second",
    subjects=[
        Subject(
            name=each.name,
            group="ours" if each.runtime == "project" else "peers",
            title=each.title,
            setting=each.setting,
            measure=_measure(each),
        )
        for each in CONTENDERS
    ],
    reference="pgqueuer",
    seconds=0.0,
)
