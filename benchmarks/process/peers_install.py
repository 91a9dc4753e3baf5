"""Install the one peer that pip alone cannot: Oban asks for Python 3.12."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.harness.environments import PYTHON_HOME, REQUIREMENTS, peers_python
from benchmarks.harness.errors import BenchmarkError
from benchmarks.harness.processes import run

OBAN_SINCE = (3, 12)
_ALIAS = "type Result[T] = Cancel | Snooze | Record | T | None\n"
_SAME_FOR_OLDER = "Result = list  # an annotation only\n"


def python_with_oban() -> Path:
    """
    Give the peers' interpreter, Oban included.

    On an older Python the one line of it that this Python cannot read is rewritten: the alias of a type that stands in
    annotations alone, so that what runs is the same.
    """
    python = peers_python()
    if sys.version_info >= OBAN_SINCE or _installed():
        return python
    pin = next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith("oban=="))
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run(
        [str(python), *install, "--ignore-requires-python", "--no-compile", pin.partition(";")[0]],
        environment={},
    )
    for file in PYTHON_HOME.glob("lib/python*/site-packages/oban/job.py"):
        text = file.read_text()
        if _ALIAS not in text:
            raise BenchmarkError(f"{pin} has changed where Python 3.11 needs a change; look at {file.name}")
        file.write_text(text.replace(_ALIAS, _SAME_FOR_OLDER))
    return python


def _installed() -> bool:
    return any(PYTHON_HOME.glob("lib/python*/site-packages/oban/job.py"))
