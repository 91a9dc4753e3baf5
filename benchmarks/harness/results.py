"""Keep what was measured as JSON, so that the page is drawn from it and nothing is copied by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import commit, machine
from benchmarks.harness.rounds import Outcome
from benchmarks.harness.server import Server
from benchmarks.harness.suite import Suite
from benchmarks.harness.versions import versions


def describe(server: Server) -> dict[str, Any]:
    """Give what every result needs to be understood: when, what, on what."""
    return {
        "measured_at": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
        "commit": commit(),
        "machine": machine(),
        "postgres": server.settings(),
        "versions": versions(),
    }


def suite_results(suite: Suite, outcome: Outcome, *, seconds: float) -> dict[str, Any]:
    """Give one suite's part: each subject with its setting and the figures of each of its runs."""
    return {
        "about": suite.about,
        "seconds": seconds,
        "failures": outcome.failures,
        "subjects": {
            each.name: {
                "group": each.group,
                "title": each.title,
                "setting": each.setting,
                "headline": each.headline,
                "reference": each.reference or suite.reference,
                "runs": outcome.runs[each.name],
            }
            for each in suite.subjects
            if outcome.runs.get(each.name)
        },
    }


def merge(file: Path, description: dict[str, Any], suites: dict[str, Any]) -> None:
    """Write *suites* into *file*; those that were not measured now stay, with their own description."""
    kept = json.loads(file.read_text())["suites"] if file.exists() else {}
    fresh = {name: {**part, **description} for name, part in suites.items()}
    file.write_text(json.dumps({"suites": {**kept, **fresh}}, indent=1, sort_keys=False) + "\n")
