"""
Apply our migrations from a revision of Alembic's, and keep autogenerate away from our tables.

    import webhook_inbox.alembic
    from alembic import op

    def upgrade() -> None:
        webhook_inbox.alembic.upgrade(op, to=10)

It is the same SQL as ``webhook-inbox migrate`` runs and the same table that says what was applied, so either may
follow the other. It runs on Alembic's connection, whatever driver that is of, and commits when Alembic does; ``--sql``
prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.protocol.migrate import DEFAULT_SCHEMA
from webhook_inbox.sql.migrations import removal_statement, upgrade_statement

if TYPE_CHECKING:
    from alembic.runtime.migration import MigrationContext
    from sqlalchemy import Connection

__all__ = ["downgrade", "include_name", "include_object", "upgrade"]


class Op(Protocol):
    """Name what is needed of ``alembic.op``, the module, or of an ``Operations`` object."""

    def get_bind(self) -> Connection: ...
    def get_context(self) -> MigrationContext: ...


def upgrade(op: Op, *, to: int, schema: str = DEFAULT_SCHEMA) -> None:
    """
    Bring *schema* up to version *to*, from whatever it is at; leave a newer one as it is.

    Args:
        op: ``alembic.op``.
        to: Pinned in the revision, so that it does the same under every later release. ``webhook-inbox
            migrate --check`` names the newest that this one knows.
        schema: As in ``Inbox(schema=...)``.

    Raises:
        ConfigurationError: This release knows no such version, or the database is not PostgreSQL.
        sqlalchemy.exc.DBAPIError: The server refused; nothing is applied.
    """
    _run(op, upgrade_statement(schema, to=to))


def downgrade(op: Op, *, schema: str = DEFAULT_SCHEMA) -> None:
    """
    Take *schema* away, if no event and no message is in it: for the revision that made it.

    A revision that brought an existing schema further has nothing to undo, as the older release works on the newer
    schema.

    Raises:
        ConfigurationError: The database is not PostgreSQL.
        sqlalchemy.exc.DBAPIError: There are events or messages, or another object depends on ours, or the transaction
            is not in READ COMMITTED and might not see them; nothing is deleted (P-KEEP).
    """
    _run(op, removal_statement(schema))


def include_name(
    name: str | None, type_: str, parent_names: Mapping[str, str | None], *, schema: str = DEFAULT_SCHEMA
) -> bool:
    """
    Say whether autogenerate shall read what the database calls *name*: anything but our schema and what is in it.

    For ``context.configure(include_name=...)``; with another schema ``functools.partial(include_name, schema="...")``.
    """
    return (name if type_ == "schema" else parent_names.get("schema_name")) != schema


def include_object(
    item: object,
    name: str | None,  # noqa: ARG001 - Alembic's signature, this one and the next two
    type_: str,  # noqa: ARG001
    reflected: bool,  # noqa: ARG001, FBT001
    compare_to: object,  # noqa: ARG001
    *,
    schema: str = DEFAULT_SCHEMA,
) -> bool:
    """
    Say whether autogenerate shall compare *item*: anything but tables in our schema, and what belongs to them.

    For ``context.configure(include_object=...)``, for those who map tables of ours (the outbox, say) in their own
    metadata.
    """
    return getattr(getattr(item, "table", item), "schema", None) != schema


def _run(op: Op, statement: str) -> None:
    context = op.get_context()
    if context.dialect.name != "postgresql":
        raise ConfigurationError(
            f"webhook-inbox keeps its tables in PostgreSQL, not in {context.dialect.name}"
        )
    if context.as_sql:
        context.impl.static_output(f"{statement.rstrip()};")
    else:
        # Without parameters, or the driver would read every % in it as the start of one.
        op.get_bind().exec_driver_sql(statement, execution_options={"no_parameters": True})
