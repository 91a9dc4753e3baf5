"""List what is measured: each queue with the setting that its own documentation leads to, and where that is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Runtime: TypeAlias = Literal["project", "python", "node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """
    Hold one queue, or one way to use it.

    Attributes:
        name: What ``--only`` calls it.
        title: What a table calls it.
        program: The module below ``peers/``, without its ending.
        distribution: The package that its version is asked from.
        runtime: In which environment its program runs.
        settings: What its worker is started with.
        source: Where its documentation leads to that.
        jobs: How many are queued for one run.
        workers: How many processes work.
        failing_one_in: One event in this many always fails and has no effect; 0: none does.
        business: Whether its handler writes; else it only tells that it ran.
        redis: Whether it needs a Redis beside PostgreSQL.
    """

    name: str
    title: str
    program: str
    distribution: str
    source: str
    runtime: Runtime = "python"
    settings: Mapping[str, int | str] = field(default_factory=dict)
    jobs: int = 10_000
    workers: int = 1
    failing_one_in: int = 0
    business: bool = True
    redis: bool = False

    @property
    def setting(self) -> str:
        """Say how it is set up."""
        said = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"{said}; {self.source}" if said else self.source


def _ours(name: str, title: str, **given: object) -> Contender:
    return Contender(
        name=name,
        title=title,
        program="ours",
        distribution="webhook-inbox",
        runtime="project",
        source="docs/reference/settings.md",
        **given,  # type: ignore[arg-type]
    )


CONTENDERS = (
    _ours("ours-async", "webhook-inbox, async def", settings={"shape": "async"}),
    _ours("ours-sync", "webhook-inbox, def", settings={"shape": "sync"}),
    _ours(
        "ours-set",
        "webhook-inbox, set-based",
        settings={"shape": "set", "concurrency_max": 1, "batch_events_max": 100},
    ),
    Contender(
        name="pgqueuer",
        title="PgQueuer",
        program="pgqueuer",
        distribution="pgqueuer",
        settings={"batch": 25, "pool": 16},
        source="docs/guides/performance-tuning.md: a larger batch_size for short jobs, autovacuum set, asyncpg, uvloop",
    ),
    Contender(
        name="procrastinate",
        title="procrastinate",
        program="procrastinate",
        distribution="procrastinate",
        settings={"concurrency": 16, "pool": 20},
        jobs=3_000,
        source="docs/howto/production/concurrency: concurrency, LISTEN/NOTIFY on",
    ),
)
