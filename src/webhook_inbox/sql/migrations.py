"""
List the migrations, in order.

A file ``NNNN_name.sql`` is one step, transactional unless its second line says otherwise. Steps come so that the
previous release survives them; a step that it does not survive raises ``serves_from`` in the table below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sql.rendering import rendered
from webhook_inbox.sql.statements import quoted_identifier

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
PARTITION_DAYS_AHEAD = 30

# The oldest schema version that a release must know in order to work on a schema with this migration; by version.
SERVES_FROM: dict[int, int] = {1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1, 9: 1, 10: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """
    Hold one step.

    Attributes:
        version: From 1, without gaps.
        name: As in the file's name.
        serves_from: A release that knows this version or a newer one works on the schema after this step.
        text: SQL, several statements, rendered for one schema.
    """

    version: int
    name: str
    serves_from: int
    text: str


def bootstrap(schema: str) -> str:
    """Give the SQL that makes the schema and its table of migrations; harmless where they exist."""
    return rendered("migrations/bootstrap.sql", schema)


@cache
def migrations(schema: str) -> tuple[Migration, ...]:
    """
    Give every step for *schema*, ascending.

    Raises:
        ConfigurationError: The name cannot be a PostgreSQL identifier.
    """
    quoted_identifier(schema)
    found = sorted(
        (
            match
            for entry in files("webhook_inbox.sql").joinpath("migrations").iterdir()
            if (match := _FILE.fullmatch(entry.name))
        ),
        key=lambda match: match[1],
    )
    return tuple(
        Migration(
            version=int(match[1]),
            name=match[2],
            serves_from=SERVES_FROM[int(match[1])],
            text=rendered(f"migrations/{match[0]}", schema),
        )
        for match in found
    )


def migration_script(schema: str) -> str:
    """
    Give all migrations of *schema* as one script for psql, for a database that has none of them.

    It is one transaction: everything or nothing.

    Raises:
        ConfigurationError: The name cannot be a PostgreSQL identifier.
    """
    steps = migrations(schema)
    table = f"{quoted_identifier(schema)}.migrations"
    parts = [
        f"-- webhook-inbox: the schema {schema!r}, from nothing to version {steps[-1].version}.",
        "BEGIN;",
        bootstrap(schema),
    ]
    for step in steps:
        row = f"({step.version}, '{step.name}', {step.serves_from})"
        parts += [step.text, f"INSERT INTO {table} (version, name, serves_from) VALUES {row};"]  # noqa: S608 - our own files' names
    parts.append(f"SELECT {quoted_identifier(schema)}.make_body_partitions({PARTITION_DAYS_AHEAD});")
    return "\n".join([*parts, "COMMIT;", ""])


def upgrade_statement(schema: str, *, to: int) -> str:
    """
    Give one statement that brings *schema* up to version *to* from whatever it is at, within the caller's transaction.

    For those who run our migrations among theirs: Alembic, Django. Steps that are applied already are left out.

    Raises:
        ConfigurationError: This release knows no such version, or the name cannot be a PostgreSQL identifier.
    """
    steps = migrations(schema)
    if not 1 <= to <= steps[-1].version:
        raise ConfigurationError(
            f"schema version {to!r}: this release of webhook-inbox knows versions 1 to {steps[-1].version}"
        )
    rows = ",\n".join(
        f"({step.version}, '{step.name}', {step.serves_from}, $webhook_inbox_text$\n{step.text}$webhook_inbox_text$)"
        for step in steps[:to]
    )
    return rendered(
        "migrations/upgrade.sql",
        schema,
        to=to,
        bootstrap=bootstrap(schema).strip(),
        steps=rows,
        days_ahead=PARTITION_DAYS_AHEAD,
    )


def removal_statement(schema: str) -> str:
    """
    Give one statement that takes *schema* away within the caller's transaction, if no event and no message is in it.

    Raises:
        ConfigurationError: The name cannot be a PostgreSQL identifier.
    """
    return rendered(
        "migrations/remove.sql",
        schema,
        known=migrations(schema)[-1].version,
        **{kind: _listed(made(kind, schema), schema) for kind in ("views", "tables", "functions")},
    )


def made(kind: Literal["views", "tables", "functions"], schema: str) -> tuple[str, ...]:
    """Name what the steps make of *kind*, in their order; a partition goes with its table."""
    prefix = re.escape(quoted_identifier(schema))
    found = re.compile(
        rf"^CREATE (?:OR REPLACE )?{kind[:-1].upper()} (?:IF NOT EXISTS )?{prefix}\.(\w+)(?! PARTITION OF)\b",
        re.MULTILINE,
    )
    texts = [bootstrap(schema), *(step.text for step in migrations(schema))]
    return tuple(dict.fromkeys(name for text in texts for name in found.findall(text)))


def _listed(names: tuple[str, ...], schema: str) -> str:
    return ", ".join(f"{quoted_identifier(schema)}.{name}" for name in names)
