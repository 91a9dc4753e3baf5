"""Tell the whole story: what happens to money in this inbox and in three ordinary receivers."""

from __future__ import annotations

from typing import Annotated

import typer

from webhook_inbox.cli.extras import require
from webhook_inbox.cli.options import JsonOption


def demo(
    *,
    check: Annotated[
        bool, typer.Option("--check", show_envvar=False, help="End after the table, also on a terminal.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """
    Watch this inbox and three ordinary receivers take payments.

    The same Stripe deliveries, crashes and outage for all four; what was lost and doubled is counted in a table. Starts
    a PostgreSQL of its own and removes everything at the end. On a terminal it stays up after the table, for you to
    look around; Ctrl-C ends it. Exit 0 only if this inbox lost and doubled nothing and the other three did.
    """
    require("demo", "demo", "fastapi", "uvicorn")
    from webhook_inbox.demo.story import main as tell_story

    return tell_story(check=check, as_json=json)
