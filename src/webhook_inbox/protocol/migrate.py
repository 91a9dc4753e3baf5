"""
Bring the schema up, and say whether it is.

Each step runs in a transaction of its own that first takes the migration lock and then looks what is applied. So two
migrators at once take turns step by step, and one that is killed anywhere leaves a schema that the next one finishes.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webhook_inbox.errors import (
    MIGRATE_INBOX,
    KeyBusyError,
    MigrationError,
    SchemaVersionError,
    StatementError,
    StoreUnavailableError,
)
from webhook_inbox.protocol.steps import All, Begin, Commit, One, Plan, Rollback, Script
from webhook_inbox.sql.migrations import PARTITION_DAYS_AHEAD, Migration, bootstrap, migrations
from webhook_inbox.sql.statements import Statements

DEFAULT_SCHEMA = "webhooks"
LOCK_WAIT_SECONDS = 10.0
LOOK_SECONDS_MAX = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStatus:
    """
    Say how a database's schema stands to this release.

    Attributes:
        schema: The schema's name.
        applied: The newest version applied; 0 where there is none.
        known: The newest version that this release knows.
        serves_from: What a release must know to work on the schema as it is.
    """

    schema: str
    applied: int
    known: int
    serves_from: int

    @property
    def served(self) -> bool:
        """Say whether this release can work on the schema."""
        return self.applied >= self.known >= self.serves_from

    @property
    def pending(self) -> int:
        """Count the steps that ``migrate`` would apply."""
        return max(0, self.known - self.applied)


class Progress:
    """
    Know how far a migration has come.

    Attributes:
        step: What is under way, in words.
    """

    step = "migrating"

    def began(self, name: str) -> None:
        """Hear that *name*, ``NNNN_name``, is under way."""
        self.step = f"migration {name}"

    def applied(self, name: str) -> None:  # noqa: ARG002 - for those who tell of it
        """Hear that the server has confirmed the commit of *name*."""
        self.step = "migrating"


def migrate(
    schema: str, *, lock_wait_seconds: float = LOCK_WAIT_SECONDS, progress: Progress | None = None
) -> Plan[tuple[str, ...]]:
    """
    Apply every pending migration of *schema*, oldest first, then make body partitions ahead.

    Args:
        lock_wait_seconds: How long to wait for a lock that others hold: a rival migrator's, or one on a table.
        progress: Told of each step.

    Returns:
        ``NNNN_name`` of each migration that this run applied.

    Raises:
        KeyBusyError: A lock did not come free; the steps before are applied, nothing of this one is.

    Concurrency: Any number of migrators; safe to kill at any step.
    """
    progress = progress or Progress()
    sql = Statements.of(schema)
    lock = Begin(sql.migration_lock, {"schema": schema, "lock_ms": round(lock_wait_seconds * 1000)})
    done: list[str] = []
    while True:
        applied = yield from _apply_next(schema, sql, lock, progress)
        if applied is None:
            break
        progress.applied(applied)
        done.append(applied)
    yield lock
    yield One(sql.make_partitions, {"days_ahead": PARTITION_DAYS_AHEAD})
    yield Commit()
    return tuple(done)


def bring_up(
    schema: str, *, lock_wait_seconds: float = LOCK_WAIT_SECONDS, progress: Progress | None = None
) -> Plan[SchemaStatus]:
    """
    Migrate *schema*, but leave one alone that is newer than this release can serve; give how it stands then.

    Raises:
        MigrationError: A step did not apply; says which and why. Those before it are applied.
        SchemaVersionError: It is too new.
    """
    progress = progress or Progress()
    status = yield from schema_status(schema)
    if status.applied > status.known:
        yield from check_schema(schema)
    try:
        yield from migrate(schema, lock_wait_seconds=lock_wait_seconds, progress=progress)
    except KeyBusyError as error:
        raise MigrationError(
            f"{progress.step}: a lock did not come free within {lock_wait_seconds:g} s; nothing of this step is "
            "applied. Another migrator is at work, or a long transaction holds a table: see pg_stat_activity"
        ) from error
    except StatementError as error:
        raise MigrationError(f"{progress.step}: {error}; nothing of this step is applied") from error
    return (yield from schema_status(schema))


def _apply_next(schema: str, sql: Statements, lock: Begin, progress: Progress) -> Plan[str | None]:
    yield lock
    applied = yield from _applied(schema, sql)
    if not applied:
        yield Script("bootstrap", bootstrap(schema))
    step = _next(migrations(schema), applied)
    if step is None:
        yield Rollback()
        return None
    name = f"{step.version:04}_{step.name}"
    progress.began(name)
    yield Script(name, step.text)
    yield One(
        sql.record_migration, {"version": step.version, "name": step.name, "serves_from": step.serves_from}
    )
    yield Commit()
    return name


def _applied(schema: str, sql: Statements) -> Plan[list[tuple[Any, ...]]]:
    exists = yield One(sql.migrations_exist, {"schema": schema})
    if not exists[0]:
        return []
    rows: list[tuple[Any, ...]] = yield All(sql.migrations_applied)
    return rows


def _next(known: Sequence[Migration], applied: Sequence[tuple[Any, ...]]) -> Migration | None:
    versions = {row[0] for row in applied}
    return next((step for step in known if step.version not in versions), None)


def schema_status(schema: str) -> Plan[SchemaStatus]:
    """Read how *schema* stands to this release; changes nothing."""
    sql = Statements.of(schema)
    yield Begin(sql.migrations_exist, {"schema": schema}, seconds_max=LOOK_SECONDS_MAX)
    applied = yield from _applied(schema, sql)
    yield Rollback()
    return SchemaStatus(
        schema=schema,
        applied=max((row[0] for row in applied), default=0),
        known=migrations(schema)[-1].version,
        serves_from=max((row[2] for row in applied), default=0),
    )


def migrate_command(schema: str) -> str:
    """Give what brings *schema* up, as it is typed into a shell."""
    return "webhook-inbox migrate" + schema_option(schema)


def schema_option(schema: str) -> str:
    """Give the option that names *schema*, as it is typed into a shell; empty where none is needed."""
    return "" if schema == DEFAULT_SCHEMA else f" --schema {shlex.quote(schema)}"


def check_schema(schema: str) -> Plan[None]:
    """
    Refuse a schema that this release cannot serve; a newer compatible one passes.

    Raises:
        SchemaVersionError: Says which side to upgrade, and how.
    """
    status = yield from schema_status(schema)
    if status.served:
        return
    if status.applied > status.known:
        raise SchemaVersionError(
            f"schema {schema!r} is at version {status.applied} and needs a release that knows "
            f"version {status.serves_from} or later; this one knows {status.known}: upgrade webhook-inbox"
        )
    found = f"at version {status.applied}" if status.applied else "not there"
    raise SchemaVersionError(
        f"schema {schema!r} is {found}, this release needs version {status.known}", migrate=MIGRATE_INBOX
    )


def check_ready(schema: str) -> Plan[None]:
    """
    Refuse a database that cannot be written to right now.

    Raises:
        SchemaVersionError: As ``check_schema``.
        StoreUnavailableError: Read-only: a standby, or an operator's setting.
    """
    yield from check_schema(schema)
    row = yield Begin(Statements.of(schema).read_only, seconds_max=LOOK_SECONDS_MAX)
    yield Rollback()
    if row[0]:
        raise StoreUnavailableError("the database is read-only (a failover?)", sqlstate="25006")
