"""List who receives, how each is started at its best setting, and where its rows are to be counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.environments import peers_python, project_python
from benchmarks.harness.errors import InvariantError
from benchmarks.harness.ours import migrate
from benchmarks.harness.server import Database
from benchmarks.process.business import TABLES

EVENTS_TABLE = """
    CREATE TABLE webhook_events (
        id text PRIMARY KEY, type text NOT NULL, payload jsonb NOT NULL, received_at timestamptz NOT NULL DEFAULT now()
    )
"""
_UVICORN = (
    "-m",
    "uvicorn",
    "--log-level",
    "warning",
    "--no-access-log",
    "--ws",
    "none",
    "--host",
    "127.0.0.1",
)
_GRANIAN = ("-m", "granian", "--interface", "asgi", "--log-level", "warning", "--no-access-log", "--no-ws")
_SERVE = ("-m", "webhook_inbox", "serve", "--log-level", "warning", "--host", "127.0.0.1")
_GUNICORN = ("-m", "gunicorn", "--log-level", "warning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """
    Hold one receiver.

    Attributes:
        python: Gives the interpreter of the environment it lives in.
        arguments: Its command line behind the interpreter, but for the port.
        port_option: What precedes the port there.
        environment: What it is told beside the database and the secret.
        prepare: Makes its tables.
        count: Counts its events, and raises where one is there twice or in part; None where it stores nothing.
    """

    name: str
    group: str
    title: str
    setting: str
    python: Callable[[], Path]
    arguments: tuple[str, ...]
    port_option: str = "--port"
    environment: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Database], None] = lambda _: None
    count: Callable[[Database], int] | None = None

    def command(self, port: int) -> list[str]:
        """Give the command line that serves on *port*."""
        place = f"127.0.0.1:{port}" if self.port_option == "--bind" else str(port)
        return [str(self.python()), *self.arguments, self.port_option, place]


def _app(name: str) -> str:
    return f"benchmarks.receive.apps.{name}:app"


def _make_events(database: Database) -> None:
    database.execute(EVENTS_TABLE)


def _count_events(database: Database) -> int:
    return int(database.value("SELECT count(*) FROM webhook_events"))


def _count_hookrelay(database: Database) -> int:
    return int(database.value("SELECT count(DISTINCT idempotency_key) FROM hookrelay_events"))


def _make_ours(database: Database) -> None:
    migrate(database)
    database.execute(TABLES)


def _count_queued(database: Database) -> int:
    return int(
        database.value(
            "SELECT count(*) FROM webhooks.inbox JOIN webhooks.bodies USING (received_at, id) WHERE state = 'waiting'"
        )
    )


def _count_run(database: Database) -> int:
    """Count the events, those included that a hybrid endpoint leaves to a worker, if each run has its effect."""
    processed, effects, events = (
        int(database.value(query))
        for query in (
            "SELECT count(*) FROM webhooks.inbox WHERE state = 'processed'",
            "SELECT count(*) FROM ledger",
            "SELECT count(DISTINCT event_id) FROM messages",
        )
    )
    if not processed == effects == events:
        raise InvariantError(f"{processed} events are processed, with {effects} effects of {events} of them")
    return int(
        database.value("SELECT count(*) FROM webhooks.inbox JOIN webhooks.bodies USING (received_at, id)")
    )


def _ours(
    name: str,
    title: str,
    setting: str,
    *arguments: str,
    mode: str = "queued",
    prepared: bool = True,
) -> Receiver:
    return Receiver(
        name=name,
        group="ours",
        title=f"webhook-inbox, {title}",
        setting=f"{setting}{', prepared statements' if prepared else ', the defaults'}",
        python=project_python,
        arguments=arguments,
        environment={
            "BENCHMARK_MODE": mode,
            "WEBHOOK_INBOX_PREPARED_STATEMENTS": str(prepared).lower(),
        },
        prepare=_make_ours,
        count=_count_queued if mode == "queued" else _count_run,
    )


RECEIVERS = (
    Receiver(
        name="http_limit",
        group="limits",
        title="HTTP alone: verify, store nothing",
        setting="a bare ASGI app on uvicorn, one process, uvloop and httptools",
        python=project_python,
        arguments=(*_UVICORN, _app("http_limit")),
    ),
    Receiver(
        name="http_limit_granian",
        group="limits",
        title="HTTP alone, granian",
        setting="the same app on granian, ASGI, one worker",
        python=project_python,
        arguments=(*_GRANIAN, _app("http_limit")),
    ),
    _ours("queued", "queued", "uvicorn, one process", *_UVICORN, _app("ours")),
    _ours(
        "queued_default", "queued, defaults", "uvicorn, one process", *_UVICORN, _app("ours"), prepared=False
    ),
    _ours(
        "queued_serve",
        "queued, serve",
        "`webhook-inbox serve`: uvicorn with a guard before each request's head",
        *_SERVE,
        "benchmarks.receive.apps.ours:inbox",
    ),
    _ours("queued_granian", "queued, granian", "granian, ASGI, one worker", *_GRANIAN, _app("ours")),
    _ours(
        "queued_two",
        "queued, 2 processes",
        "uvicorn, two processes",
        *_UVICORN,
        "--workers",
        "2",
        _app("ours"),
    ),
    _ours(
        "inline",
        "inline, with effect",
        "uvicorn, one process; the three statements are committed before the 200",
        *_UVICORN,
        _app("ours"),
        mode="inline",
    ),
    _ours(
        "hybrid",
        "hybrid, with effect",
        "uvicorn, one process; recorded, then the three statements in the request",
        *_UVICORN,
        _app("ours"),
        mode="hybrid",
    ),
    Receiver(
        name="fastapi_async",
        group="peers",
        title="FastAPI, careful",
        setting="uvicorn, one process; raw body, `verify_header`, an async psycopg_pool of 10",
        python=peers_python,
        arguments=(*_UVICORN, _app("fastapi_async")),
        prepare=_make_events,
        count=_count_events,
    ),
    Receiver(
        name="fastapi_threads",
        group="peers",
        title="FastAPI, the usual recipe",
        setting="uvicorn, one process; `def` on the default thread pool of 40, `construct_event`, a psycopg_pool of 10",
        python=peers_python,
        arguments=(*_UVICORN, _app("fastapi_threads")),
        prepare=_make_events,
        count=_count_events,
    ),
    Receiver(
        name="hookrelay",
        group="peers",
        title="hookrelay",
        setting="its FastAPI router on PostgreSQL, uvicorn, one process, a pool of 10",
        python=peers_python,
        arguments=(*_UVICORN, _app("hookrelay_app")),
        count=_count_hookrelay,
    ),
    Receiver(
        name="django_sync",
        group="peers",
        title="Django, 1 sync worker",
        setting="gunicorn, one sync worker; `construct_event`, `get_or_create`, connections kept",
        python=peers_python,
        arguments=(*_GUNICORN, "--workers", "1", _app("django_app")),
        port_option="--bind",
        prepare=_make_events,
        count=_count_events,
    ),
    Receiver(
        name="django_threads",
        group="peers",
        title="Django, 2 x 8 threads",
        setting="gunicorn, two workers of eight threads; the same app",
        python=peers_python,
        arguments=(*_GUNICORN, "--workers", "2", "--threads", "8", _app("django_app")),
        port_option="--bind",
        prepare=_make_events,
        count=_count_events,
    ),
)
