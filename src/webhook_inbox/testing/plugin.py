"""
Offer pytest fixtures; nothing here is imported or started before a test asks for one of them.

    inbox_tester               an ``InboxTester`` over the inbox of your fixture ``inbox``
    webhook_inbox_database     the DSN of a new database for this test, with our schema and your tables in it
    webhook_inbox_tables       your tables: override it (session scope) to give SQL, or a function of a DSN
    webhook_inbox_schema       the schema's name: override it (session scope) where yours has another
    webhook_inbox_server       where the databases are made

``WEBHOOK_INBOX_TEST_DATABASE_URL`` names a server to use, by a database that is there and a user who may create others.
Without it an embedded one is started, once a run (with pytest-xdist: once a process).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from webhook_inbox.testing.databases import DatabaseServer
    from webhook_inbox.testing.sync_tester import InboxTester

DSN_VARIABLE = "WEBHOOK_INBOX_TEST_DATABASE_URL"


@pytest.fixture(scope="session")
def webhook_inbox_server() -> Iterator[DatabaseServer]:
    """Give the server on which each test gets its database."""
    from webhook_inbox.embedded import provide_postgres
    from webhook_inbox.testing.databases import serving

    with provide_postgres(os.environ.get(DSN_VARIABLE), durable=False) as dsn, serving(dsn) as server:
        yield server


@pytest.fixture(scope="session")
def webhook_inbox_schema() -> str:
    """Give the name of the schema that holds the inbox's tables; override it where yours has another."""
    from webhook_inbox.protocol.migrate import DEFAULT_SCHEMA

    return DEFAULT_SCHEMA


@pytest.fixture(scope="session")
def webhook_inbox_tables() -> str | Callable[[str], object]:
    """Give the SQL that makes your tables, or a function that makes them where a DSN leads; none unless overridden."""
    return ""


@pytest.fixture(scope="session")
def _webhook_inbox_template(
    webhook_inbox_server: DatabaseServer,
    webhook_inbox_schema: str,
    webhook_inbox_tables: str | Callable[[str], object],
) -> Iterator[str]:
    with webhook_inbox_server.template(webhook_inbox_tables, webhook_inbox_schema) as name:
        yield name


@pytest.fixture
def webhook_inbox_database(
    webhook_inbox_server: DatabaseServer, _webhook_inbox_template: str
) -> Iterator[str]:
    """Give the DSN of a new database: the inbox's schema, your tables, and no rows but those that make them."""
    name = webhook_inbox_server.create(template=_webhook_inbox_template)
    yield webhook_inbox_server.dsn_of(name)
    webhook_inbox_server.drop(name)


@pytest.fixture
def inbox_tester(request: pytest.FixtureRequest) -> Iterator[InboxTester]:
    """Give a tester of the inbox that your fixture ``inbox`` gives."""
    from webhook_inbox.testing.sync_tester import InboxTester

    try:
        inbox = request.getfixturevalue("inbox")
    except pytest.FixtureLookupError as error:
        if error.argname != "inbox":
            raise
        raise pytest.UsageError(
            "inbox_tester tests the inbox that a fixture named inbox gives: define one, on webhook_inbox_database"
        ) from None
    with InboxTester(inbox) as tester:
        yield tester
