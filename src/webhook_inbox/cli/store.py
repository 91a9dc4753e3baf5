"""Reach the schema that a verb is about: that of APP, or the one that --database and --schema name."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from webhook_inbox.cli.options import app_to_ask

if TYPE_CHECKING:
    from webhook_inbox.inbox import Inbox
    from webhook_inbox.protocol.steps import Plan

T = TypeVar("T")


class Store:
    """
    Perform plans on one schema.

    Args:
        context: Tells what was typed.
        app, database, schema: As the options of those names.

    Attributes:
        schema: Its name.
        options: What to type so that another verb reaches the same; empty where nothing is needed.
        migrate: What to type to bring it up.
        app: As which APP was named; None where there is none.
        inbox: The Inbox of APP; None where there is no APP.

    Raises:
        ConfigurationError: Both APP and a database or schema were typed, or APP names no Inbox.
    """

    def __init__(self, context: typer.Context, app: str | None, database: str | None, schema: str) -> None:
        from webhook_inbox.cli.database import migrate_app
        from webhook_inbox.cli.load import load_inbox
        from webhook_inbox.protocol.migrate import migrate_command, schema_option

        named = app_to_ask(context, app)
        self._database, self.app = database, named
        self.inbox: Inbox | None = load_inbox(named) if named else None
        self.schema = schema if self.inbox is None else self.inbox.schema
        self.options = f" --app {shlex.quote(named)}" if named else schema_option(schema)
        self.migrate = migrate_app(named) if named else migrate_command(schema)

    def perform(self, plan: Callable[[str], Plan[T]]) -> T:
        """
        Perform *plan*, which is made for the schema's name: on the connections of APP's, else on one of its own.

        Raises:
            InboxError: Whatever the plan raises, and what ``run_plan`` does.
        """
        from webhook_inbox.cli.database import ask_inbox, migrated_by, run_plan

        if self.inbox is not None:
            return ask_inbox(self.inbox, lambda inbox: inbox.perform(plan), app=self.app)
        with migrated_by(self.migrate):
            return run_plan(self._database, lambda: plan(self.schema))
