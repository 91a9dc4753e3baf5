"""Print the script that gives each part of the product a role of its own, with what it needs and no more."""

from __future__ import annotations

from typing import Annotated

import typer

from webhook_inbox.cli.failures import GOOD
from webhook_inbox.cli.options import AppArgument, JsonOption, SchemaOption
from webhook_inbox.cli.output import tell, tell_json
from webhook_inbox.cli.store import Store
from webhook_inbox.errors import ConfigurationError


def roles(
    *,
    context: typer.Context,
    app: AppArgument = None,
    schema: SchemaOption = "webhooks",
    prefix: Annotated[
        str,
        typer.Option(
            "--prefix",
            metavar="NAME",
            show_envvar=False,
            show_default=False,
            help="What the names of the roles begin with. Default: the schema's name.",
        ),
    ] = "",
    grant: Annotated[
        list[str] | None,
        typer.Option(
            "--grant",
            metavar="ROLE=USER",
            show_envvar=False,
            show_default=False,
            help="A user of the database that gets a role, in the same transaction; again for more.",
        ),
    ] = None,
    json: JsonOption = False,
) -> int:
    """
    Print the SQL that makes a role for each part: owner, receiver, worker, relay, operator, reader.

    Run it with psql after each migration, as somebody who may create roles; it ends in the same however often it runs.
    Connects to nothing.
    """
    from webhook_inbox.sql.roles import role_names, roles_script

    name = Store(context, app, None, schema).schema
    prefix = prefix or name
    script = roles_script(name, prefix=prefix, members=map(_member, grant or ()))
    if json:
        tell_json({"schema": name, "roles": role_names(prefix), "sql": script})
    else:
        tell(script.rstrip("\n"))
    return GOOD


def _member(text: str) -> tuple[str, str]:
    role, equals, user = text.partition("=")
    if not equals:
        raise ConfigurationError(f"--grant {text!r} must read like worker=app")
    return role, user
