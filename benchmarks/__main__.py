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

SUITES = (
    "limits",
    "receive",
    "process",
    "overhead",
    "scaling",
    "latency",
    "idle",
    "growth",
    "operate",
    "storage",
    "verification",
    "relay",
    "outage",
)
#: What ``--quick`` leaves out unless it is named: the same programs as in others, or minutes of waiting.
NOT_QUICK = ("overhead", "scaling", "idle")
ROUNDS = 5
QUICK_SECONDS = 1.0


def main() -> int:
    """Give 0 where every run counted, 1 where one did not, 2 where nothing could be measured, 130 after Ctrl-C."""
    given = parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that whatever runs is ended too
    try:
        return _measure(given)
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _measure(given: argparse.Namespace) -> int:
    names = given.suites or [name for name in SUITES if not (given.quick and name in NOT_QUICK)]
    chosen = choose([load_suite(name) for name in names], given.only)
    failures = []
    with serve() as server:
        print(_heading(describe(server)), file=sys.stderr)
        for suite, subjects in chosen:
            seconds = given.seconds or (QUICK_SECONDS if given.quick else suite.seconds)
            bench = Bench(server, seconds, given.quick)
            outcome = measure(suite, subjects, bench, rounds=1 if given.quick else given.rounds)
            print(f"\n{suite.name}: {suite.about}\n{table(suite, subjects, outcome)}\n", flush=True)
            failures += outcome.failures
            if given.json:
                part = suite_results(suite, outcome, seconds=seconds)
                merge(given.json, describe(server), {suite.name: part})
    print("".join(f"failed: {each}\n" for each in failures), end="", file=sys.stderr)
    return 1 if failures else 0


def parser() -> argparse.ArgumentParser:
    """Give the command line's parser."""
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument(
        "suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all where none is named"
    )
    made.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="subjects or groups: ours, peers, limits"
    )
    made.add_argument("--rounds", type=int, default=ROUNDS, help=f"turns of each subject; {ROUNDS}")
    made.add_argument(
        "--seconds", type=float, default=0.0, help="what one run measures; else the suite's own"
    )
    made.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results into FILE; other suites' stay"
    )
    made.add_argument(
        "--quick", action="store_true", help="one short round: shows that all works, proves no figure"
    )
    return made


def load_suite(name: str) -> Suite:
    """Give the suite of that name, from the folder of that name."""
    if name not in SUITES:
        raise BenchmarkError(f"there is no suite {name}; there is {', '.join(SUITES)}")
    suite: Suite = importlib.import_module(f"benchmarks.{name}.suite").SUITE
    return suite


def _heading(description: dict[str, object]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in description.items() if name != "versions")


if __name__ == "__main__":
    sys.exit(main())
