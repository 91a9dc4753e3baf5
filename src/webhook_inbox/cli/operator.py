"""Declare the options by which an operator says who acts and why, and name who acts where it is not said."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from webhook_inbox.protocol.operate import Operator

ReasonOption = Annotated[
    str,
    typer.Option("--reason", metavar="TEXT", show_envvar=False, show_default=False, help="Why; it is kept."),
]
OperatorOption = Annotated[
    str,
    typer.Option(
        "--operator",
        metavar="NAME",
        envvar="WEBHOOK_INBOX_OPERATOR",
        show_envvar=False,
        show_default=False,
        help="Who does it, for the audit. Default: $WEBHOOK_INBOX_OPERATOR, then your user name.",
    ),
]


def operator(name: str, reason: str) -> Operator:
    """Name who acts: as said, else the user of the system."""
    from webhook_inbox.protocol.operate import Operator

    try:
        return Operator(name or getpass.getuser(), reason)
    except (KeyError, OSError):  # a user without a name, as in a container
        return Operator(f"uid {os.getuid()}", reason)
