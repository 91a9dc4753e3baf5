"""Let every queue run handlers that do nothing: what is left is the queue itself."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.harness.suite import Suite
from benchmarks.process.contenders import CONTENDERS
from benchmarks.process.suite import subject

SUITE = Suite(
    name="overhead",
    about="queued events, handlers that do nothing, one worker process; runs per second",
    subjects=[subject(replace(each, business=False)) for each in CONTENDERS],
    reference="pgqueuer",
    seconds=0.0,
)
