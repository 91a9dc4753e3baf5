"""Say what each suite's part of the page holds: its words, its columns, its plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.report.charts import Bar, Range, bars, ranges
from benchmarks.report.data import Measured, Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """
    Hold one plot.

    Attributes:
        file: Its name without ``.svg``.
        draw: Gives the SVG of what was measured; empty where nothing of it was.
    """

    file: str
    title: str
    draw: Callable[[str, Measurement], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """
    Hold one table, and the plots that go with it.

    Attributes:
        groups: Whose rows it has; all where none is named.
        columns: Figures beside the headline, with their headings.
        ratio: Heading of the column that divides by the reference; empty: there is none.
    """

    headline: str
    groups: tuple[str, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    ratio: str = ""
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Hold one suite's part of the page."""

    suite: str
    heading: str
    text: str
    parts: tuple[Part, ...]


def _rate_bars(*groups: str, unit: str = "events per second") -> Callable[[str, Measurement], str]:
    def draw(title: str, suite: Measurement) -> str:
        rows = [Bar(each.title, each.group, each.head) for each in _sorted(suite.of(*groups))]
        return bars(title, unit, rows) if rows else ""

    return draw


def _percentiles(
    *groups: str, p50: str = "p50_ms", p99: str = "p99_ms", unit: str
) -> Callable[[str, Measurement], str]:
    def draw(title: str, suite: Measurement) -> str:
        found = [(each, each.median(p50), each.median(p99)) for each in suite.of(*groups)]
        rows = [
            Range(each.title, _colour(each), low, high)
            for each, low, high in sorted(found, key=lambda one: one[2] or 0.0)
            if low and high
        ]
        return ranges(title, unit, rows) if rows else ""

    return draw


def _sorted(subjects: Sequence[Measured]) -> list[Measured]:
    return sorted(subjects, key=lambda each: each.head.median, reverse=True)


def _colour(subject: Measured) -> str:
    return subject.group if subject.group in ("peers", "limits") else "ours"


_DRAIN_COLUMNS = (
    ("cpu_us", "the worker's CPU µs"),
    ("server_cpu_us", "PostgreSQL's CPU µs"),
    ("wal_bytes", "write-ahead log, bytes"),
)

