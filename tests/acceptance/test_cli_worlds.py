"""The verbs that ask an Inbox do so on the connections that its user gave it, whatever library they are of."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.fixtures.benches import asyncpg_arguments, url_of
from tests.fixtures.cli import SECRET, Cli
from webhook_inbox.drivers.psycopg_settings import libpq_dsn
from webhook_inbox.sql.migrations import migrations
from webhook_inbox.testing.signing import sign_stripe

VERSION = migrations("webhooks")[-1].version
BODY = b'{"id": "evt_1", "object": "event", "type": "invoice.paid", "created": 1760000000, "data": {"object": {}}}'

APP = """
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe
{imports}

inbox = Inbox({database}, schema="hooks")
shop = inbox.endpoint("shop", Stripe(secrets={secret!r}))

@shop.on("*")
{handler}
"""
SETTINGS = """
DATABASES = {{"default": {{
    "ENGINE": "django.db.backends.postgresql",
    "NAME": {dbname!r},
    "USER": {user!r},
    "HOST": {host!r},
    "PORT": {port!r},
    "OPTIONS": {{"connect_timeout": 5}},
}}}}
INSTALLED_APPS = ["records"]
"""
MODEL = """
from django.db import models

class Effect(models.Model):
    event_id = models.TextField(primary_key=True)

    class Meta:
        db_table = "effects"
        managed = False
"""
DEF = "def book(tx, event): tx.session.execute(text(\"INSERT INTO effects VALUES ('evt_1')\"))"
ASYNC_DEF = (
    "async def book(tx, event): await tx.session.execute(text(\"INSERT INTO effects VALUES ('evt_1')\"))"
)


def write_engine(cli: Cli, dsn: str, driver: str, *, is_async: bool) -> None:
    """An app on an engine of SQLAlchemy's."""
    maker, module = (
        ("create_async_engine", "sqlalchemy.ext.asyncio") if is_async else ("create_engine", "sqlalchemy")
    )
    url = url_of(dsn, driver).render_as_string(hide_password=False)
    imports = f"from {module} import {maker}\nfrom sqlalchemy import text"
    handler = ASYNC_DEF if is_async else DEF
    cli.app(APP.format(imports=imports, database=f"{maker}({url!r})", secret=SECRET, handler=handler))


def write_django(cli: Cli, dsn: str) -> None:
    """An app that writes by a model, so that it cannot be imported before Django is set up."""
    (cli.folder / "settings.py").write_text(SETTINGS.format(**{"user": "", **conninfo_to_dict(dsn)}))
    records = cli.folder / "records"
    records.mkdir()
    (records / "__init__.py").write_text("")
    (records / "models.py").write_text(MODEL)
    cli.environment["DJANGO_SETTINGS_MODULE"] = "settings"
    cli.app(
        APP.format(
            imports="from records.models import Effect\nfrom webhook_inbox import Django",
            database='Django("default")',
            secret=SECRET,
            handler="def book(tx, event): Effect.objects.create(event_id=event.id)",
        )
    )


def write_pool(cli: Cli, dsn: str) -> None:
    """An app on a pool of psycopg's, open from the start."""
    cli.app(
        APP.format(
            imports="from psycopg_pool import ConnectionPool",
            database=f"ConnectionPool({libpq_dsn(dsn)!r}, min_size=0, max_size=4, open=True)",
            secret=SECRET,
            handler="def book(tx, event): tx.conn.execute(\"INSERT INTO effects VALUES ('evt_1')\")",
        )
    )


def write_asyncpg(cli: Cli, dsn: str) -> None:
    """An app that says how a pool of asyncpg's is opened: at its import there is no event loop for one."""
    cli.app(
        APP.format(
            imports="from functools import partial\nimport asyncpg",
            database=f"partial(asyncpg.create_pool, min_size=0, **{asyncpg_arguments(dsn)!r})",
            secret=SECRET,
            handler="async def book(tx, event): await tx.conn.execute(\"INSERT INTO effects VALUES ('evt_1')\")",
        )
    )


WORLDS: dict[str, Any] = {
    "psycopg pool": write_pool,
    "engine": lambda cli, dsn: write_engine(cli, dsn, "psycopg", is_async=False),
    "async engine on psycopg": lambda cli, dsn: write_engine(cli, dsn, "psycopg", is_async=True),
    "async engine on asyncpg": lambda cli, dsn: write_engine(cli, dsn, "asyncpg", is_async=True),
    "asyncpg": write_asyncpg,
    "Django": write_django,
}


