"""Somebody else can repeat what was measured: the versions are exact, and the documented commands exist."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from packaging.requirements import Requirement

from benchmarks.__main__ import SUITES, load_suite, parser
from benchmarks.harness.environments import PACKAGE_JSON, REQUIREMENTS
from benchmarks.harness.processes import ROOT
from benchmarks.harness.rounds import choose

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks" / "report" / "page.py"]
COMMANDS = sorted(
    {
        command
        for page in PAGES
        for command in re.findall(r'`make bench(?: ARGS="?([^"`]*)"?)?`', page.read_text(encoding="utf-8"))
    }
)


def peers() -> dict[str, str]:
    """Give the version of each Python peer; fails where one is not exact."""
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#")]
    found = {}
    for each in map(Requirement, lines):
        (pin,) = each.specifier
        assert pin.operator == "=="
        found[each.name.lower()] = pin.version
    return found


def test_what_peers_and_project_both_need_has_one_version() -> None:
    """Nobody is faster for a newer driver or server."""
    pinned = dict(line.lower().split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    shared = {name: version for name, version in peers().items() if name in pinned}
    assert {"psycopg", "psycopg-pool", "uvicorn", "uvloop", "httptools", "fastapi"} <= set(shared)
    assert shared == {name: pinned[name] for name in shared}


def test_node_peers_are_pinned_exactly_and_no_lock_file_names_a_registry() -> None:
    """The versions are exact, from whatever registry."""
    versions = json.loads(PACKAGE_JSON.read_text())["dependencies"].values()
    assert [each for each in versions if not re.fullmatch(r"\d+\.\d+\.\d+", each)] == []
    assert list(PACKAGE_JSON.parent.glob("*lock*")) == []


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_has_unique_names_and_a_reference_among_them(name: str) -> None:
    """Every subject can be named, and is compared with one that is measured beside it."""
    suite = load_suite(name)
    names = [each.name for each in suite.subjects]
    assert suite.name == name
    assert len(set(names)) == len(names)
    assert {each.reference or suite.reference for each in suite.subjects} <= set(names)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_documented_command_measures_something(command: str) -> None:
    """Suites and subjects that the documentation names are there."""
    given = parser().parse_args(shlex.split(command))
    assert choose([load_suite(name) for name in given.suites or SUITES], given.only)


def test_there_are_documented_commands() -> None:
    """The pattern above finds what it is for."""
    assert len(COMMANDS) >= 3
