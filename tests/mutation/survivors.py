"""
Keep the list of mutants that no test notices, and know which code it speaks about.

The list of a folder (``survivors_sources.txt``, ``survivors_protocol.txt``) is text that people read and complete. It
opens with a fingerprint of every file that is mutated, so that a change of code without a new run is noticed in
seconds; then one block for each survivor::

    webhook_inbox.sources.signature.only_header
    - if len(values) > 1:
    + if len(values) > 2:
    = why a program with this change is as good as ours

A survivor is known by its function and its changed lines, not by mutmut's number, which moves with every edit.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("sources", "protocol")
KILLED_PERCENT_MIN = 90
NO_REASON = "not judged yet"

_HEADER = """\
# Mutants that no test notices. `make mutate` compares with this list, and with --accept writes it anew.
# The reasons (lines that begin with =) are written by people, and kept.
"""


@dataclass(frozen=True, slots=True)
class Survivor:
    """
    Name one mutant.

    Attributes:
        function: Dotted name, class included.
        removed: The lines it takes out, stripped.
        added: The lines it puts there, stripped.
    """

    function: str
    removed: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """
    Hold what a run found.

    Attributes:
        total: Mutants made.
        killed: Mutants that a test noticed, by failing or by never ending.
        prints: Fingerprint of each mutated file, by its path from the root.
        survivors: How often each survivor came (two lines may read the same), with the reason it is harmless.
    """

    total: int
    killed: int
    prints: dict[str, str]
    survivors: dict[Survivor, tuple[int, str]]

    @property
    def killed_percent(self) -> float:
        """Give the share that was noticed, 0 to 100."""
        return 100 * self.killed / self.total if self.total else 0.0

    def counts(self) -> Counter[Survivor]:
        """Give how often each survivor came."""
        return Counter({survivor: count for survivor, (count, _) in self.survivors.items()})


def fingerprint(source: str) -> str:
    """Give a short digest of what *source* does: comments, docstrings and layout do not count."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            first = body[0].value
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                del body[0]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


def list_of(folder: str) -> Path:
    """Give the file that lists the survivors of *folder*."""
    return Path(__file__).with_name(f"survivors_{folder}.txt")


def current_prints(folder: str) -> dict[str, str]:
    """Give the fingerprint of every file of *folder*, by its path from the root."""
    files = sorted((ROOT / "src" / "webhook_inbox" / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): fingerprint(path.read_text()) for path in files}


def render(listing: Listing) -> str:
    """Write *listing* as text that ``parse`` reads back."""
    lines = [_HEADER, f"mutants {listing.total}", f"killed {listing.killed}", ""]
    lines += [f"{digest} {path}" for path, digest in sorted(listing.prints.items())]
    ordered = sorted(
        listing.survivors.items(), key=lambda item: (item[0].function, item[0].removed, item[0].added)
    )
    for survivor, (count, reason) in ordered:
        lines += ["", survivor.function + (f" x{count}" if count > 1 else "")]
        lines += [f"- {line}" for line in survivor.removed]
        lines += [f"+ {line}" for line in survivor.added]
        lines += [f"= {reason}"]
    return "\n".join(lines) + "\n"


def parse(text: str) -> Listing:
    """Read what ``render`` wrote."""
    blocks = [block.splitlines() for block in text.split("\n\n") if block.strip()]
    _, numbers, files, *rest = blocks
    total, killed = (int(line.split()[1]) for line in numbers)
    prints = {path: digest for digest, path in (line.split(" ", 1) for line in files)}
    survivors = {}
    for name, *lines in rest:
        function, _, count = name.partition(" x")
        marked = [(line[0], line[2:]) for line in lines]
        survivor = Survivor(
            function,
            tuple(line for mark, line in marked if mark == "-"),
            tuple(line for mark, line in marked if mark == "+"),
        )
        reason = " ".join(line for mark, line in marked if mark == "=")
        survivors[survivor] = (int(count or 1), reason)
    return Listing(total=total, killed=killed, prints=prints, survivors=survivors)
