"""Let one thing grow at a time: rows, connections, bodies; and count what one event leaves on disk."""

from __future__ import annotations

from functools import partial

from benchmarks.growth import claims, memory, storage
from benchmarks.growth.claims import Table
from benchmarks.harness.events import sized_body
from benchmarks.harness.suite import Subject, Suite
from benchmarks.receive.load import Traffic, measure
from benchmarks.receive.receivers import RECEIVERS

CONNECTIONS = (1, 8, 32, 64)
BODIES = {"1_kb": 1_000, "3_kb": 3_000, "32_kb": 32_000, "256_kb": 256_000, "1_mb": 1_000_000}
TABLES = {
    "none": Table(rows=0),
    "10_thousand": Table(rows=10_000),
    "1_million": Table(rows=1_000_000),
    "10_million": Table(rows=10_000_000),
    "hour_open": Table(rows=0, held=True),
}
_QUEUED = next(each for each in RECEIVERS if each.name == "queued")


def _claims(name: str, table: Table) -> Subject:
    held = f"a transaction that was open while {claims.HOUR_EVENTS:,} were processed"
    state = held if table.held else f"{table.rows:,} processed events"
    return Subject(
        name=f"claims_{name}",
        group="claims",
        title=f"claim of {claims.EVENTS_A_CLAIM} events, {state}",
        setting=f"{claims.CLAIMS} claims in a row, each committed",
        measure=partial(claims.measure, table),
        headline="claim_p99_ms",
    )


def _connections(count: int) -> Subject:
    return Subject(
        name=f"connections_{count}",
        group="connections",
        title=f"{count} connections",
        setting=_QUEUED.setting,
        measure=partial(measure, _QUEUED, Traffic(connections=count)),
        reference="connections_32",
    )


def _body(name: str, size: int) -> Subject:
    return Subject(
        name=f"body_{name}",
        group="bodies",
        title=f"bodies of {size:,} bytes",
        setting=_QUEUED.setting,
        measure=partial(measure, _QUEUED, Traffic(body=partial(sized_body, size=size))),
        reference="body_3_kb",
    )


SUITE = Suite(
    name="growth",
    about="what grows with rows, connections and bodies, and what one event leaves on disk",
    subjects=(
        *(_claims(name, table) for name, table in TABLES.items()),
        *map(_connections, CONNECTIONS),
        *(_body(name, size) for name, size in BODIES.items()),
        Subject(
            name="memory",
            group="memory",
            title="one process of each kind",
            setting=f"`webhook-inbox serve` that waits; `webhook-inbox worker` after {memory.EVENTS:,} events",
            measure=memory.measure,
            headline="receiver_mb",
            reference="memory",
        ),
        Subject(
            name="event_stored",
            group="storage",
            title="webhook-inbox: received and processed",
            setting=f"{storage.EVENTS:,} events of 3 KB, 64 at once, a handler that writes nothing",
            measure=storage.measure_event,
            headline="wal_bytes",
            reference="bytes_alone",
        ),
        Subject(
            name="bytes_alone",
            group="storage",
            title="the bytes alone, with a number beside them",
            setting=f"{storage.EVENTS:,} rows, 32 a commit, lz4",
            measure=storage.measure_bytes_alone,
            headline="wal_bytes",
            reference="bytes_alone",
        ),
    ),
    reference="claims_none",
    seconds=3.0,
)
