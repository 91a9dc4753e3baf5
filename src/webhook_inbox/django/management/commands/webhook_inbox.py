"""Run ``webhook-inbox`` within a Django project: ``manage.py webhook_inbox worker``."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, ClassVar

from django.core.management.base import BaseCommand

from webhook_inbox.cli.failures import report
from webhook_inbox.cli.main import run
from webhook_inbox.django import conf
from webhook_inbox.drivers.django_database import Django
from webhook_inbox.drivers.django_world import DjangoLender
from webhook_inbox.errors import InboxError
from webhook_inbox.model.settings import Settings

_DJANGOS = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
_DJANGOS.add_argument("--settings")
_DJANGOS.add_argument("--pythonpath")


class Command(BaseCommand):
    """Pass everything on to the command line, which learns of the project's ``Inbox`` or database by variables."""

    help = "Run webhook-inbox for the Inbox that the setting WEBHOOK_INBOX_APP names: migrate, worker, status, ..."
    requires_system_checks: ClassVar[list[str]] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: Any) -> None:
        """Take whatever there is."""
        parser.add_argument(
            "arguments", nargs=argparse.REMAINDER, help="a verb and what it takes; try --help after it"
        )

    def handle(self, *_: object, arguments: list[str], **__: object) -> None:
        """Run a verb; end with its exit code where that is not 0."""
        passed_on = _DJANGOS.parse_known_args(arguments)[
            1
        ]  # Django has obeyed the others wherever they stand
        try:
            known = _known()
        except InboxError as error:
            sys.exit(report(error))
        for name, value in known.items():
            os.environ.setdefault(name, value)
        if code := run(passed_on):
            sys.exit(code)


def _known() -> dict[str, str]:
    """Give what the settings say, as variables of the command line."""
    if conf.app():
        return {"WEBHOOK_INBOX_APP": conf.app()}
    dsn = DjangoLender(Django(conf.alias()), settings=Settings()).dsn()
    return {"WEBHOOK_INBOX_SCHEMA": conf.schema()} | ({"WEBHOOK_INBOX_DATABASE_URL": dsn} if dsn else {})
