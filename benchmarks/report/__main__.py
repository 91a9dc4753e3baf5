"""Write the page and its plots: ``python -m benchmarks.report``."""

from __future__ import annotations

import sys

from benchmarks.harness.processes import ROOT
from benchmarks.report.data import RESULTS, Results
from benchmarks.report.page import PAGE, PLOTS, render


def main() -> int:
    """Replace what is there; plots that are no longer drawn go."""
    if not RESULTS.exists():
        print(
            "there are no results yet: run `python -m benchmarks --json benchmarks/results.json`",
            file=sys.stderr,
        )
        return 2
    files = render(Results.read())
    for old in (ROOT / PAGE.parent / PLOTS).glob("*.svg"):
        if old.relative_to(ROOT).as_posix() not in files:
            old.unlink()
    for name, text in files.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
