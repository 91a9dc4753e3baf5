"""Write the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.figures import Spread, number
from benchmarks.report.data import Measured, Measurement, Results
from benchmarks.report.goals import goals
from benchmarks.report.sections import SECTIONS, Part, Section

PAGE = Path("docs/explanation/performance.md")
PLOTS = "performance"
_HEAD = """# Performance

<!-- Drawn by `python -m benchmarks.report` from benchmarks/results.json; a change here is lost. -->

How fast it is beside what else could be picked, measured side by side on one machine and one PostgreSQL with
default, durable settings. **The ratios are the result.** Absolute figures only show the scale of the machine, on
which load, application and database share the processors; a difference under 15 % means nothing.

`make bench ARGS="--json benchmarks/results.json"` repeats all of it, `make bench ARGS="receive --only ours http_limit"`
a part, and `make bench ARGS=--quick` shows in minutes that everything runs. The load comes from wrk, which Debian has
as a package; `python -m benchmarks.report` draws this page. Where an aim is missed, [why](distance.md).
"""
_METHOD = """## How it is measured

- **Interleaved.** Every subject has its turn in every round; figures are medians, with the lowest and the highest
  run, and a ratio is taken within a round, never between medians of different minutes.
- **The same for all.** One PostgreSQL with `initdb`'s settings (`fsync` and `synchronous_commit` on), a new
  database for each run, written to disk before it; Stripe's events as Stripe writes them, 3.4 KB, each signed and
  with an id of its own, prepared before the clock runs.
- **Each at its best.** Peers live in an environment of their own with pinned versions, set up as their own
  documentation advises; the setting stands beside each result.
- **Correct, or it does not count.** After each run the rows are compared with the answers, and the effects with the
  events. A run in which they differ is no result.
"""


def render(results: Results) -> dict[str, str]:
    """Give every file of the page by its path below the project: the page and its plots."""
    files: dict[str, str] = {}
    sections = [
        _section(section, results.suites[section.suite], files)
        for section in SECTIONS
        if section.suite in results.suites
    ]
    parts = [_HEAD, _goals(results), *sections, _METHOD, *_conditions(results)]
    files[PAGE.as_posix()] = "\n".join(parts)
    return files


def _goals(results: Results) -> str:
    rows = [goal.row for goal in goals(results)]
    return "\n".join(
        ("## Aims", "", "| what | aim | measured | met |", "| --- | --- | --- | --- |", *rows, "")
    )


def _section(section: Section, suite: Measurement, files: dict[str, str]) -> str:
    lines = [f"## {section.heading}", "", section.text, ""]
    for part in section.parts:
        subjects = suite.of(*part.groups)
        if not subjects:
            continue
        lines += [*_table(part, subjects, suite), ""]
        for plot in part.plots:
            if drawn := plot.draw(plot.title, suite):
                files[f"{PAGE.parent}/{PLOTS}/{plot.file}.svg"] = drawn
                lines += [f"![{plot.title}]({PLOTS}/{plot.file}.svg)", ""]
    lines += [*_settings(suite), ""]
    rounds = f"{suite.rounds} rounds" if suite.rounds > 1 else "one round, which proves no figure"
    lines += [
        f"{rounds.capitalize()}, {suite.conditions['measured_at']}, commit {suite.conditions['commit']}.",
        "",
    ]
    return "\n".join(lines)


def _table(part: Part, subjects: list[Measured], suite: Measurement) -> Iterator[str]:
    columns = [
        (name, heading) for name, heading in part.columns if any(name in each.spreads for each in subjects)
    ]
    headings = [
        "",
        part.headline,
        *([part.ratio] if part.ratio else []),
        *(heading for _, heading in columns),
    ]
    yield f"| {' | '.join(headings)} |"
    yield f"|{' --- |' * len(headings)}"
    for each in subjects:
        cells = [f"**{each.title}**" if each.group == "ours" else each.title, _spread(each.head)]
        if part.ratio:
            compared = suite.ratio(each.name, each.reference, each.headline)
            cells.append(_spread(compared) if compared else "")
        for name, _ in columns:
            median = each.median(name)
            cells.append("" if median is None else number(median))
        yield f"| {' | '.join(cells)} |"


def _spread(spread: Spread) -> str:
    if spread.least == spread.most:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.least)} to {number(spread.most)})"


def _settings(suite: Measurement) -> Iterator[str]:
    by_setting: dict[str, list[str]] = {}
    for each in suite.subjects.values():
        by_setting.setdefault(each.setting, []).append(each.title)
    yield "| | how it is set up |"
    yield "| --- | --- |"
    for setting, titles in by_setting.items():
        yield f"| {'; '.join(titles)} | {setting} |"


def _conditions(results: Results) -> Iterator[str]:
    """Say on what everything ran, as the suite that was measured last has it."""
    conditions = [each.conditions for each in results.suites.values()]
    latest = max(conditions, key=lambda each: str(each["measured_at"]))
    machine, postgres = latest["machine"], dict(latest["postgres"])
    yield "## What it ran on\n"
    yield (
        f"{machine['processors']} processors ({machine['processor']}), {machine['memory_gib']} GiB, "
        f"{machine['system']}, kernel {machine['kernel']}, Python {machine['python']}, "
        f"PostgreSQL {postgres.pop('server_version')}.\n"
    )
    loads = [f"{name} {load}" for name, each in results.suites.items() if (load := _load(each.conditions))]
    if loads:
        yield (
            "Other work was on the machine where the load before a suite (of 1, 5 and 15 minutes) is not near 0: "
            f"{'; '.join(loads)}.\n"
        )
    yield f"PostgreSQL: {', '.join(f'`{name}` {value}' for name, value in postgres.items())}.\n"
    versions = latest["versions"]
    yield f"Ours: {_versions(versions['project'])}.\n"
    yield f"Peers: {_versions({**versions['peers'], **versions['node']})}.\n"


def _versions(found: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _load(conditions: Mapping[str, Any]) -> str:
    return str(conditions["machine"].get("load_before", ""))
