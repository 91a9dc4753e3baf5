"""Refuse to start on an Inbox or a database with which everything would fail, and say which command helps."""

from __future__ import annotations

import asyncio

from webhook_inbox.cli.database import explained
from webhook_inbox.errors import ConfigurationError, StoreError
from webhook_inbox.inbox import Inbox


def refuse_unready(inbox: Inbox, *, otherwise: str) -> None:
    """
    Ask the database of *inbox* whether this release can use it.

    Args:
        otherwise: How the refusal begins, for instance ``not serving``.

    Raises:
        ConfigurationError: No endpoint, or a database that cannot be used; says which command helps.
    """
    if not inbox.endpoint_modes:
        raise ConfigurationError("the Inbox has no endpoint: open one with inbox.endpoint(...)")

    async def ask() -> None:
        async with inbox.running():
            await inbox.check()

    try:
        with explained(inbox.database_place):
            asyncio.run(ask())
    except StoreError as error:
        raise ConfigurationError(f"{otherwise}: {error}") from error
