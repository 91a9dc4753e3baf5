"""Read the files that git tracks: what a stranger gets from a clone."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def tracked_files() -> tuple[Path, ...]:
    """Give the absolute path of every tracked file that is still there, sorted."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    paths = (ROOT / name for name in listing.decode().split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))


@cache
def tracked_texts() -> dict[str, str]:
    """Give name, relative to the root, and text of every tracked file that is UTF-8 text."""
    texts = {}
    for path in tracked_files():
        content = path.read_bytes()
        if b"\0" not in content:
            texts[path.relative_to(ROOT).as_posix()] = content.decode("utf-8", "replace")
    return texts
