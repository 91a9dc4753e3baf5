"""Run everything in one process while its code is being written."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from webhook_inbox.cli.extras import require
from webhook_inbox.cli.options import AppArgument, DatabaseOption, LogFormatOption, LogLevelOption
from webhook_inbox.cli.output import say, tell

FOLDER = Path(".webhook-inbox")
_DATABASE_VARIABLES = ("WEBHOOK_INBOX_DATABASE_URL", "DATABASE_URL")
# A change must not wait long for a handler that it may be meant to mend.
_STOP_SECONDS_MAX = "3"


def dev(
    *,
    app: AppArgument = None,
    database: DatabaseOption = None,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", show_envvar=False, help="Where to listen.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="N", min=0, max=65_535, show_envvar=False, help="0 takes any that is free."
        ),
    ] = 8000,
    log_format: LogFormatOption = "text",
    log_level: LogLevelOption = "info",
) -> int:
    """
    Receive, work and relay for APP while you write it, and start anew whenever a .py file changes.

    Without --database it keeps a PostgreSQL of its own in .webhook-inbox/ and hands its DSN on to APP. The schema is
    brought up first. For production there are migrate, serve, worker and relay.
    """
    require("dev", "server", "uvicorn", "httptools", "watchfiles")
    from webhook_inbox.cli.database import run_plan
    from webhook_inbox.cli.dev_server import serve_reloading
    from webhook_inbox.cli.load import load_inbox, refuse_absent
    from webhook_inbox.cli.logs import guard_foreign_loggers, known
    from webhook_inbox.cli.ready import refuse_unready
    from webhook_inbox.cli.server import Serving
    from webhook_inbox.protocol.migrate import migrate

    form = known(log_format, log_level)
    refuse_absent(app)  # the app itself is loaded later: it may ask for its DSN as it is imported
    with _database(database) as dsn:
        os.environ.update(dict.fromkeys(_DATABASE_VARIABLES, dsn))
        os.environ.setdefault("WEBHOOK_INBOX_STOP_SECONDS_MAX", _STOP_SECONDS_MAX)
        inbox = load_inbox(app)
        run_plan(dsn, lambda: migrate(inbox.schema))
        refuse_unready(inbox, app, otherwise="not serving")
        guard_foreign_loggers()
        serving = Serving(
            reference=app or "",
            host=host,
            port=port,
            workers=1,
            concurrency_max=512,
            ops_host="127.0.0.1",
            ops_port=None,
            log_format=form,
            log_level=log_level,
            access_log=False,
            with_worker=True,
            with_relay=bool(inbox.destinations),
            json=False,
        )
        return serve_reloading(serving, inbox)


@contextmanager
def _database(given: str | None) -> Iterator[str]:
    """Yield the DSN of the user's database, else of one that lives as long as the block; its data stays."""
    if given:
        from webhook_inbox.drivers.psycopg_settings import libpq_dsn, place

        say(f"using {place(libpq_dsn(given))}")
        yield given
        return
    from webhook_inbox.embedded import EmbeddedPostgres

    FOLDER.mkdir(mode=0o755, exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    with EmbeddedPostgres(FOLDER / "postgres") as server:
        say(f"PostgreSQL {server.version}, kept in {FOLDER}/:")
        tell(f"psql '{server.dsn}'")
        tell(f"export WEBHOOK_INBOX_DATABASE_URL='{server.dsn}'")
        sys.stdout.flush()
        yield server.dsn
