"""Let every layout take its turn: a cycle of arrivals, claims and marks, then claims in tables that have a past."""

from __future__ import annotations

from functools import partial

from benchmarks.harness.suite import Subject, Suite
from benchmarks.storage import claims, cycle
from benchmarks.storage.claims import STATES, State
from benchmarks.storage.drive import CLAIMED_TOGETHER, GATHERED, RECORDED_TOGETHER
from benchmarks.storage.layouts import HOT_QUEUE, LAYOUTS, ONE_TABLE, Layout

_CYCLE = (
    f"{cycle.EVENTS:,} events of 3 KB, {GATHERED} at a time: recorded {RECORDED_TOGETHER} a commit, "
    f"claimed and settled {CLAIMED_TOGETHER} a commit, one connection, no handlers"
)


def _claims(layout: Layout, state: State) -> Subject:
    return Subject(
        name=f"{layout.name}_{state.name}",
        group="claims",
        title=f"{layout.title}: claim of {CLAIMED_TOGETHER}, {state.title}",
        setting=f"{layout.setting}; the server's own time, planning and commit not counted",
        measure=partial(claims.measure, layout, state),
        headline="claim_ms",
        reference=f"{ONE_TABLE.name}_{state.name}",
    )


SUITE = Suite(
    name="storage",
    about="what layouts of the tables write, leave behind and read for the same events",
    subjects=(
        *(
            Subject(
                name=each.name,
                group="cycle",
                title=each.title,
                setting=f"{each.setting}; {_CYCLE}",
                measure=partial(cycle.measure, each),
                headline="wal_bytes",
            )
            for each in LAYOUTS
        ),
        *(_claims(layout, state) for state in STATES for layout in (ONE_TABLE, HOT_QUEUE)),
    ),
    reference="bytes_alone",
    seconds=0.0,
)
