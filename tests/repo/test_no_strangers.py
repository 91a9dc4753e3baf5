"""Keep out of the repository what does not belong to it, and in it what a clone needs."""

from __future__ import annotations

import codecs
import re
import tomllib
from importlib.resources import files

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.repo.tree import ROOT, tracked_files, tracked_texts

LINES_MAX = 400
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!]+")
MACHINE_PATH = re.compile(r"(?<![\w.:/-])/(?:work|root|home|Users)/\w")
# How the work was made is nobody's business here. In rot13, so that this file does not find itself.
FORBIDDEN = [
    codecs.decode(word, "rot13") for word in ("PRB", "fhontrag", "guvf frffvba", "Pynhqr", "PungTCG")
]


def hits(pattern: re.Pattern[str]) -> list[str]:
    """Give ``file:line: text`` for each tracked line that *pattern* matches."""
    return [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in tracked_texts().items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def canonical(name: str) -> str:
    """Give the one spelling of a distribution's name that indexes agree on."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, Version]:
    """Give the version that ``constraints.txt`` pins for each distribution."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonical(name): Version(version) for name, version in (line.split("==") for line in lines)}


def declared() -> list[Requirement]:
    """Give every requirement of ``pyproject.toml``: core, build backend, and extras but for our own."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    texts = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(text for extra in project["project"]["optional-dependencies"].values() for text in extra),
    ]
    return [each for each in map(Requirement, texts) if each.name != "webhook-inbox"]


def test_no_tracked_file_names_a_path_of_one_machine() -> None:
    """A path under somebody's home works for nobody else."""
    assert hits(MACHINE_PATH) == []


@pytest.mark.parametrize("word", FORBIDDEN, ids=range(len(FORBIDDEN)))
def test_no_tracked_file_tells_how_it_was_made(word: str) -> None:
    """The repository speaks about webhooks, not about its making."""
    assert hits(re.compile(rf"\b{re.escape(word)}\b")) == []


def test_constraints_are_plain_sorted_pins_without_any_address() -> None:
    """The constraints work with every package index: name and version, no host, no hash, no path."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not PIN.fullmatch(line)] == []
    assert lines == sorted(lines, key=str.lower)


def test_every_declared_dependency_is_pinned_inside_its_range() -> None:
    """What pyproject.toml allows and what constraints.txt installs cannot drift apart."""
    pinned = pins()
    unpinned = [str(each) for each in declared() if canonical(each.name) not in pinned]
    assert unpinned == []
    wrong = [str(each) for each in declared() if pinned[canonical(each.name)] not in each.specifier]
    assert wrong == []


def test_licence_and_type_marker_are_there() -> None:
    """A user may use it, and a type checker may read it."""
    assert (ROOT / "LICENSE").read_text().lstrip().startswith("Apache License")
    assert (files("webhook_inbox") / "py.typed").is_file()


def test_no_source_file_outgrows_its_room() -> None:
    """Past 400 lines a file has a second noun inside."""
    sources = [path for path in tracked_files() if path.is_relative_to(ROOT / "src")]
    assert sources
    grown = {path.name: len(path.read_bytes().splitlines()) for path in sources}
    assert {name: lines for name, lines in grown.items() if lines >= LINES_MAX} == {}
