"""Remember the user's tables, put them back, and compare them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.rows import State

Connection: TypeAlias = psycopg.Connection[Any]
_KEPT = "webhook_inbox_proof"
_COLUMNS = """
    SELECT n.nspname, c.relname, a.attname, a.attgenerated <> '', a.attidentity <> '',
           coalesce(pg_get_expr(d.adbin, d.adrelid), '')
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relkind = 'r' AND n.nspname <> ALL (%s) AND n.nspname NOT LIKE 'pg\\_%%'
    ORDER BY n.nspname, c.relname, a.attnum
"""
_SEQUENCES = """
    SELECT schemaname, sequencename, coalesce(last_value, start_value), last_value IS NOT NULL FROM pg_sequences
"""
# What another run gives another value, whatever the handler does.
_EACH_TIME = re.compile(r"nextval\(|now\(\)|CURRENT_|clock_timestamp|_timestamp\(|uuid|random", re.IGNORECASE)


class Tables:
    """
    Hold the user's tables of one database as they were at first; *conn* is in autocommit and stays the caller's.

    Args:
        schema: Ours, whose tables are emptied; of these, the messages are compared too.
        only: ``schema.table`` or ``table`` of those to compare; empty: all.
        ignore: ``table.column`` that is not compared. Columns whose value is made anew with each row (identity, a
            sequence, the time, a random UUID) are not, anyhow.

    Raises:
        ConfigurationError: One of *only* is not there.
    """

    def __init__(
        self, conn: Connection, schema: str, *, only: Collection[str] = (), ignore: Collection[str] = ()
    ) -> None:
        self._conn = conn
        self._schema = schema
        self._empty = Statements.of(schema).empty_tables.text
        self._stored: dict[tuple[str, str], list[str]] = {}
        self._compared: dict[str, sql.Composed] = {}
        hidden = [schema, _KEPT, "information_schema"]
        columns: dict[tuple[str, str], list[str]] = {}
        for space, name, column, generated, identity, default in conn.execute(_COLUMNS, [hidden]):
            if not generated:
                self._stored.setdefault((space, name), []).append(column)
            compared = columns.setdefault((space, name), [])
            if not (identity or _EACH_TIME.search(default) or f"{name}.{column}" in ignore):
                compared.append(column)
        self._choose(columns, set(only))
        self._restoring = self._keep()

    def _choose(self, columns: Mapping[tuple[str, str], list[str]], only: set[str]) -> None:
        there = {each for space, name in columns for each in (name, f"{space}.{name}")}
        if missing := only - there:
            raise ConfigurationError(f"there is no table {', '.join(sorted(missing))} to compare")
        for (space, name), compared in columns.items():
            if not only or only & {name, f"{space}.{name}"}:
                self._compared[f"{space}.{name}"] = _reading(space, name, compared)
        told = ["event_type", "aggregate_type", "aggregate_id", "payload", "destination"]
        self._compared[f"{self._schema}.outbox"] = _reading(self._schema, "outbox", told)

    def _keep(self) -> str:
        """Copy the tables, and give the SQL that puts them back."""
        kept = sql.Identifier(_KEPT)
        self._conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE; CREATE SCHEMA {}").format(kept, kept))
        # No trigger and no foreign key minds what is put back as it was.
        steps: list[sql.Composable] = [sql.SQL("BEGIN; SET LOCAL session_replication_role = replica")]
        for number, ((space, name), stored) in enumerate(self._stored.items()):
            copy, table = sql.Identifier(_KEPT, f"t{number}"), sql.Identifier(space, name)
            columns = sql.SQL(", ").join(map(sql.Identifier, stored))
            self._conn.execute(sql.SQL("CREATE TABLE {} AS SELECT {} FROM {}").format(copy, columns, table))
            steps.append(sql.SQL("DELETE FROM {}").format(table))
            again = "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT {} FROM {}"
            steps.append(sql.SQL(again).format(table, columns, columns, copy))
        for space, name, value, called in self._conn.execute(_SEQUENCES):
            if space not in {self._schema, _KEPT}:
                place = sql.Identifier(space, name).as_string(self._conn)
                steps.append(sql.SQL("SELECT setval({}, {}, {})").format(place, value, called))
        return sql.SQL("; ").join(steps).as_string(self._conn)

    def restore(self) -> None:
        """Put the tables back as they were, and empty ours."""
        self._conn.execute(f"{self._restoring}; {self._empty}; COMMIT".encode())

    def forget(self) -> None:
        """Put the tables back, and leave nothing else behind."""
        self.restore()
        self._conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(_KEPT)))

    def state(self) -> State:
        """Give the rows of each table, as text and without an order."""
        return {name: Counter(self._conn.execute(query).fetchall()) for name, query in self._compared.items()}


def _reading(space: str, name: str, columns: list[str]) -> sql.Composed:
    texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(each)) for each in columns)
    return sql.SQL("SELECT {} FROM {}").format(texts, sql.Identifier(space, name))
