"""
Find at ``manage.py check`` what would fail later, or break a promise.

| id | finds |
| --- | --- |
| `webhook_inbox.E001` | the database named is none, or not PostgreSQL by psycopg 3 |
| `webhook_inbox.E002` | autocommit is off: nothing could be committed before the answer |
| `webhook_inbox.E003` | `WEBHOOK_INBOX_APP` names no `Inbox` |
| `webhook_inbox.W001` | the `Inbox` uses another database or schema than the migrations and the admin |
| `webhook_inbox.W002` | a view hands a delivery over within `ATOMIC_REQUESTS`, which is refused |
| `webhook_inbox.W003` | this release cannot serve the schema; with `check --database ALIAS` |
| `webhook_inbox.W004` | each transaction opens a connection; with `check --deploy` |
| `webhook_inbox.W005` | a server that says nothing would be waited for without end; with `check --deploy` |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core import checks
from django.db import connections
from django.urls import URLPattern, URLResolver, get_resolver

from webhook_inbox.django import conf
from webhook_inbox.drivers.django_database import Django
from webhook_inbox.drivers.django_world import DjangoLender
from webhook_inbox.drivers.lending import ThreadDriver
from webhook_inbox.errors import ConfigurationError, SchemaVersionError
from webhook_inbox.inbox import Inbox
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.migrate import check_schema

# The way in that runs on the view's own thread; ``async def`` views and ``ATOMIC_REQUESTS`` Django itself keeps apart.
_WAY_IN = "receive_sync"


def register() -> None:
    """Register every check."""
    checks.register(check_database)
    checks.register(check_app)
    checks.register(check_views, checks.Tags.urls)
    checks.register(check_schema_version, checks.Tags.database)
    checks.register(check_connections, deploy=True)


def check_database(**_: object) -> list[checks.CheckMessage]:
    """Find a database that cannot be used at all."""
    try:
        _lender()
    except ConfigurationError as error:
        return [checks.Error(str(error), hint="See WEBHOOK_INBOX_DATABASE.", id="webhook_inbox.E001")]
    if connections[conf.alias()].settings_dict["AUTOCOMMIT"]:
        return []
    return [
        checks.Error(
            f"AUTOCOMMIT is off for {conf.alias()!r}, so that nothing could be committed before the answer",
            id="webhook_inbox.E002",
        )
    ]


def check_app(**_: object) -> list[checks.CheckMessage]:
    """Find an ``Inbox`` that is none, or that looks elsewhere than the migrations and the admin."""
    if check_database():
        return []
    try:
        inbox = conf.inbox()
        ours = Inbox(Django(conf.alias()), schema=conf.schema())
    except ConfigurationError as error:
        return [checks.Error(str(error), hint="See WEBHOOK_INBOX_APP.", id="webhook_inbox.E003")]
    if inbox is None or (inbox.schema, inbox.database_place) == (ours.schema, ours.database_place):
        return []
    return [
        checks.Warning(
            f"{conf.app()} uses schema {inbox.schema!r} in {inbox.database_place}; migrations and admin use schema "
            f"{ours.schema!r} in {ours.database_place}",
            hint="See WEBHOOK_INBOX_DATABASE and WEBHOOK_INBOX_SCHEMA.",
            id="webhook_inbox.W001",
        )
    ]


def check_views(**_: object) -> list[checks.CheckMessage]:
    """Find views that hand a delivery over themselves and are not exempt from ``ATOMIC_REQUESTS``."""
    alias = conf.alias()
    if not getattr(settings, "ROOT_URLCONF", "") or not connections.databases.get(alias, {}).get(
        "ATOMIC_REQUESTS"
    ):
        return []
    return [
        checks.Warning(
            f"the view {view.__module__}.{view.__qualname__} seems to hand a delivery over within ATOMIC_REQUESTS, "
            "where nothing can be committed before the answer: every delivery would be refused",
            hint="Decorate it with @transaction.non_atomic_requests, or use inbox.django_view().",
            id="webhook_inbox.W002",
        )
        for view in _views(get_resolver())
        if _receives(view) and alias not in getattr(view, "_non_atomic_requests", ())
    ]


def check_schema_version(databases: list[str] | None = None, **_: object) -> list[checks.CheckMessage]:
    """Find a schema that this release cannot serve."""
    alias = conf.alias()
    if alias not in (databases or ()) or check_database():
        return []
    within = connections[alias].in_atomic_block
    driver = ThreadDriver(DjangoLender(Django(alias, testcase=within), settings=Settings()))
    try:
        driver.run(lambda: check_schema(conf.schema()))
    except SchemaVersionError as error:
        return [
            checks.Warning(
                str(error), hint="Or run manage.py migrate webhook_inbox.", id="webhook_inbox.W003"
            )
        ]
    return []


def check_connections(**_: object) -> list[checks.CheckMessage]:
    """Find what makes a worker slow, or has it wait for ever."""
    if check_database():
        return []
    alias = conf.alias()
    given = connections[alias].settings_dict
    found = []
    if given["CONN_MAX_AGE"] == 0 and not given["OPTIONS"].get("pool"):
        found.append(
            checks.Warning(
                f"each transaction of a worker opens a connection to {alias!r}, and closes it",
                hint='Set CONN_MAX_AGE, or OPTIONS = {"pool": True} (Django 5.1).',
                id="webhook_inbox.W004",
            )
        )
    if not given["OPTIONS"].get("connect_timeout"):
        found.append(
            checks.Warning(
                f"a server of {alias!r} that is up and says nothing would be waited for without end",
                hint='Give OPTIONS a "connect_timeout".',
                id="webhook_inbox.W005",
            )
        )
    return found


def _lender() -> DjangoLender:
    return DjangoLender(Django(conf.alias()), settings=Settings())


def _views(resolver: Any) -> Iterator[Any]:
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            yield from _views(each)
        elif isinstance(each, URLPattern) and hasattr(each.callback, "__qualname__"):
            yield each.callback


def _receives(view: Any) -> bool:
    """Say whether the code of *view* names the way in."""
    inner = view
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    kind = getattr(view, "view_class", None)
    functions: list[Any] = (
        [inner] if kind is None else [getattr(kind, name, None) for name in kind.http_method_names]
    )
    return any(_WAY_IN in each.__code__.co_names for each in functions if hasattr(each, "__code__"))
