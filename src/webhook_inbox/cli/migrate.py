"""Bring the schema up, say whether it is, or print the SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.options import DatabaseOption, JsonOption, SchemaOption
from webhook_inbox.cli.output import tell, tell_json, visible
from webhook_inbox.errors import ConfigurationError, KeyBusyError, MigrationError, StatementError

if TYPE_CHECKING:
    from webhook_inbox.protocol.migrate import SchemaStatus
    from webhook_inbox.protocol.steps import Plan

_SCRIPT = re.compile(r"\.(\d{4}_\w+)\.before$")


def migrate(
    *,
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

    Run it at every deployment, before the new release serves. It is safe to run twice, at once, and to kill: each
    migration is one transaction. The database user needs CREATE on the database; the serving user does not.
    """
    if check and sql:
        raise ConfigurationError("--check and --sql are two questions; ask one")
    if sql:
        return _print_sql(schema, json=json)
    if check:
        return _check(database, schema, json=json)
    return _bring_up(database, schema, lock_wait_seconds, json=json)


def _print_sql(schema: str, *, json: bool) -> int:
    from webhook_inbox.sql.migrations import migration_script

    script = migration_script(schema)
    if json:
        tell_json({"schema": schema, "sql": script})
    else:
        tell(script.rstrip("\n"))
    return GOOD


def _check(database: str | None, schema: str, *, json: bool) -> int:
    from webhook_inbox.cli.database import run_plan
    from webhook_inbox.protocol.migrate import schema_status

    status = run_plan(database, lambda: schema_status(schema))
    if json:
        tell_json({**_facts(status), "served": status.served, "pending": status.pending})
    else:
        tell(_verdict(status))
    return GOOD if status.served else BAD


def _bring_up(database: str | None, schema: str, lock_wait_seconds: float, *, json: bool) -> int:
    from webhook_inbox.cli.database import run_plan

    progress = _Progress(quiet=json)
    try:
        applied, status = run_plan(database, lambda: _checked(schema, lock_wait_seconds), probe=progress)
    except KeyBusyError as error:
        raise MigrationError(
            f"{progress.step}: a lock did not come free within {lock_wait_seconds:g} s; nothing of this step is "
            "applied. Another migrator is at work, or a long transaction holds a table: see pg_stat_activity"
        ) from error
    except StatementError as error:
        raise MigrationError(f"{progress.step}: {error}; nothing of this step is applied") from error
    if json:
        tell_json({**_facts(status), "migrations": list(applied)})
    else:
        tell(f"{'' if applied else 'nothing to do: '}schema {visible(schema)} is at version {status.applied}")
    return GOOD


def _checked(schema: str, lock_wait_seconds: float) -> Plan[tuple[tuple[str, ...], SchemaStatus]]:
    """Migrate, but not a schema that is newer than this release can serve."""
    from webhook_inbox.protocol.migrate import check_schema, migrate as apply_pending, schema_status

    status = yield from schema_status(schema)
    if status.applied > status.known:
        yield from check_schema(schema)
    applied = yield from apply_pending(schema, lock_wait_seconds=lock_wait_seconds)
    return applied, (yield from schema_status(schema))


class _Progress:
    """
    Print each migration when the server has confirmed its commit; told every fault point of the plan.

    Attributes:
        step: What is under way.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.step = "migrating"
        self._quiet = quiet
        self._name = ""

    def __call__(self, point: str) -> None:
        if match := _SCRIPT.search(point):
            self._name = match[1]
            self.step = f"migration {self._name}"
        elif point.endswith(".commit.after"):
            if self._name and not self._quiet:
                tell(f"applied {self._name}")
            self.step, self._name = "migrating", ""


def _facts(status: SchemaStatus) -> dict[str, object]:
    return {"schema": status.schema, "version": status.applied, "known_version": status.known}


def _verdict(status: SchemaStatus) -> str:
    from webhook_inbox.protocol.migrate import migrate_command

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
    return f"schema {schema} is {found}: run `{migrate_command(status.schema)}`"
