"""Let an inbox be large: what a look at it costs, and what deliveries notice of a million events being forgotten."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.suite import Subject, Suite
from benchmarks.operate import looks, prune

SIZES = {"10_thousand": 10_000, "1_million": 1_000_000, "10_million": 10_000_000}

SUITE = Suite(
    name="operate",
    about="what an operator's look costs in a large inbox, and what deliveries notice of forgetting",
    subjects=(
        *(
            Subject(
                name=f"looks_{name}",
                group="looks",
                title=f"status, lists and dry runs, {rows:,} events",
                setting=f"the plans of the command line, {looks.LOOKS} times each after a first one",
                measure=partial(looks.measure, rows),
                headline="status_ms",
            )
            for name, rows in SIZES.items()
        ),
        *(
            Subject(
                name=f"accept_{name}",
                group="prune",
                title=f"{prune.PER_SECOND} deliveries a second, {state}",
                setting=f"uvicorn, one process, queued; {prune.ROWS:,} events with payloads are old enough to go",
                measure=partial(prune.measure, pruning=name == "pruning"),
                headline="p99_ms",
                reference="accept_alone",
            )
            for name, state in (
                ("alone", "nothing else"),
                ("pruning", "while `webhook-inbox prune` runs"),
            )
        ),
    ),
    reference="looks_10_thousand",
    seconds=20.0,
)
