"""Read what a project's settings say of us."""

from __future__ import annotations

from django.conf import settings

from webhook_inbox.cli.load import load_inbox
from webhook_inbox.inbox import Inbox
from webhook_inbox.sql.statements import quoted_identifier

DEFAULTS: dict[str, object] = {
    "WEBHOOK_INBOX_APP": "",
    "WEBHOOK_INBOX_DATABASE": "default",
    "WEBHOOK_INBOX_SCHEMA": "webhooks",
    "WEBHOOK_INBOX_ADMIN_PAYLOADS": False,
}


def app() -> str:
    """Give the project's ``Inbox`` as ``module:attribute``; empty where none is named."""
    return str(_setting("WEBHOOK_INBOX_APP"))


def alias() -> str:
    """Give the database, by its name in ``DATABASES``."""
    return str(_setting("WEBHOOK_INBOX_DATABASE"))


def schema() -> str:
    """Give the schema that holds our tables."""
    return str(_setting("WEBHOOK_INBOX_SCHEMA"))


def admin_payloads() -> bool:
    """Say whether the admin shows payloads and headers to those who have the permission."""
    return bool(_setting("WEBHOOK_INBOX_ADMIN_PAYLOADS"))


def inbox() -> Inbox | None:
    """
    Give the project's ``Inbox``; None where none is named.

    Raises:
        ConfigurationError: What is named is none.
    """
    return load_inbox(app()) if app() else None


def table(name: str) -> str:
    """Name one of our tables as ``db_table``; Django has no word for schemas, and leaves alone what is quoted."""
    return f'{quoted_identifier(schema())}."{name}"'


def _setting(name: str) -> object:
    found: object = getattr(settings, name, DEFAULTS[name])
    return found
