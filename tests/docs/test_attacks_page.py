"""The page on attacks names tests that there are, and with each row the promises that these hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "attacks.md").read_text(encoding="utf-8")
TAG = re.compile(r"\bP-[A-Z]{2,6}\b")


@dataclass(frozen=True)
class Attack:
    """One row; *tests*: (file below ``tests``, name) of each that tries it."""

    name: str
    answer: str
    promises: frozenset[str]
    tests: tuple[tuple[str, str], ...]


def attacks() -> list[Attack]:
    """Read the page's rows."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    return [
        Attack(name, answer, frozenset(TAG.findall(promises)), tuple(re.findall(r"`([^`:]+)::(\w+)`", shown)))
        for name, answer, promises, shown in rows
        if "::" in shown
    ]


def docstring(file: str, test: str) -> str:
    """What a test says that it holds."""
    found = re.search(
        rf'^def {test}\([^"]*?"""(.*?)"""',
        (ROOT / "tests" / file).read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert found is not None, f"{file} has no {test}"
    return found[1]


ATTACKS = attacks()


def test_no_row_is_passed_over() -> None:
    """A row without a test would be a claim, and one that is not read would be one, too."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    heads = [line for line in lines if line.startswith(("| what is tried", "| ---"))]
    assert len(ATTACKS) == len(lines) - len(heads) >= 30


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name[:40])
def test_each_attack_is_tried_by_tests_that_hold_its_promises(attack: Attack) -> None:
    """The promises of a row are those that its tests name; each row has one."""
    said = " ".join(docstring(*test) for test in attack.tests)
    assert attack.promises == set(TAG.findall(said))
    assert attack.promises
