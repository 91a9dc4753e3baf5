"""Which statements each part of the product runs, and a database with the roles that are to run them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import psycopg
from psycopg import sql

from tests.fixtures.postgres import PostgresServer
from webhook_inbox.sql.roles import role_names, roles_script
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.databases import apply_migrations

RECEIVES = """
    add_counts begin find_event migrations_applied migrations_exist notify read_only record_conflict record_events
    which_database worker_lives
"""
LOOKS = """
    count_events doctor_bodies doctor_privileges doctor_server doctor_settings doctor_tables find_event find_row_at
    list_attempts list_audit list_endpoints list_messages list_newest_events list_oldest_events list_reconciles
    list_reviews messages_written show_body status_backlog status_counters status_outbox status_unhandled
    stuck_messages worker_lives
"""
LEASES = "end_worker register_worker renew_lease"
#: Which statements each part runs.
RUNS = {
    "receiver": RECEIVES,
    "worker": f"""
        {RECEIVES} {LEASES} claim_events drop_body drop_day fail_claimed find_known find_row_at forget_counters
        forget_workers give_back_claimed hold_reconcile insert_attempt insert_outbox insert_review list_endpoints
        list_prunes list_reconciles lock_limit lock_order_key make_partitions measure_limits note_prunes
        note_reconcile prune_bodies prune_events record_event record_leased rehearse_commit rehearse_event
        return_expired revive_dead rows_written seal_effect settle_claimed settle_set spend_rate status_backlog
        version_applied
    """,
    "relay": f"""
        {LEASES} begin claim_messages claim_trial lock_messages lock_outbox migrations_applied migrations_exist
        outbox_lag prune_outbox publish_messages reroute_messages return_sends route_messages settle_sent
        settle_unsent
        stranded_sends stuck_messages worker_lives
    """,
    "operator": f"""
        {LOOKS} drop_day forget_counters forget_endpoint limit_endpoint lock_events operate_events pause_endpoint
        prune_bodies prune_events record_events resolve_reviews resume_endpoint retry_messages
    """,
    "reader": LOOKS,
}
#: What is the owner's alone, and what only the testing kit runs, which is for databases of a test's own.
NOBODYS = """
    bring_forward empty_tables erase_events import_events list_erasable migration_lock record_migration
    witness_events witness_outbox witness_reviews
"""
RUN_BY = {part: frozenset(names.split()) for part, names in RUNS.items()}


GRANTED = """
    WITH schema AS (SELECT to_regnamespace(quote_ident(%(schema)s)) AS id), acls AS (
        SELECT relname::text AS name, acl.*, '' AS part
        FROM pg_class JOIN schema ON relnamespace = schema.id, aclexplode(relacl) acl
        UNION ALL
        SELECT relname, acl.*, attname
        FROM pg_class JOIN schema ON relnamespace = schema.id JOIN pg_attribute ON attrelid = pg_class.oid,
             aclexplode(attacl) acl
        UNION ALL
        SELECT proname, acl.*, '' FROM pg_proc JOIN schema ON pronamespace = schema.id, aclexplode(proacl) acl
    )
    SELECT rolname::text, name, privilege_type, part FROM acls JOIN pg_roles ON pg_roles.oid = grantee
    WHERE rolname = ANY (%(roles)s) AND rolname NOT LIKE '%%owner'"""


@dataclass(frozen=True)
class Stage:
    """A database with our schema and its roles, and a superuser's connection to it."""

    conn: psycopg.Connection[Any]
    schema: str
    prefix: str

    @property
    def names(self) -> dict[str, str]:
        """The roles' names."""
        return role_names(self.prefix)

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Take back what the block does."""
        with self.conn.transaction(force_rollback=True):
            yield

    @contextmanager
    def acting_as(self, part: str) -> Iterator[psycopg.Connection[Any]]:
        """The connection under the role of *part*; what the block does is taken back."""
        with self.undone():
            self.conn.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(self.names[part])))
            yield self.conn

    def may(self, part: str, statement: str) -> str:
        """Why *part* may not run *statement*; empty where it may."""
        parameters = getattr(Statements.of(self.schema), statement).parameters
        values = f"({', '.join(['NULL'] * len(parameters))})" if parameters else ""
        try:
            with self.acting_as(part) as conn:
                conn.execute(f"EXPLAIN EXECUTE {statement}{values}".encode())
                if statement == "record_events":  # EXPLAIN looks into no function
                    self.conn.execute(
                        sql.SQL("SELECT {}()").format(sql.Identifier(self.schema, "next_event_id"))
                    )
        except psycopg.errors.InsufficientPrivilege as error:
            return str(error)
        return ""

    def granted(self) -> set[tuple[str, str, str, str]]:
        """Every (part, object, privilege, column) that the database holds for our roles."""
        rows = self.conn.execute(
            GRANTED, {"schema": self.schema, "roles": list(self.names.values())}
        ).fetchall()
        parts = {name: part for part, name in self.names.items()}
        return {(parts[role], *rest) for role, *rest in rows}


def revoke(stage: Stage, part: str, name: str, right: str, column: str) -> None:
    """Take one grant from a role."""
    kind = {"EXECUTE": "FUNCTION", "USAGE": "SEQUENCE"}.get(right, "TABLE")
    named = right if not column else f"{right} ({column})"
    stage.conn.execute(
        sql.SQL("REVOKE {} ON {} {} FROM {}").format(
            sql.SQL(named),
            sql.SQL(kind),
            sql.Identifier(stage.schema, name),
            sql.Identifier(stage.names[part]),
        )
    )


def made(postgres: PostgresServer, schema: str) -> Iterator[Stage]:
    """Make a database with *schema* and roles of its own; both go again."""
    name, prefix = postgres.create(), f"t{secrets.token_hex(4)} 'q\""
    dsn = postgres.direct_dsn_of(name)
    apply_migrations(dsn, schema)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(roles_script(schema, prefix=prefix).encode())
        for field in fields(Statements):
            statement = getattr(Statements.of(schema), field.name)
            text = statement.text
            for number, parameter in enumerate(statement.parameters, start=1):
                text = text.replace(f"%({parameter})s", f"${number}")
            conn.execute(f"PREPARE {field.name} AS {text.replace('%%', '%')}".encode())
        conn.execute("SET plan_cache_mode = force_generic_plan")
        yield Stage(conn, schema, prefix)
        for role in role_names(prefix).values():
            conn.execute(sql.SQL("DROP OWNED BY {0} CASCADE").format(sql.Identifier(role)))
            conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
    postgres.drop(name)
