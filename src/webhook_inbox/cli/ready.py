"""Refuse to start on an Inbox or a database with which everything would fail, and say which command helps."""

from __future__ import annotations

from webhook_inbox.cli.database import ask_inbox
from webhook_inbox.errors import ConfigurationError, StoreError
from webhook_inbox.inbox import Inbox


def refuse_unready(inbox: Inbox, app: str | None, *, otherwise: str) -> None:
    """
    Ask the database of *inbox* whether this release can use it.

    Args:
        app: By which name the user has given *inbox*.
        otherwise: How the refusal begins, for instance ``not serving``.

    Raises:
        ConfigurationError: No endpoint, or a database that cannot be used; says which command helps.
    """
    if not inbox.endpoint_modes:
        raise ConfigurationError("the Inbox has no endpoint: open one with inbox.endpoint(...)")
    refuse_without_database(inbox, app, otherwise=otherwise)


def refuse_without_destination(inbox: Inbox) -> None:
    """
    Refuse an inbox whose messages nobody could be sent.

    Raises:
        ConfigurationError: It has no destination.
    """
    if not inbox.destinations:
        raise ConfigurationError("the Inbox has no destination: add one with inbox.destination(...)")


def refuse_without_database(inbox: Inbox, app: str | None, *, otherwise: str) -> None:
    """
    Ask the database of *inbox* whether this release can use it.

    Args:
        app, otherwise: As for ``refuse_unready``.

    Raises:
        ConfigurationError: It cannot be used; says which command helps.
    """
    try:
        ask_inbox(inbox, Inbox.check, app=app)
    except StoreError as error:
        raise ConfigurationError(f"{otherwise}: {error}") from error
