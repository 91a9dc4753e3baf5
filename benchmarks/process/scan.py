"""
Find a contender's best setting: ``python -m benchmarks.process.scan pgqueuer batch=10,25,50 pool=8,16``.

Every combination is run once a round; what is found goes into ``contenders.py``, and only differences that hold in
several rounds mean anything.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
from dataclasses import replace

from benchmarks.harness.errors import BenchmarkError
from benchmarks.harness.figures import Spread
from benchmarks.harness.server import serve
from benchmarks.process.contenders import CONTENDERS, Contender
from benchmarks.process.drain import drain


def main() -> int:
    """Print a line a combination, the fastest last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=[each.name for each in CONTENDERS])
    parser.add_argument("settings", nargs="*", metavar="name=value,value,...")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that whatever runs is ended too
    contender = next(each for each in CONTENDERS if each.name == given.name)
    candidates = [replace(contender, settings=each) for each in _combinations(contender, given.settings)]
    rates: dict[str, list[float]] = {each.setting: [] for each in candidates}
    with serve() as server:
        for _, candidate in itertools.product(range(given.rounds), candidates):
            try:
                figures = drain(candidate, server, jobs=given.jobs or contender.jobs)
            except BenchmarkError as error:
                print(f"failed: {dict(candidate.settings)}: {error}", file=sys.stderr)
            else:
                rates[candidate.setting].append(figures["per_second"])
                print(
                    dict(candidate.settings),
                    {name: round(value) for name, value in figures.items()},
                    file=sys.stderr,
                )
    for setting, found in sorted(rates.items(), key=lambda pair: max(pair[1], default=0.0)):
        if found:
            spread = Spread.of(found)
            print(f"{spread.median:>8,.0f} ({spread.least:,.0f} - {spread.most:,.0f})  {setting}")
    return 0


def _combinations(contender: Contender, given: list[str]) -> list[dict[str, int | str]]:
    axes = [(name, values.split(",")) for name, _, values in (each.partition("=") for each in given)]
    return [
        {**contender.settings, **dict(zip((name for name, _ in axes), values, strict=True))}
        for values in itertools.product(*(values for _, values in axes))
    ]


if __name__ == "__main__":
    sys.exit(main())