@pytest.fixture(params=WORLDS)
def worldly(cli: Cli, empty_database: str, request: pytest.FixtureRequest) -> Cli:
    """The program, an app on connections of one library's, and no variable that names the database."""
    WORLDS[request.param](cli, empty_database)
    return cli


def deliver(dsn: str) -> None:
    """Record the event as a receiver does that is given the DSN."""
    from webhook_inbox import Inbox
    from webhook_inbox.sources import Stripe

    inbox = Inbox(dsn, schema="hooks")
    inbox.endpoint("shop", Stripe(secrets=SECRET)).on("*")(lambda tx, event: None)
    receipt = inbox.receive_sync("shop", headers=sign_stripe(BODY, SECRET, int(time.time())), body=BODY)
    inbox.close()
    assert receipt.status == 200


def test_an_app_knows_its_database_and_schema(worldly: Cli, empty_database: str) -> None:
    """``migrate``, ``status`` and ``worker`` need no DSN; the worker warns of nothing and gives its lease up."""
    names = [f"{step.version:04}_{step.name}" for step in migrations("hooks")]
    assert worldly.json("migrate", "shop:inbox", "--check", code=1)["pending"] == VERSION
    first = worldly.run("migrate", "shop:inbox")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.splitlines() == [
        *(f"applied {name}" for name in names),
        f"schema hooks is at version {VERSION}",
    ]
    assert worldly.json("migrate", WEBHOOK_INBOX_APP="shop:inbox")["migrations"] == []
    assert worldly.json("migrate", "shop:inbox", "--check")["served"]
    assert worldly.json("migrate", "shop:inbox", "--sql")["schema"] == "hooks"
    with psycopg.connect(empty_database, autocommit=True) as beside:
        beside.execute("CREATE TABLE effects (event_id text PRIMARY KEY)")
        deliver(empty_database)
        assert worldly.json("status", "shop:inbox")["waiting"] == 1
        worked = worldly.run("worker", "shop:inbox", "--drain")
        assert (worked.returncode, worked.stdout) == (0, "nothing is due; 1 run: 1 processed\n"), (
            worked.stderr
        )
        assert [line for line in worked.stderr.splitlines()[1:] if "evt_1" not in line] == []
        assert beside.execute("SELECT event_id FROM effects").fetchall() == [("evt_1",)]
        assert beside.execute("SELECT stopped FROM hooks.workers").fetchall() == [(True,)]


@pytest.mark.parametrize("by", ["argument", "variable"])
def test_a_missing_schema_names_the_command_for_that_app(cli: Cli, empty_database: str, by: str) -> None:
    """Not one for whatever database a variable names; it works as it stands."""
    write_engine(cli, empty_database, "psycopg", is_async=False)
    arguments = ["shop:inbox"] if by == "argument" else []
    variables = {"WEBHOOK_INBOX_APP": "shop:inbox"} if by == "variable" else {}
    for verb in (["status"], ["worker"], ["serve", "--port", "0"], ["prune"]):
        refused = cli.run(*verb, *arguments, **variables)
        assert refused.returncode > 0
        assert "run `webhook-inbox migrate shop:inbox`\n" in refused.stderr, verb
    checked = cli.run("migrate", *arguments, "--check", **variables)
    assert "run `webhook-inbox migrate shop:inbox`\n" in checked.stdout
    assert cli.run("migrate", "shop:inbox").returncode == 0
    assert cli.run("status", *arguments, **variables).returncode == 0


@pytest.mark.parametrize("world", [world for world in WORLDS if world != "psycopg pool"])
@pytest.mark.parametrize(
    ("wrong", "why"),
    [({"dbname": "nowhere"}, "the server has no such database"), ({"port": "1"}, "nothing listens there")],
    ids=["name", "port"],
)
def test_a_database_that_is_not_there_is_named(
    cli: Cli, empty_database: str, world: str, wrong: dict[str, str], why: str
) -> None:
    """With the reason, and without the password, whichever library the app connects by."""
    parts = conninfo_to_dict(empty_database) | {"password": "never-shown"} | wrong
    WORLDS[world](cli, make_conninfo("", **parts))
    told = cli.run("status", "shop:inbox")
    assert told.returncode == 1
    assert (
        f"no connection to the database {parts['dbname']} at {parts['host']}:{parts['port']}: {why}\n"
        in told.stderr
    )
    assert "never-shown" not in told.stderr


def test_app_and_database_are_not_both_typed(cli: Cli) -> None:
    """Which one was meant is not guessed."""
    done = cli.run("migrate", "shop:inbox", "--schema", "other")
    assert (done.returncode, done.stdout) == (2, "")
    assert "give APP, or --database and --schema" in done.stderr
