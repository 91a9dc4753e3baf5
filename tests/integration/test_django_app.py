"""The Django app's migrations, checks and command: the schema that ``migrate`` makes, and what would break it."""

from __future__ import annotations

import io
import pkgutil
from collections.abc import Iterator
from functools import wraps
from typing import Any

import psycopg
import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connections, transaction
from django.http import HttpResponse
from django.test import override_settings
from django.urls import path
from django.views import View

import webhook_inbox.django.migrations
from tests.fixtures.benches import django_alias, forget_alias, set_django_up
from tests.migrations.catalog import snapshot
from webhook_inbox import Django, Inbox
from webhook_inbox.django.management.commands.webhook_inbox import Command
from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.protocol.migrate import migrate, schema_status
from webhook_inbox.sql.migrations import migrations

APP = "webhook_inbox"
STEPS = [f"{step.version:04}_{step.name}" for step in migrations("webhooks")]
IGNORED = """
    INSERT INTO webhooks.inbox (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes)
    VALUES ('p', 'e', 'evt_1', 't', 'ignored', '', 0)
"""
set_django_up()


@pytest.fixture
def alias(empty_database: str) -> Iterator[str]:
    """A database of Django's that holds nothing, and is the one that is meant."""
    name = django_alias(empty_database)
    with override_settings(WEBHOOK_INBOX_DATABASE=name):
        yield name
    forget_alias(name)


def manage(*arguments: str, **options: Any) -> str:
    """Run a command of ``manage.py``, and give what it prints."""
    said = io.StringIO()
    call_command(*arguments, stdout=said, **options)
    return said.getvalue()


def served(dsn: str) -> bool:
    """What ``webhook-inbox migrate --check`` says."""
    with psycopg.connect(dsn) as conn:
        return PsycopgRunner(conn).run(schema_status("webhooks")).served


def test_each_of_our_migrations_is_one_of_djangos() -> None:
    """By the same number and name, so that none is forgotten."""
    assert [module.name for module in pkgutil.iter_modules(webhook_inbox.django.migrations.__path__)] == STEPS


def test_djangos_migrate_makes_what_ours_does(alias: str, empty_database: str, database: str) -> None:
    """The whole catalogue, and what it says was applied; ours then finds nothing to do."""
    manage("migrate", APP, database=alias)
    assert snapshot(empty_database, "webhooks") == snapshot(database, "webhooks")
    with psycopg.connect(empty_database) as conn:
        assert PsycopgRunner(conn).run(migrate("webhooks")) == ()


def test_djangos_migrate_may_follow_ours(alias: str, empty_database: str, database: str) -> None:
    """What is there is left as it is."""
    with psycopg.connect(empty_database) as conn:
        PsycopgRunner(conn).run(migrate("webhooks"))
    manage("migrate", APP, database=alias)
    assert snapshot(empty_database, "webhooks") == snapshot(database, "webhooks")


def test_it_can_be_undone_while_nothing_has_come(alias: str, empty_database: str) -> None:
    """To nothing, and up again; a step back leaves a schema that the older release works on."""
    manage("migrate", APP, database=alias)
    manage("migrate", APP, STEPS[0], database=alias)
    assert served(empty_database)
    manage("migrate", APP, "zero", database=alias)
    with psycopg.connect(empty_database) as conn:
        assert conn.execute("SELECT to_regnamespace('webhooks')::text").fetchone() == (None,)
    manage("migrate", APP, database=alias)
    assert served(empty_database)


def test_it_is_not_undone_over_events(alias: str, empty_database: str) -> None:
    """P-KEEP: their keys are what makes a redelivery a duplicate."""
    manage("migrate", APP, database=alias)
    with psycopg.connect(empty_database) as conn:
        conn.execute(IGNORED)
    with pytest.raises(Exception, match="holds events or messages"):
        manage("migrate", APP, "zero", database=alias)
    assert served(empty_database)


def test_sqlmigrate_prints_what_would_run(alias: str, empty_database: str) -> None:
    """Applied by hand it makes the same schema."""
    with psycopg.connect(empty_database, autocommit=True) as conn:
        for step in STEPS:
            conn.execute(manage("sqlmigrate", APP, step, database=alias).encode())
    assert served(empty_database)


def test_makemigrations_finds_nothing_to_do(alias: str) -> None:
    """Else every project would be asked to write a migration into ours."""
    assert "No changes" in manage("makemigrations", APP, check_changes=True, dry_run=True)


