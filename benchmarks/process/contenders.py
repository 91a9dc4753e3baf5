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
        batch: Whether its handler takes many events at once, which succeed or fail together: another thing than one
            call an event, and compared with its like alone.
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
    batch: bool = False

    @property
    def setting(self) -> str:
        """Say how it is set up."""
        said = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"{said}; {self.source}" if said else self.source


def ours(name: str, title: str, settings: Mapping[str, int | str], *, batch: bool = False) -> Contender:
    """Give one way to use our own worker."""
    return Contender(
        name=name,
        title=title,
        program="ours",
        distribution="webhook-inbox",
        runtime="project",
        settings=settings,
        source="docs/reference/settings.md",
        batch=batch,
    )


OURS = (
    ours("ours-async", "webhook-inbox, async def", {"shape": "async"}),
    ours("ours-async-pipeline", "webhook-inbox, async def, pipeline", {"shape": "async-pipeline"}),
    ours("ours-sync", "webhook-inbox, def", {"shape": "sync"}),
    ours("ours-sync-pipeline", "webhook-inbox, def, pipeline", {"shape": "sync-pipeline"}),
    ours("ours-asyncpg", "webhook-inbox, asyncpg", {"shape": "asyncpg"}),
    ours("ours-set", "webhook-inbox, set-based", {"shape": "set"}, batch=True),
)
PEERS = (
    Contender(
        name="pgqueuer",
        title="PgQueuer",
        program="pgqueuer",
        distribution="pgqueuer",
        settings={"batch": 50, "pool": 8},
        source="docs/guides/performance-tuning.md: a larger batch_size for short jobs, autovacuum set, asyncpg, uvloop",
    ),
    Contender(
        name="pgqueuer-threads",
        title="PgQueuer, def",
        program="pgqueuer",
        distribution="pgqueuer",
        settings={"batch": 50, "pool": 8, "threads": 1},
        source="as PgQueuer; the error for a def: wrap blocking code with asyncio.to_thread; psycopg and its pool",
    ),
    Contender(
        name="oban",
        title="Oban for Python",
        program="oban",
        distribution="oban",
        settings={"limit": 32, "pool": 10},
        source="docs/defining_queues.md: the queue's limit; uvloop, as its own command line",
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
    Contender(
        name="chancy",
        title="chancy",
        program="chancy",
        distribution="chancy",
        settings={"concurrency": 100, "pool": 32},
        jobs=5_000,
        source="docs, Queue: the asyncio executor, eager_polling, the queue's concurrency",
    ),
    Contender(
        name="hookrelay",
        title="hookrelay",
        program="hookrelay",
        distribution="hookrelay",
        settings={"batch": 100, "concurrency": 16},
        jobs=5_000,
        source="README, How it works: concurrency within a claimed batch; asyncpg, uvloop",
    ),
    Contender(
        name="dbos",
        title="DBOS queue",
        program="dbos",
        distribution="dbos",
        settings={"concurrency": 32, "pool": 20, "polling_ms": 10},
        jobs=1_500,
        source="docs, Queues & Concurrency: worker_concurrency, polling interval; READ COMMITTED transaction steps",
    ),
    Contender(
        name="celery",
        title="Celery + Redis",
        program="celery",
        distribution="celery",
        settings={"concurrency": 2, "prefetch": 64},
        jobs=5_000,
        redis=True,
        source="docs, Optimizing: a prefork child a core, prefetch 64 for short tasks, acks_late, results ignored",
    ),
    Contender(
        name="rq",
        title="RQ",
        program="rq",
        distribution="rq",
        jobs=1_500,
        redis=True,
        source="docs, Workers, Performance notes: SimpleWorker, which does not fork for each job",
    ),
    Contender(
        name="graphile-worker",
        title="Graphile Worker",
        program="graphile_worker",
        distribution="graphile-worker",
        runtime="node",
        settings={"concurrency": 24, "queue": 500, "delay": 25},
        source="worker.graphile.org/docs/performance: local queue, completion in batches",
    ),
    Contender(
        name="pg-boss",
        title="pg-boss",
        program="pg_boss",
        distribution="pg-boss",
        runtime="node",
        settings={"batch": 100, "concurrency": 2, "pool": 8, "transactional": 0},
        source="docs/api/workers.md: batchSize, localConcurrency, burstWhenBatchFull, perJobResults",
    ),
    Contender(
        name="pg-boss-batch",
        title="pg-boss, transactional batch",
        program="pg_boss",
        distribution="pg-boss",
        runtime="node",
        settings={"batch": 100, "concurrency": 1, "pool": 1, "transactional": 1},
        batch=True,
        source="docs/api/workers.md: transactional; one transaction a batch, in which one failing job fails all",
    ),
)
CONTENDERS = (*OURS, *PEERS)
