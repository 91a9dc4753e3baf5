"""Name the four receivers that hear the same story: ours and the three mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from urllib.parse import quote

OURS_APP = "webhook_inbox.demo.ours:app"
INBOX_SCHEMA = "webhooks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """
    Describe one receiver.

    Attributes:
        name: As the story calls it.
        does: What it does, in a line.
        schema: Holds its tables; also the application name of its connections.
        app: ``module:attribute`` of its ASGI application.
        event_table: Where it keeps the events it has seen.
        scripts: Names of the SQL files of this package that make its tables.
        inbox_schema: Holds the inbox's tables, where it has an inbox.
        worker: ``module:attribute`` of the Inbox that a worker runs the handlers for; empty: they run in the request.
        ours: Whether it is this inbox.
        waits_inside: Copies of one event wait for each other within the process, unseen by the database.
    """

    name: str
    does: str
    schema: str
    app: str
    event_table: str
    scripts: tuple[str, ...]
    inbox_schema: str = INBOX_SCHEMA
    worker: str = ""
    ours: bool = False
    waits_inside: bool = False

    @property
    def ledger_table(self) -> str:
        """Give the business table that the story counts."""
        return f"{self.schema}.ledger_entries"

    @property
    def tables_sql(self) -> str:
        """Give the script that makes its schema and tables."""
        texts = [files("webhook_inbox.demo").joinpath(name).read_text("utf-8") for name in self.scripts]
        return "\n".join([f"CREATE SCHEMA {self.schema};", f"SET search_path = {self.schema};", *texts])

    def dsn(self, database: str) -> str:
        """Give the DSN with which it reaches its tables in *database*, a URI with parameters."""
        options = quote(f"-c search_path={self.schema}")
        return f"{database}&application_name={self.schema}&options={options}"


def four_receivers(ours: str = OURS_APP) -> tuple[Receiver, ...]:
    """
    Give ours and the broken three.

    Args:
        ours: Another application in our place, on our tables: how a test shows that the story would notice.
    """
    return (
        Receiver(
            name="ours",
            does="event, work and record in one transaction",
            schema="ours",
            app=ours,
            event_table="webhooks.inbox",
            scripts=("billing.sql",),
            ours=True,
            waits_inside=True,
        ),
        _broken("mark first", "records the event id, commits, then does the work"),
        _broken("mark after", "does the work, commits, then records the event id"),
        _broken("any error", "takes every insert that fails for a duplicate"),
    )


def queued_receiver() -> Receiver:
    """Give ours once more, with books of its own: the same handlers run in a worker, after the 200."""
    return Receiver(
        name="ours queued",
        does="event recorded, then 200; a worker does the work",
        schema="ours_queued",
        app="webhook_inbox.demo.queued:app",
        event_table="webhooks_queued.inbox",
        scripts=("billing.sql",),
        inbox_schema="webhooks_queued",
        worker="webhook_inbox.demo.queued:inbox",
        ours=True,
    )


def _broken(name: str, does: str) -> Receiver:
    schema = name.replace(" ", "_")
    return Receiver(
        name=name,
        does=does,
        schema=schema,
        app=f"webhook_inbox.demo.broken.{schema}:app",
        event_table=f"{schema}.webhook_events",
        scripts=("billing.sql", "broken/tables.sql"),
    )