class Elsewhere:
    """A router that keeps our app out."""

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        return app_label != APP


@pytest.mark.parametrize(
    "settings",
    [{"WEBHOOK_INBOX_DATABASE": "default"}, {"DATABASE_ROUTERS": [Elsewhere()]}],
    ids=["another database is meant", "a router forbids it"],
)
def test_a_database_that_is_not_meant_gets_no_schema(
    alias: str, empty_database: str, settings: dict[str, Any]
) -> None:
    """Django migrates every app on every database; ours is in one."""
    with override_settings(**settings):
        manage("migrate", APP, database=alias)
    with psycopg.connect(empty_database) as conn:
        assert conn.execute("SELECT to_regnamespace('webhooks')::text").fetchone() == (None,)


def test_another_kind_of_database_is_refused_by_name() -> None:
    """Before anything runs."""
    entry = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    connections.databases.update(connections.configure_settings({"default": {}, "lite": entry}))
    try:
        with override_settings(WEBHOOK_INBOX_DATABASE="lite"):
            with pytest.raises(ConfigurationError, match="'lite' is SQLite"):
                manage("migrate", APP, database="lite", skip_checks=True)
            assert found(None) == ["E001"]
    finally:
        connections["lite"].close()
        del connections["lite"], connections.databases["lite"]


def found(databases: list[str] | None, *, deploy: bool = False) -> list[str]:
    """The ids of our checks' findings."""
    return sorted(
        each.id.partition(".")[2]
        for each in run_checks(databases=databases, include_deployment_checks=deploy)
        if each.id and each.id.startswith(f"{APP}.")
    )


def test_a_sound_project_passes_every_check(alias: str) -> None:
    """With the schema up, a pool and a limit on connecting."""
    manage("migrate", APP, database=alias)
    connections.databases[alias]["CONN_MAX_AGE"] = 60
    assert found([alias], deploy=True) == []


def test_a_schema_that_is_behind_is_found(alias: str, empty_database: str) -> None:
    """Not there, and too old; only where databases are asked for, and without standing in the way of ``migrate``."""
    assert found(None) == []
    assert found([alias]) == ["W003"]
    manage("migrate", APP, database=alias)
    assert found([alias]) == []
    with psycopg.connect(empty_database) as conn:
        conn.execute(f"DELETE FROM webhooks.migrations WHERE version = {len(STEPS)}")
    assert found([alias]) == ["W003"]


@pytest.mark.parametrize(
    ("entry", "deploy", "ids"),
    [
        ({"AUTOCOMMIT": False}, False, ["E002"]),
        ({"CONN_MAX_AGE": 0}, True, ["W004"]),
        ({"CONN_MAX_AGE": 0}, False, []),
        ({"CONN_MAX_AGE": 9, "OPTIONS": {}}, True, ["W005"]),
    ],
)
def test_a_database_entry_that_will_not_do_is_found(
    alias: str, entry: dict[str, Any], deploy: bool, ids: list[str]
) -> None:
    """Autocommit, and for a deployment what makes workers slow or wait for ever."""
    connections.databases[alias].update(entry)
    assert found(None, deploy=deploy) == ids
    connections.databases[alias]["AUTOCOMMIT"] = True


def test_a_database_that_is_none_is_found() -> None:
    """By the name that is wrong."""
    with override_settings(WEBHOOK_INBOX_DATABASE="nonesuch"):
        with pytest.raises(SystemCheckError, match="'nonesuch'"):
            manage("check")
        assert found(["default"], deploy=True) == ["E001"]


project_inbox: Any = None


@pytest.mark.parametrize(
    ("app", "ids"),
    [
        (f"{__name__}:project_inbox", []),
        (f"{__name__}:nonesuch", ["E003"]),
        ("no.such.module:inbox", ["E003"]),
        ("", []),
    ],
)
def test_an_app_that_cannot_be_had_is_found(
    alias: str, monkeypatch: pytest.MonkeyPatch, app: str, ids: list[str]
) -> None:
    """What ``manage.py webhook_inbox worker`` would meet."""
    monkeypatch.setattr(f"{__name__}.project_inbox", Inbox(Django(alias)))
    with override_settings(WEBHOOK_INBOX_APP=app):
        assert found(None) == ids


