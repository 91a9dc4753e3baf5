"""Read what the database can tell about itself that bears on a promise; changes nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from webhook_inbox.protocol.migrate import SchemaStatus, schema_status
from webhook_inbox.protocol.status import Backlog, read_backlog, reading
from webhook_inbox.protocol.steps import All, One, Plan, Rollback, Row, Run, Session
from webhook_inbox.sql.migrations import migrations
from webhook_inbox.sql.roles import PARTS, Part, needs
from webhook_inbox.sql.statements import Statements

_LOOK_SECONDS_MAX = 5.0
_INDEX = re.compile(r"^CREATE INDEX (\w+)|^\s+CONSTRAINT (\w+) UNIQUE", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHealth:
    """
    Hold what the server says.

    Attributes:
        pooled: Whether a pooler stands before it; None where the driver cannot tell.
        skew_seconds: By how much its clock is ahead of this machine's at least; negative: behind.
        read_only: Whether nothing can be written there.
        oldest_seconds: Of the oldest transaction that is open; None where there is none.
        settings: As a session begins with, by name; times in milliseconds.
    """

    pooled: bool | None
    skew_seconds: float
    read_only: bool
    oldest_seconds: float | None
    settings: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth:
    """
    Hold how our tables are kept.

    Attributes:
        missing: Indexes of ours that are not there, or not valid.
        unvacuumed: Tables whose autovacuum is off.
        denied: Privileges that this user needs and lacks, ``INSERT on bodies`` for instance.
        readable: Whether it may read them all.
    """

    missing: tuple[str, ...]
    unvacuumed: tuple[str, ...]
    denied: tuple[str, ...]
    readable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """
    Hold what is in our tables.

    Attributes:
        backlog: What is not settled.
        in_default: Whether bodies of the last two days are in the default partition.
        days_ahead: How many of the next three days have a partition.
        worked: Whether a worker or a relay lives.
    """

    backlog: Backlog
    in_default: bool
    days_ahead: int
    worked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """
    Hold all that the database tells.

    Attributes:
        tables, contents: None where the schema cannot be served, or read.
    """

    server: ServerHealth
    schema: SchemaStatus
    tables: TableHealth | None
    contents: Contents | None


def read_health(
    schema: str, *, parts: Sequence[Part] = PARTS, clock: Callable[[], float] = time.time
) -> Plan[Health]:
    """
    Read the health of *schema* and its server.

    Args:
        parts: What this user does; it needs the privileges for that.
        clock: Gives this machine's time, seconds since 1970.

    Raises:
        StoreError: The database cannot be used at all.
    """
    sql = Statements.of(schema)
    server = yield from _server(sql, clock)
    status = yield from schema_status(schema)
    if not status.served:
        return Health(server=server, schema=status, tables=None, contents=None)
    tables = yield from _tables(sql, schema, parts)
    contents = (yield from _contents(sql, schema)) if tables.readable else None
    return Health(server=server, schema=status, tables=tables, contents=contents)


def _server(sql: Statements, clock: Callable[[], float]) -> Plan[ServerHealth]:
    known_pids: list[int | None] = []

    def ask(session: Session) -> Any:  # noqa: ANN401 - a row, or an awaitable of it
        known_pids.append(_pid_of(session.conn))
        return session.execute(sql.doctor_server, {})

    yield reading(sql)
    yield Run("doctor", ask, _LOOK_SECONDS_MAX)
    before = clock()
    row: Row = yield One(sql.doctor_server)
    after = clock()
    settings: list[Row] = yield All(sql.doctor_settings)
    yield Rollback()
    pid, at, read_only, oldest_seconds = row
    return ServerHealth(
        pooled=None if known_pids[0] is None else known_pids[0] != pid,
        skew_seconds=max(0.0, at - after) + min(0.0, at - before),
        read_only=read_only,
        oldest_seconds=oldest_seconds,
        settings=dict(settings),
    )


def _pid_of(conn: Any) -> int | None:  # noqa: ANN401 - each driver has its own
    """Give the process id that the server's side told the driver; a pooler tells one of its own."""
    info, asked = getattr(conn, "info", None), getattr(conn, "get_server_pid", None)
    found = asked() if callable(asked) else getattr(info, "backend_pid", None)
    return found if isinstance(found, int) else None


def _tables(sql: Statements, schema: str, parts: Sequence[Part]) -> Plan[TableHealth]:
    yield reading(sql)
    rows: list[Row] = yield All(sql.doctor_tables, {"schema": schema})
    denied = yield from _denied(sql, schema, parts)
    unread = yield from _denied(sql, schema, ("reader",))
    yield Rollback()
    valid = set(_of_kind(rows, "index"))
    return TableHealth(
        missing=tuple(name for name in _indexes(schema) if name not in valid),
        unvacuumed=_of_kind(rows, "unvacuumed"),
        denied=denied,
        readable=not unread,
    )


def _denied(sql: Statements, schema: str, parts: Sequence[Part]) -> Plan[tuple[str, ...]]:
    """Say what of all that *parts* need this user lacks, a text for each table and privilege."""
    needed = dict.fromkeys(need for part in parts for need in needs(part))
    names, privileges, columns = zip(*needed, strict=True)
    rows: list[Row] = yield All(
        sql.doctor_privileges,
        {
            "schema": schema,
            "names": list(names),
            "privileges": list(privileges),
            "columns": list(columns),
        },
    )
    lacking: dict[tuple[str, str], list[str]] = {}
    for name, privilege, column in rows:
        lacking.setdefault((name, privilege), []).append(column)
    return tuple(f"{privilege}{_within(of)} on {name}" for (name, privilege), of in lacking.items())


def _within(columns: Sequence[str]) -> str:
    """Give the columns as a GRANT has them; nothing where the whole table is meant."""
    return f" ({', '.join(columns)})" if all(columns) else ""


def _of_kind(rows: Iterable[Row], kind: str) -> tuple[str, ...]:
    return tuple(name for each, name in rows if each == kind)


def _indexes(schema: str) -> tuple[str, ...]:
    """Name the indexes that the migrations make beside primary keys, without which a claim reads whole tables."""
    found = (match for step in migrations(schema) for match in _INDEX.findall(step.text))
    return tuple(index or constraint for index, constraint in found)


def _contents(sql: Statements, schema: str) -> Plan[Contents]:
    backlog = yield from read_backlog(schema)
    yield reading(sql)
    in_default, days_ahead = yield One(sql.doctor_bodies, {"schema": schema})
    lives: Row = yield One(sql.worker_lives, {"besides": ""})
    yield Rollback()
    return Contents(backlog=backlog, in_default=in_default, days_ahead=days_ahead, worked=lives[0])