SECTIONS = (
    Section(
        suite="receive",
        heading="From HTTP to commit",
        text="""Every receiver verifies Stripe's signature, records the event once, and answers 200 after its
COMMIT; but for HTTP alone, which stores nothing. wrk keeps 32 connections busy; then requests come at a
constant rate, and latency counts from the moment at which each was due. A receiver that cannot serve a rate has no
figure for it.""",
        parts=(
            Part(
                headline="per second",
                ratio="of the HTTP limit",
                columns=(
                    ("p50_ms", "p50 ms"),
                    ("p99_ms", "p99 ms"),
                    ("at_300_p99_ms", "p99 ms at 300/s"),
                    ("at_2000_p99_ms", "p99 ms at 2,000/s"),
                    ("cpu_us", "CPU µs"),
                    ("postgres_cpu_us", "PostgreSQL's CPU µs"),
                    ("memory_mb", "memory MB"),
                ),
                plots=(
                    Plot(file="receive", title="Received and committed", draw=_rate_bars()),
                    Plot(
                        file="receive_latency",
                        title="Until the 200, with 32 connections",
                        draw=_percentiles(unit="milliseconds"),
                    ),
                ),
            ),
        ),
    ),
    Section(
        suite="process",
        heading="From recorded to effect",
        text="""Events wait before the first worker starts; its handler executes three statements on the business's
own tables. The rate is that of the effects, by the server's clock. Peers acknowledge in another transaction than
the effect, and a crash between the two does the effect again; but for pg-boss's transactional batch, in which one
failing job undoes the others, and DBOS, which records the step with its effect. Here event, effect and mark commit
together, whichever of their batch fail.""",
        parts=(
            Part(
                headline="per second",
                ratio="of PgQueuer",
                columns=_DRAIN_COLUMNS,
                plots=(Plot(file="process", title="Effects committed", draw=_rate_bars()),),
            ),
        ),
    ),
    Section(
        suite="scaling",
        heading="More workers, and events that fail",
        text="""The same events and handler. Several worker processes share one backlog; on a machine whose
processors are busy they share those too. Of the events that fail, each is tried again later; the rate is that of the
others.""",
        parts=(Part(headline="per second", ratio="of one worker, async def", columns=_DRAIN_COLUMNS),),
    ),
    Section(
        suite="overhead",
        heading="What a queue costs by itself",
        text="""Handlers that do nothing but tell that they ran. This is what most published figures show; a handler
that writes pays the commits above.""",
        parts=(
            Part(
                headline="per second",
                ratio="of PgQueuer",
                columns=_DRAIN_COLUMNS,
                plots=(Plot(file="overhead", title="Handlers that do nothing", draw=_rate_bars()),),
            ),
        ),
    ),
    Section(
        suite="limits",
        heading="What PostgreSQL itself can do",
        text="""pgbench on the same tables, with prepared statements and nothing else to do: what any program in
front of this server must stay below.""",
        parts=(
            Part(
                headline="per second",
                columns=(
                    ("postgres_cpu_us", "PostgreSQL's CPU µs"),
                    ("wal_bytes", "write-ahead log, bytes"),
                ),
                plots=(Plot(file="limits", title="The database's limits", draw=_rate_bars()),),
            ),
        ),
    ),
    Section(
        suite="latency",
        heading="From the 200 to the effect",
        text="""One event at a time, with a pause between, until its effect is there for others to see. The unit is
one commit: how long one client, alone, takes to insert a row and commit it on the same server.""",
        parts=(
            Part(
                headline="p50, commits",
                columns=(
                    ("p99_commits", "p99, commits"),
                    ("p50_ms", "p50 ms"),
                    ("p99_ms", "p99 ms"),
                    ("max_ms", "longest ms"),
                    ("commit_ms", "one commit, ms"),
                ),
            ),
        ),
    ),
    Section(
        suite="idle",
        heading="An idle worker",
        text="""What a worker costs that has nothing to do, and how soon it begins with an event that then
comes.""",
        parts=(
            Part(
                headline="processor, %",
                columns=(
                    ("pick_up_median_ms", "p50 ms until the handler begins"),
                    ("pick_up_max_ms", "longest ms"),
                ),
            ),
        ),
    ),
    Section(
        suite="growth",
        heading="Cost as it grows",
        text="""One thing grows at a time; everything else is as above. The table of processed events has no bodies:
they have aged out.""",
        parts=(
            Part(
                headline="p99 ms",
                groups=("claims",),
                ratio="of none",
                columns=(("claim_p50_ms", "p50 ms"),),
                plots=(
                    Plot(
                        file="claims",
                        title="Claims",
                        draw=_percentiles(
                            "claims", p50="claim_p50_ms", p99="claim_p99_ms", unit="milliseconds"
                        ),
                    ),
                ),
            ),
            Part(
                headline="per second",
                groups=("connections",),
                ratio="of 32 connections",
                columns=(("p50_ms", "p50 ms"), ("p99_ms", "p99 ms"), ("memory_mb", "memory MB")),
            ),
            Part(
                headline="per second",
                groups=("bodies",),
                ratio="of 3 KB",
                columns=(
                    ("p50_ms", "p50 ms"),
                    ("p99_ms", "p99 ms"),
                    ("cpu_us", "CPU µs"),
                    ("wal_bytes", "write-ahead log, bytes"),
                    ("memory_mb", "memory MB"),
                ),
            ),
            Part(
                headline="receiver, MB",
                groups=("memory",),
                columns=(("worker_mb", "worker, MB"),),
            ),
            Part(
                headline="write-ahead log, bytes",
                groups=("storage",),
                ratio="of the bytes alone",
                columns=(
                    ("record_wal_bytes", "of these, receiving"),
                    ("process_wal_bytes", "processing"),
                    ("dead_rows", "dead rows"),
                    ("disk_bytes", "bytes on disk"),
                ),
            ),
        ),
    ),
    Section(
        suite="relay",
        heading="From the outbox to a broker",
        text="""Twenty thousand messages of 1 KB lie in the outbox; one relay sends them. Beside it, the same client
publishes the same payloads in a bare loop, reads nothing and remembers nothing.""",
        parts=(
            Part(
                headline="per second",
                ratio="of the client alone",
                columns=(("cpu_us", "the process's CPU µs"),),
            ),
        ),
    ),
    Section(
        suite="outage",
        heading="While another destination is away",
        text="""Each message goes to two destinations of one relay, fifty a second. What is measured is the time from
the commit to the one that is well.""",
        parts=(
            Part(
                headline="p99 ms",
                ratio="of none",
                columns=(("p50_ms", "p50 ms"), ("max_ms", "longest ms")),
            ),
        ),
    ),
    Section(
        suite="verification",
        heading="Who sent it",
        text="""Every provider's class checks one good delivery of the same 3 KB, in turns with a bare HMAC-SHA256 of
the same body. A public key takes longest; a form is read before it can be checked; a token is only compared.""",
        parts=(
            Part(
                headline="bare HMACs",
                groups=("limits", "providers"),
                columns=(("verify_us", "one verification, µs"), ("hmac_us", "one HMAC, µs")),
            ),
        ),
    ),
)
