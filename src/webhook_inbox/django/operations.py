"""Apply our own migrations as operations of Django's."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import router
from django.db.migrations.operations.base import Operation

from webhook_inbox.django import conf
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sql.migrations import removal_statement, upgrade_statement


class BringUp(Operation):
    """
    Bring the schema up to *version*, with the SQL of ``webhook-inbox migrate`` and into the same account.

    It acts on the database that ``WEBHOOK_INBOX_DATABASE`` names, unless a router forbids it, and on no other. Undone,
    the first version takes the schema away, if no event and no message is in it; a later one leaves it as it is, as an
    older release works on it.
    """

    reduces_to_sql: ClassVar[bool] = True
    reversible: ClassVar[bool] = True

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Change nothing of what Django knows: our tables are not its own."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Apply what is not applied yet."""
        if _is_meant(app_label, schema_editor.connection):
            schema_editor.execute(upgrade_statement(conf.schema(), to=self.version), params=None)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        """Take the schema away, where this is its first version."""
        if self.version == 1 and _is_meant(app_label, schema_editor.connection):
            schema_editor.execute(removal_statement(conf.schema()), params=None)

    def describe(self) -> str:
        """Say what it does."""
        return f"Bring the webhook inbox's schema to version {self.version}"

    @property
    def migration_name_fragment(self) -> str:
        """Name a migration after it."""
        return f"version_{self.version}"


def _is_meant(app_label: str, connection: Any) -> bool:
    if connection.alias != conf.alias() or not router.allow_migrate(connection.alias, app_label):
        return False
    if connection.vendor != "postgresql":
        raise ConfigurationError(
            f"the webhook inbox keeps its tables in PostgreSQL, and the database {connection.alias!r} is "
            f"{connection.display_name}: name another one in WEBHOOK_INBOX_DATABASE"
        )
    return True
