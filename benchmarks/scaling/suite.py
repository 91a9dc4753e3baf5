"""Let 1 to 8 worker processes share a backlog; let one event in a hundred fail, always."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.harness.suite import Suite
from benchmarks.process.contenders import FAILING, OURS, Contender
from benchmarks.process.suite import subject

WORKERS = (1, 2, 4, 8)


def _workers(contender: Contender, count: int) -> Contender:
    title = f"{contender.title}, {count} worker{'' if count == 1 else 's'}"
    return replace(contender, name=f"{contender.name}-{count}", title=title, workers=count)


def _failing(contender: Contender) -> Contender:
    title = f"{contender.title}, 1 in {FAILING.failing_one_in} fails"
    failing_one_in = FAILING.failing_one_in
    return replace(contender, name=f"{contender.name}-failing", title=title, failing_one_in=failing_one_in)


SUITE = Suite(
    name="scaling",
    about="our own worker: more processes on one backlog, and events that always fail; effects per second",
    subjects=[
        subject(each) for one in OURS for each in (*(_workers(one, n) for n in WORKERS), _failing(one))
    ],
    reference="ours-async-1",
    seconds=0.0,
)
