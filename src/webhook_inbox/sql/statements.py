"""
Load every statement of the product from its own file.

A file holds one statement in psycopg's named style, ``%(name)s``, with ``{schema}`` before every table. The schema's
name is quoted once, here; nothing else is ever put into SQL text, but for what several statements share: a part of them
that is a file in ``fragments/``, at ``{fragments/name}``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

from webhook_inbox.errors import ConfigurationError

_PARAMETER = re.compile(r"%\((\w+)\)s")
_FRAGMENT = re.compile(r"\{fragments/(\w+)\}")
_IDENTIFIER_BYTES_MAX = 63  # NAMEDATALEN - 1
DOLLAR_QUOTE = (
    "$webhook_inbox"  # begins what is around the bodies of our functions, which hold the schema's name
)


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

    add_counts: Statement
    begin: Statement
    bring_forward: Statement
    claim_events: Statement
    claim_messages: Statement
    claim_trial: Statement
    count_events: Statement
    doctor_bodies: Statement
    doctor_privileges: Statement
    doctor_server: Statement
    doctor_settings: Statement
    doctor_tables: Statement
    drop_body: Statement
    drop_day: Statement
    empty_tables: Statement
    end_worker: Statement
    erase_events: Statement
    fail_claimed: Statement
    find_event: Statement
    find_known: Statement
    find_row_at: Statement
    forget_counters: Statement
    forget_endpoint: Statement
    forget_workers: Statement
    give_back_claimed: Statement
    hold_reconcile: Statement
    import_events: Statement
    insert_attempt: Statement
    insert_outbox: Statement
    insert_review: Statement
    limit_endpoint: Statement
    list_attempts: Statement
    list_audit: Statement
    list_endpoints: Statement
    list_erasable: Statement
    list_messages: Statement
    list_newest_events: Statement
    list_oldest_events: Statement
    list_prunes: Statement
    list_reconciles: Statement
    list_reviews: Statement
    lock_events: Statement
    lock_limit: Statement
    lock_messages: Statement
    lock_order_key: Statement
    lock_outbox: Statement
    make_partitions: Statement
    measure_limits: Statement
    messages_written: Statement
    migration_lock: Statement
    migrations_applied: Statement
    migrations_exist: Statement
    note_prunes: Statement
    note_reconcile: Statement
    notify: Statement
    operate_events: Statement
    outbox_lag: Statement
    pause_endpoint: Statement
    prune_bodies: Statement
    prune_events: Statement
    prune_outbox: Statement
    publish_messages: Statement
    read_only: Statement
    record_conflict: Statement
    record_event: Statement
    record_events: Statement
    record_leased: Statement
    record_migration: Statement
    register_worker: Statement
    rehearse_commit: Statement
    rehearse_event: Statement
    renew_lease: Statement
    reroute_messages: Statement
    resolve_reviews: Statement
    resume_endpoint: Statement
    retry_messages: Statement
    return_expired: Statement
    return_sends: Statement
    revive_dead: Statement
    route_messages: Statement
    rows_written: Statement
    seal_effect: Statement
    settle_claimed: Statement
    settle_sent: Statement
    settle_set: Statement
    settle_unsent: Statement
    show_body: Statement
    spend_rate: Statement
    status_backlog: Statement
    status_counters: Statement
    status_outbox: Statement
    status_unhandled: Statement
    stranded_sends: Statement
    stuck_messages: Statement
    version_applied: Statement
    which_database: Statement
    witness_events: Statement
    witness_outbox: Statement
    witness_reviews: Statement
    worker_lives: Statement

    @classmethod
    def of(cls, schema: str) -> Statements:
        """
        Render every statement for *schema*.

        Raises:
            ConfigurationError: The name cannot be a PostgreSQL identifier.
        """
        return _render(quoted_identifier(schema))


def quoted_identifier(name: str, *, kind: str = "schema") -> str:
    """
    Quote *name* as PostgreSQL reads identifiers.

    Args:
        kind: What it is the name of, for the error.

    Raises:
        ConfigurationError: Empty, longer than 63 bytes, or with a NUL or something else that no script can hold.
    """
    if not name or "\x00" in name or len(name.encode("utf-8", "replace")) > _IDENTIFIER_BYTES_MAX:
        raise ConfigurationError(f"{kind} {name[:70]!r} is no PostgreSQL name: 1 to 63 bytes, no NUL")
    # A search_path reads $user, in quotes too, as the schema that is called as the user is.
    if (
        name == "$user"
        or DOLLAR_QUOTE in name
        or any("\ud800" <= character <= "\udfff" for character in name)
    ):
        raise ConfigurationError(f"{kind} {name!r} cannot be written into a script")
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
    body = _FRAGMENT.sub(lambda found: _sql("fragments", found[1]), _sql("statements", name))
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(body)))
    return Statement(name, body.replace("{schema}", schema), parameters)


def _sql(folder: str, name: str) -> str:
    """Read a file without its comments."""
    source = files("webhook_inbox.sql").joinpath(folder, f"{name}.sql").read_text(encoding="utf-8")
    return "\n".join(line for line in source.splitlines() if line.strip() and not line.startswith("--"))
