"""
Change the verifiers and the plans in thousands of small ways, one at a time, and see which changes no test notices.

    make mutate ARGS="--only sources"           from nothing; compares with survivors_sources.txt
    make mutate ARGS="--only sources --again"   only functions that changed since the last run, and what survived it
    make mutate ARGS="--only sources --sample"  a tenth of the mutants, another tenth after every change of code
    make mutate ARGS="--only sources --accept"  ... and write the list

mutmut works in ``build/mutation``, on a copy: it mutates the copy's sources, all mutants of a function at once, forks a
process for each mutant and runs there the tests that reach the function. The server is started once, for all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from fnmatch import fnmatchcase
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant

from tests.mutation.survivors import (
    FOLDERS,
    KILLED_PERCENT_MIN,
    NO_REASON,
    ROOT,
    Listing,
    Survivor,
    current_prints,
    list_of,
    parse,
    render,
)
from webhook_inbox.embedded import EmbeddedPostgres

ROOM = ROOT / "build" / "mutation"
LOG = ROOM / "mutmut.log"
#: A failing test; pytest's internal error; a test module that cannot be imported any more; out of time.
NOTICED = (1, 2, 3, 24, -24, 36, 152, 255)


def lay_out(*, fresh: bool) -> None:
    """Copy the sources and the tests into the room, beside a link to the payloads that the tests read."""
    if fresh:
        shutil.rmtree(ROOM, ignore_errors=True)
    ROOM.mkdir(parents=True, exist_ok=True)
    for folder in ("src", "tests"):
        # Times are kept: by them mutmut knows which files changed.
        shutil.rmtree(ROOM / folder, ignore_errors=True)
        shutil.copytree(ROOT / folder, ROOM / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(ROOM / "mutants" / "tests", ignore_errors=True)
    shutil.copy2(ROOT / "pyproject.toml", ROOM)
    payloads = ROOM / "shared"  # the copy's tests look beside the folder they run in, which is room/mutants
    payloads.unlink(missing_ok=True)
    payloads.symlink_to(ROOT.parent / "shared")


def verdicts() -> dict[str, tuple[str, int | None]]:
    """Give, for each mutant, the source it is of and how its tests ended; None where they have not run."""
    found: dict[str, tuple[str, int | None]] = {}
    for meta in metas():
        source = meta.relative_to(ROOM / "mutants").as_posix().removesuffix(".meta")
        for name, code in json.loads(meta.read_text())["exit_code_by_key"].items():
            found[name] = (source, code)
    return found


def metas() -> Iterator[Path]:
    """Find mutmut's own records of the files that are mutated."""
    for folder in FOLDERS:
        yield from sorted((ROOM / "mutants" / "src" / "webhook_inbox" / folder).rglob("*.meta"))


def forget_survivors() -> None:
    """Make mutmut test the survivors again: a test may be there now that notices them."""
    for meta in metas():
        record = json.loads(meta.read_text())
        codes = record["exit_code_by_key"]
        record["exit_code_by_key"] = {name: code if code in NOTICED else None for name, code in codes.items()}
        meta.write_text(json.dumps(record))


