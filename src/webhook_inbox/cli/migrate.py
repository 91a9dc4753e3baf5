"""Bring the schema up, say whether it is, or print the SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.options import AppArgument, DatabaseOption, JsonOption, SchemaOption
from webhook_inbox.cli.output import tell, tell_json, visible
from webhook_inbox.cli.store import Store
from webhook_inbox.errors import ConfigurationError

if TYPE_CHECKING:
    from webhook_inbox.protocol.migrate import SchemaStatus


def migrate(
    *,
    context: typer.Context,
    app: AppArgument = None,
    database: DatabaseOption = None,
    schema: SchemaOption = "webhooks",
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            show_envvar=False,
            help="Change nothing; say whether this release can serve the schema, exit 1 if not.",
        ),
    ] = False,
    sql: Annotated[
        bool,
        typer.Option("--sql", show_envvar=False, help="Print the SQL for psql and connect to nothing."),
    ] = False,
    lock_wait_seconds: Annotated[
        float,
        typer.Option(
            "--lock-wait-seconds",
            metavar="N",
            min=0.001,
            max=3_600,
            show_envvar=False,
            help="How long to wait for a lock that others hold.",
        ),
    ] = 10.0,
    json: JsonOption = False,
) -> int:
    """
    Bring the database schema up.

    Run it at every deployment, before the new release serves: for the database of APP, else the one that --database
    names. It is safe to run twice, at once, and to kill: each migration is one transaction. The database user needs
    CREATE on the database; the serving user does not.
    """
    if check and sql:
        raise ConfigurationError("--check and --sql are two questions; ask one")
    store = Store(context, app, database, schema)
    if sql:
        return _print_sql(store.schema, json=json)
    if check:
        return _check(store, json=json)
    return _bring_up(store, lock_wait_seconds, json=json)


def _print_sql(schema: str, *, json: bool) -> int:
    from webhook_inbox.sql.migrations import migration_script

    script = migration_script(schema)
    if json:
        tell_json({"schema": schema, "sql": script})
    else:
        tell(script.rstrip("\n"))
    return GOOD


def _check(store: Store, *, json: bool) -> int:
    from webhook_inbox.protocol.migrate import schema_status

    status = store.perform(schema_status)
    if json:
        tell_json({**_facts(status), "served": status.served, "pending": status.pending})
    else:
        tell(_verdict(status, store.migrate))
    return GOOD if status.served else BAD


def _bring_up(store: Store, lock_wait_seconds: float, *, json: bool) -> int:
    from webhook_inbox.protocol.migrate import Progress, bring_up

    applied: list[str] = []

    class Telling(Progress):
        """Say each migration when the server has confirmed its commit."""

        def applied(self, name: str) -> None:
            super().applied(name)
            applied.append(name)
            if not json:
                tell(f"applied {name}")

    status = store.perform(
        lambda schema: bring_up(schema, lock_wait_seconds=lock_wait_seconds, progress=Telling())
    )
    if json:
        tell_json({**_facts(status), "migrations": applied})
    else:
        tell(
            f"{'' if applied else 'nothing to do: '}schema {visible(status.schema)} is at version {status.applied}"
        )
    return GOOD


def _facts(status: SchemaStatus) -> dict[str, object]:
    return {"schema": status.schema, "version": status.applied, "known_version": status.known}


def _verdict(status: SchemaStatus, command: str) -> str:
    schema = visible(status.schema)
    if status.served:
        newer = (
            f", newer than this release's {status.known} and compatible"
            if status.applied > status.known
            else ""
        )
        return f"schema {schema} is at version {status.applied}{newer}: good"
    if status.applied > status.known:
        return (
            f"schema {schema} is at version {status.applied}, too new for this release: upgrade webhook-inbox"
        )
    found = f"at version {status.applied} of {status.known}" if status.applied else "not there"
    return f"schema {schema} is {found}: run `{command}`"
