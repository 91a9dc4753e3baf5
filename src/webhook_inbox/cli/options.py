"""Declare the options that several verbs share, once; see ``main`` for the variable that stands for each option."""

from __future__ import annotations

from typing import Annotated

import typer

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


def typed_here(context: typer.Context, name: str) -> bool:
    """Say whether parameter *name* was given on the command line, rather than by a variable or a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
