"""What a newcomer is told of the house is how it is."""

from __future__ import annotations

import re
import tomllib

from tests.repo.tree import ROOT, tracked_files, tracked_texts


def rooms() -> list[str]:
    """The rooms of the import contract that there are, layer by layer, as CONTRIBUTING.md writes them."""
    source = ROOT / "src" / "webhook_inbox"
    there = {
        path.relative_to(source).parts[0].removesuffix(".py")
        for path in tracked_files()
        if source in path.parents
    }
    contracts = tomllib.loads(tracked_texts()["pyproject.toml"])["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "rooms")
    named = (" · ".join(room for room in re.findall(r"\w+", layer) if room in there) for layer in layers)
    return [layer for layer in named if layer]


def test_the_rooms_are_those_of_the_import_contract() -> None:
    """In the same order, and none that is not there; what the contract allows to be missing, and is, is left out."""
    shown = re.search(r"```\n(alembic.*?)\n```", tracked_texts()["CONTRIBUTING.md"], re.DOTALL)
    assert shown, "the line that shows the rooms"
    assert re.split(r"\s*>\s*", shown[1]) == rooms()


def test_every_command_it_names_is_there() -> None:
    """``make check`` and the like are targets of the Makefile."""
    text = tracked_texts()["CONTRIBUTING.md"]
    targets = set(re.findall(r"^([a-z]+):", tracked_texts()["Makefile"], re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)\b", " ".join(re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL))))
    assert {"check", "test", "mutate"} <= named <= targets
