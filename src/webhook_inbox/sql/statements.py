"""
Load every statement of the product from its own file.

A file holds one statement in psycopg's named style, ``%(name)s``, with ``{schema}`` before every table. The schema's
name is quoted once, here; nothing else is ever put into SQL text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

from webhook_inbox.errors import ConfigurationError

_PARAMETER = re.compile(r"%\((\w+)\)s")
_IDENTIFIER_BYTES_MAX = 63  # NAMEDATALEN - 1
DOLLAR_QUOTE = "$webhook_inbox$"  # around the bodies of our functions, which hold the schema's name


@dataclass(frozen=True, slots=True)
class Statement:
    """
    Hold one statement.

    Attributes:
        name: The file's name without ``.sql``.
        text: Ready for psycopg.
        parameters: Names in order of first use.
    """

    name: str
    text: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Hold every statement, rendered for one schema; each field is a file in ``statements/``."""

    begin: Statement
    claim_events: Statement
    drop_body: Statement
    end_worker: Statement
    fail_claimed: Statement
    find_event: Statement
    forget_workers: Statement
    give_back_claimed: Statement
    insert_attempt: Statement
    insert_outbox: Statement
    insert_review: Statement
    lock_order_key: Statement
    make_partitions: Statement
    migration_lock: Statement
    migrations_applied: Statement
    migrations_exist: Statement
    notify: Statement
    pause_endpoint: Statement
    read_only: Statement
    record_conflict: Statement
    record_event: Statement
    record_events: Statement
    record_leased: Statement
    record_migration: Statement
    register_worker: Statement
    renew_lease: Statement
    resume_endpoint: Statement
    return_expired: Statement
    revive_dead: Statement
    seal_effect: Statement
    settle_claimed: Statement
    settle_set: Statement
    status_backlog: Statement
    status_outbox: Statement
    version_applied: Statement
    which_database: Statement

    @classmethod
    def of(cls, schema: str) -> Statements:
        """
        Render every statement for *schema*.

        Raises:
            ConfigurationError: The name cannot be a PostgreSQL identifier.
        """
        return _render(quoted_identifier(schema))


def quoted_identifier(name: str) -> str:
    """
    Quote *name* as PostgreSQL reads identifiers.

    Raises:
        ConfigurationError: Empty, longer than 63 bytes, or with a NUL or something else that no script can hold.
    """
    if not name or "\x00" in name or len(name.encode("utf-8", "replace")) > _IDENTIFIER_BYTES_MAX:
        raise ConfigurationError(f"schema {name[:70]!r} is no PostgreSQL name: 1 to 63 bytes, no NUL")
    if DOLLAR_QUOTE in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise ConfigurationError(f"schema {name!r} cannot be written into a script")
    return '"' + name.replace('"', '""') + '"'


def listen(channel: str) -> str:
    """Give the command that listens to *channel*; LISTEN takes no parameters."""
    return f"LISTEN {quoted_identifier(channel)}"


@cache
def _render(quoted_schema: str) -> Statements:
    # In a statement with parameters psycopg reads a lone % as the start of one.
    schema = quoted_schema.replace("%", "%%")
    return Statements(**{field.name: _statement(field.name, schema) for field in fields(Statements)})


def _statement(name: str, schema: str) -> Statement:
    source = files("webhook_inbox.sql").joinpath("statements", f"{name}.sql").read_text(encoding="utf-8")
    body = "\n".join(line for line in source.splitlines() if line.strip() and not line.startswith("--"))
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(body)))
    return Statement(name, body.replace("{schema}", schema), parameters)
