"""Declare the options that several verbs share, once; see ``main`` for the variable that stands for each option."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from webhook_inbox.errors import ConfigurationError


def _writable(file: str) -> str:
    """Give *file*, unless nothing could be written to it: better refused now than when there is something to write."""
    path = Path(file)
    if not file:
        return file
    if path.is_dir():
        raise ConfigurationError(f"cannot write {file}: it is a folder")
    if not path.parent.is_dir():
        raise ConfigurationError(f"cannot write {file}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigurationError(f"cannot write {file}: you may not write there")
    return file


AppArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="APP",
        envvar="WEBHOOK_INBOX_APP",
        show_envvar=False,
        show_default=False,
        help="Your Inbox as module:attribute, for instance billing.app:inbox. Default: $WEBHOOK_INBOX_APP.",
    ),
]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="APP",
        envvar="WEBHOOK_INBOX_APP",
        show_envvar=False,
        show_default=False,
        help="Your Inbox, whose database it is, as module:attribute. Default: $WEBHOOK_INBOX_APP.",
    ),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="DSN",
        envvar=["WEBHOOK_INBOX_DATABASE_URL", "DATABASE_URL"],
        show_envvar=False,
        show_default=False,
        help="Default: $WEBHOOK_INBOX_DATABASE_URL, then $DATABASE_URL (a password there is in no list of processes).",
    ),
]
SchemaOption = Annotated[
    str,
    typer.Option(
        "--schema",
        metavar="NAME",
        envvar="WEBHOOK_INBOX_SCHEMA",
        show_envvar=False,
        help="Where the tables are.",
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", show_envvar=False, help="Print JSON, for programs."),
]
JunitOption = Annotated[
    str,
    typer.Option(
        "--junit", metavar="FILE", show_envvar=False, callback=_writable, help="Write JUnit's XML there."
    ),
]

LogFormatOption = Annotated[
    str,
    typer.Option("--log-format", metavar="text|json", show_envvar=False, help="Of the log on stderr."),
]
LogLevelOption = Annotated[
    str,
    typer.Option(
        "--log-level",
        metavar="debug|info|warning|error",
        show_envvar=False,
        help="Info tells of each event.",
    ),
]


def option(*names: str, help: str, **more: Any) -> Any:  # noqa: A002, ANN401 - as Typer calls it, and gives it
    """Declare an option of one verb, whose variable needs no word in its help."""
    return typer.Option(*names, help=help, show_envvar=False, **more)


def names(text: str) -> list[str]:
    """Give the names that stand in *text* with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def app_to_ask(context: typer.Context, app: str | None) -> str | None:
    """
    Give the APP whose database a verb is about; None where ``--database`` or ``--schema`` was typed, or there is none.

    Raises:
        ConfigurationError: Both were typed.
    """
    if not (typed_here(context, "database") or typed_here(context, "schema")):
        return app
    if typed_here(context, "app"):
        raise ConfigurationError("APP knows its database and schema: give APP, or --database and --schema")
    return None


def typed_here(context: typer.Context, name: str) -> bool:
    """Say whether parameter *name* was given on the command line, rather than by a variable or a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
