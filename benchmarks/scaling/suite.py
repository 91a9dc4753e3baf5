"""Let 1 to 8 worker processes share a backlog; let one event in a hundred fail, always."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.harness.suite import Suite
from benchmarks.process.contenders import OURS, Contender
from benchmarks.process.suite import subject

WORKERS = (2, 4, 8)
#: Kinds of handler for which more workers are tried; how failing events tell is tried for each kind.
SHARED = ("ours-async", "ours-sync-pipeline", "ours-set")
FAILING_ONE_IN = 100


def _variants(contender: Contender) -> Iterator[Contender]:
    name, title = contender.name, contender.title
    yield replace(contender, name=f"{name}-1", title=f"{title}, 1 worker")
    yield replace(
        contender,
        name=f"{name}-failing",
        title=f"{title}, 1 in {FAILING_ONE_IN} fails",
        failing_one_in=FAILING_ONE_IN,
    )
    for count in WORKERS if name in SHARED else ():
        yield replace(contender, name=f"{name}-{count}", title=f"{title}, {count} workers", workers=count)


SUITE = Suite(
    name="scaling",
    about="our own worker: more processes on one backlog, and events that always fail; effects per second",
    subjects=[subject(each) for one in OURS for each in _variants(one)],
    reference="ours-async-1",
    seconds=0.0,
)
