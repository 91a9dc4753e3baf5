"""Let 1 to 8 worker processes share a backlog, and let one event in a hundred fail, always."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.harness.suite import Suite
from benchmarks.process.contenders import OURS, Contender
from benchmarks.process.suite import subject

WORKERS = (1, 2, 4, 8)
FAILING_ONE_IN = 100


def _workers(contender: Contender) -> list[Contender]:
    return [
        replace(
            contender,
            name=f"{contender.name}-{count}",
            title=f"{contender.title}, {count} workers",
            workers=count,
        )
        for count in WORKERS
    ]


def _failing(contender: Contender) -> Contender:
    title = f"{contender.title}, 1 in {FAILING_ONE_IN} fails"
    return replace(contender, name=f"{contender.name}-failing", title=title, failing_one_in=FAILING_ONE_IN)


SUITE = Suite(
    name="scaling",
    about="our own worker: more processes on one backlog; one event in a hundred that always fails; effects per second",
    subjects=[subject(each) for one in OURS for each in (*_workers(one), _failing(one))],
    reference="ours-async-1",
    seconds=0.0,
)