@pytest.mark.parametrize(
    "settings", [{"WEBHOOK_INBOX_SCHEMA": "other"}, {"WEBHOOK_INBOX_DATABASE": "second"}]
)
def test_an_app_that_looks_elsewhere_is_found(
    alias: str, database: str, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    """Another schema or database than the one that is migrated."""
    monkeypatch.setattr(f"{__name__}.project_inbox", Inbox(Django(alias)))
    second = django_alias(database)
    monkeypatch.setitem(connections.databases, "second", connections.databases[second])
    with override_settings(WEBHOOK_INBOX_APP=f"{__name__}:project_inbox", **settings):
        assert found(None) == ["W001"]
    forget_alias(second)


def receive(request: Any) -> HttpResponse:
    """A view of the project's own."""
    receipt = project_inbox.receive_sync("billing", headers=[], body=request.body)
    return HttpResponse(receipt.body, status=receipt.status)


@wraps(receive)
def counted(request: Any) -> HttpResponse:
    """The same behind a decorator."""
    return receive(request)


class Receive(View):  # type: ignore[misc]
    """The same as a class."""

    def post(self, request: Any) -> HttpResponse:
        return HttpResponse(project_inbox.receive_sync("billing", headers=[], body=request.body).body)


def home(request: Any) -> HttpResponse:
    """A view that has nothing to do with us."""
    return HttpResponse("welcome")


urlpatterns: list[Any] = []


@pytest.mark.parametrize(
    ("view", "ids"),
    [
        (receive, ["W002"]),
        (counted, ["W002"]),
        (Receive.as_view(), ["W002"]),
        (home, []),
        (None, []),
    ],
    ids=["function", "decorated", "class", "another view", "our own"],
)
def test_a_view_that_is_within_atomic_requests_is_found(
    alias: str, monkeypatch: pytest.MonkeyPatch, view: Any, ids: list[str]
) -> None:
    """It hands deliveries over itself, and all of them would be refused; exempt, or without the setting, it is fine."""
    inbox = Inbox(Django(alias))
    monkeypatch.setattr(f"{__name__}.urlpatterns", [path("hook", view or inbox.django_view())])
    with override_settings(ROOT_URLCONF=__name__):
        assert found(None) == []
        connections.databases[alias]["ATOMIC_REQUESTS"] = True
        assert found(None) == ids
        if view is not None:
            monkeypatch.setattr(f"{__name__}.urlpatterns", [path("hook", exempt(view, alias))])
            _forget_urls()
            assert found(None) == []
    connections.databases[alias]["ATOMIC_REQUESTS"] = False


def exempt(view: Any, alias: str) -> Any:
    """The view as the hint says."""

    @wraps(view)
    def exempted(request: Any) -> Any:
        return view(request)

    return transaction.non_atomic_requests(using=alias)(exempted)


def _forget_urls() -> None:
    from django.urls import clear_url_caches

    clear_url_caches()


@pytest.mark.parametrize("named", [True, False], ids=["an inbox is named", "none is named"])
def test_the_command_passes_everything_on(
    alias: str,
    empty_database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    named: bool,
) -> None:
    """Verb, options and exit code; what is Django's own is Django's; the settings say which inbox or database."""
    for variable in (
        "APP",
        "DATABASE_URL",
        "SCHEMA",
    ):  # what the command sets is taken back with what was there
        monkeypatch.setenv(f"WEBHOOK_INBOX_{variable}", "")
        monkeypatch.delenv(f"WEBHOOK_INBOX_{variable}")
    monkeypatch.setenv("DATABASE_URL", "postgresql:///nowhere?host=/nowhere")
    monkeypatch.setattr(f"{__name__}.project_inbox", Inbox(Django(alias)))
    with override_settings(WEBHOOK_INBOX_APP=f"{__name__}:project_inbox" if named else ""):
        with pytest.raises(SystemExit) as ended:
            call_command(Command(), "migrate", "--check")
        assert ended.value.code == 1
        call_command(Command(), "migrate", "--json", "--settings=tests.nothing")
    assert '"version": ' in capsys.readouterr().out
    assert served(empty_database)


def test_the_command_says_in_one_sentence_that_the_database_will_not_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As the command line does, with its exit code for what is wrongly configured."""
    with override_settings(WEBHOOK_INBOX_DATABASE="nonesuch"), pytest.raises(SystemExit) as ended:
        call_command(Command(), "status")
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "webhook-inbox: Django('nonesuch'): settings.DATABASES has no such entry\n"
    )