def run_mutmut(names: list[str], *, seconds_max: float, dsn: str) -> None:
    """Run mutmut over *names*, or all; after *seconds_max* end it, and keep what it found until then."""
    command = [
        str(Path(sys.executable).with_name("mutmut")),
        "run",
        "--max-children",
        str(os.cpu_count() or 2),
        *names,
    ]
    environment = os.environ | {"WEBHOOK_INBOX_TEST_DSN": dsn}
    with LOG.open("wb") as log, chdir(ROOM):
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=environment
        )
        try:
            process.wait(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            print(f"out of time after {seconds_max:.0f} s")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if process.returncode not in {0, -signal.SIGKILL}:
        print(LOG.read_text(errors="replace")[-3000:])
        raise SystemExit("mutmut itself failed: see above")


def function_of(mutant: str) -> str:
    """Give the dotted name of the function that *mutant* changes: ``package.module.xǁClassǁmethod__mutmut_3``."""
    module, _, mangled = mutant.rpartition("__mutmut_")[0].rpartition(".")
    name = (
        mangled.removeprefix("x_")
        if mangled.startswith("x_")
        else mangled.removeprefix("xǁ").replace("ǁ", ".")
    )
    return f"{module}.{name}"


def survivor_of(mutant: str, source: str) -> Survivor:
    """Describe what *mutant* changes; the room is the current folder."""
    lines = get_diff_for_mutant(mutant, path=source).splitlines()[3:]
    return Survivor(
        function_of(mutant),
        tuple(line[1:].strip() for line in lines if line.startswith("-")),
        tuple(line[1:].strip() for line in lines if line.startswith("+")),
    )


def guess_reason(survivor: Survivor) -> str:
    """Recognise a change of a sentence that only people read; anything else awaits somebody's judgement."""
    if len(survivor.removed) == len(survivor.added) == 1:
        before, after = (line[0].replace("XX", "") for line in (survivor.removed, survivor.added))
        if before.lower() == after.lower() and '"' in before and " " in before.split('"')[1]:
            return "a sentence for people reads differently"
    return NO_REASON


def collect(folder: str, pattern: str, known: Listing) -> tuple[Listing, int]:
    """Gather what the run found about the mutants that match *pattern*, and how many of them never ran."""
    ours = {name: verdict for name, verdict in verdicts().items() if fnmatchcase(name, pattern)}
    with chdir(ROOM):
        found = Counter(
            survivor_of(name, source)
            for name, (source, code) in ours.items()
            if code is not None and code not in NOTICED
        )
    reasons = {survivor: reason for survivor, (_, reason) in known.survivors.items()}
    survivors = {
        survivor: (count, reasons.get(survivor) or guess_reason(survivor))
        for survivor, count in found.items()
    }
    killed = sum(code in NOTICED for _, code in ours.values())
    missing = sum(code is None for _, code in ours.values())
    return Listing(len(ours), killed, current_prints(folder), survivors), missing


def report(found: Listing, known: Listing, *, whole: bool) -> bool:
    """Print how *found* differs from *known*; say whether nothing survived that is not listed."""
    new, gone = found.counts() - known.counts(), known.counts() - found.counts()
    for survivor, count in new.items():
        print(f"\nnot listed: {survivor.function} ({count})")
        print(
            "\n".join(
                [f"  - {line}" for line in survivor.removed] + [f"  + {line}" for line in survivor.added]
            )
        )
    if whole and gone:
        print(f"\n{sum(gone.values())} listed survivors are noticed now, or gone: --accept drops them")
    print(
        f"\nmutants: {found.total}, noticed: {found.killed} ({found.killed_percent:.1f} %), "
        f"survivors: {sum(found.counts().values())}, of these not listed: {sum(new.values())}"
    )
    return not new


def main() -> int:
    """Run, compare, and say so; 0 is good."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--again", action="store_true", help="keep the last run's verdicts where they still hold"
    )
    parser.add_argument("--sample", action="store_true", help="a tenth of the mutants")
    parser.add_argument("--only", choices=FOLDERS, required=True, help="the folder to change")
    parser.add_argument("--accept", action="store_true", help="write the list")
    parser.add_argument(
        "--seconds", type=float, default=5400, help="end after so long, with what is known then"
    )
    options = parser.parse_args()
    folder, whole = options.only, not options.sample
    if options.accept and not whole:
        parser.error("a part cannot be accepted for the whole")

    began = time.monotonic()
    listed = list_of(folder)
    known = parse(listed.read_text()) if listed.exists() else Listing(0, 0, {}, {})
    last_digit = str(int("".join(current_prints(folder).values()), 16) % 10) if options.sample else ""
    pattern = f"webhook_inbox.{folder}.*__mutmut_*{last_digit}"
    lay_out(fresh=not options.again)
    if options.again:
        forget_survivors()
    with EmbeddedPostgres(durable=False, settings={"max_connections": "300"}) as server:
        run_mutmut([pattern], seconds_max=options.seconds, dsn=server.dsn)
    found, missing = collect(folder, pattern, known)
    good = report(found, known, whole=whole)
    print(f"{missing} mutants were not tried; {time.monotonic() - began:.0f} s")
    if missing or not found.total:
        return 1
    if options.accept:
        listed.write_text(render(found))
        return 0
    return 0 if good and (not whole or found.killed_percent >= KILLED_PERCENT_MIN) else 1


if __name__ == "__main__":
    sys.exit(main())
