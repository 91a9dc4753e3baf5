"""Run suites and say what came out: ``python -m benchmarks receive --only ours http_limit --rounds 1``."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from pathlib import Path

from benchmarks.harness.errors import BenchmarkError
from benchmarks.harness.results import describe, merge, suite_results
from benchmarks.harness.rounds import choose, measure, table
from benchmarks.harness.server import serve
from benchmarks.harness.suite import Bench, Suite

SUITES = ("limits", "receive", "process", "overhead", "scaling", "latency", "idle", "growth")
ROUNDS = 5
QUICK_SECONDS = 1.0


def main() -> int:
    """Give 0 where every run counted, 1 where one did not, 2 where nothing could be measured."""
    given = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that whatever runs is ended too
    try:
        chosen = [(suite, choose(suite, given.only)) for suite in map(_suite, given.suites or SUITES)]
        with serve() as server:
            description = describe(server)
            print(_heading(description), file=sys.stderr)
            parts, failures = {}, []
            for suite, subjects in chosen:
                seconds = given.seconds or (QUICK_SECONDS if given.quick else suite.seconds)
                bench = Bench(server, seconds, given.quick)
                outcome = measure(suite, subjects, bench, rounds=1 if given.quick else given.rounds)
                print(f"\n{suite.name}: {suite.about}\n{table(suite, subjects, outcome)}\n")
                parts[suite.name] = suite_results(suite, outcome, seconds=seconds)
                failures += outcome.failures
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2
    if given.json:
        merge(given.json, description, parts)
    print(*(f"failed: {each}" for each in failures), sep="\n", file=sys.stderr)
    return 1 if failures else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all where none is named"
    )
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="subjects or groups: ours, peers, limits"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"turns of each subject; {ROUNDS}")
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="what one run measures; else the suite's own"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results into FILE; other suites' stay"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one short round: shows that all works, proves no figure"
    )
    return parser.parse_args()


def _suite(name: str) -> Suite:
    if name not in SUITES:
        raise BenchmarkError(f"there is no suite {name}; there is {', '.join(SUITES)}")
    suite: Suite = importlib.import_module(f"benchmarks.{name}.suite").SUITE
    return suite


def _heading(description: dict[str, object]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in description.items() if name != "versions")


if __name__ == "__main__":
    sys.exit(main())
