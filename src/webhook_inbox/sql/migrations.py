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

from webhook_inbox.sql.statements import quoted_identifier

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_PLACE = re.compile(r"\{schema(?:_text)?\}")
PARTITION_DAYS_AHEAD = 30

# The oldest schema version that a release must know in order to work on a schema with this migration; by version.
SERVES_FROM: dict[int, int] = {1: 1, 2: 1}


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
    return _rendered("bootstrap.sql", schema)


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
            text=_rendered(match[0], schema),
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


def _rendered(name: str, schema: str) -> str:
    text = files("webhook_inbox.sql").joinpath("migrations", name).read_text(encoding="utf-8")
    places = {"{schema}": quoted_identifier(schema), "{schema_text}": _quoted_text(schema)}
    return _PLACE.sub(lambda found: places[found[0]], text)


def _quoted_text(text: str) -> str:
    """Quote *text* as a constant, whatever ``standard_conforming_strings`` says."""
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
