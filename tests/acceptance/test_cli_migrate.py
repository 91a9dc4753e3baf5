"""``migrate`` brings the schema up, safely whoever else is at work, and says truthfully how it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from tests.fixtures.cli import SECONDS_MAX, Cli
from tests.fixtures.programs import eventually
from webhook_inbox.sql.migrations import migrations

KNOWN = migrations("webhooks")
NAMES = [f"{step.version:04}_{step.name}" for step in KNOWN]
NOWHERE = "postgresql:///nowhere?host=/nowhere"
VERSION = KNOWN[-1].version


@pytest.fixture
def migrator(cli: Cli, empty_database: str) -> Cli:
    """The program with a database that has no schema."""
    cli.environment["WEBHOOK_INBOX_DATABASE_URL"] = empty_database
    return cli


@pytest.fixture
def beside(empty_database: str) -> Iterator[psycopg.Connection]:
    """Somebody else's connection to the same database."""
    with psycopg.connect(empty_database) as connection:
        yield connection


def test_it_brings_the_schema_up_once(migrator: Cli) -> None:
    """What was applied, a line each; then nothing to do; --check follows with its exit code."""
    assert migrator.run("migrate", "--check").returncode == 1
    first, second = migrator.run("migrate"), migrator.run("migrate")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.splitlines() == [
        *(f"applied {name}" for name in NAMES),
        f"schema webhooks is at version {VERSION}",
    ]
    assert second.stdout == f"nothing to do: schema webhooks is at version {VERSION}\n"
    assert migrator.run("migrate", "--check").returncode == 0


def test_json_says_the_same(migrator: Cli) -> None:
    """With the shapes of the reference."""
    facts: dict[str, Any] = {"schema": "odd \"one'%", "version": VERSION, "known_version": VERSION}
    schema = ("--schema", facts["schema"])
    assert migrator.json("migrate", "--check", *schema, code=1) == {
        **facts,
        "version": 0,
        "served": False,
        "pending": len(NAMES),
    }
    assert migrator.json("migrate", *schema) == {**facts, "migrations": NAMES}
    assert migrator.json("migrate", *schema) == {**facts, "migrations": []}
    assert migrator.json("migrate", "--check", *schema) == {**facts, "served": True, "pending": 0}


def test_the_script_does_what_migrate_does_and_needs_no_database(
    migrator: Cli, beside: psycopg.Connection
) -> None:
    """``--sql`` connects to nothing; what it prints leaves nothing to do."""
    script = migrator.run("migrate", "--sql", WEBHOOK_INBOX_DATABASE_URL=NOWHERE)
    assert (script.returncode, script.stderr) == (0, "")
    assert migrator.json("migrate", "--sql", WEBHOOK_INBOX_DATABASE_URL=NOWHERE) == {
        "schema": "webhooks",
        "sql": script.stdout,
    }
    beside.commit()
    beside.autocommit = True
    beside.execute(script.stdout.encode())
    assert migrator.json("migrate")["migrations"] == []


def test_two_migrators_at_once_apply_each_step_once(migrator: Cli) -> None:
    """Both succeed; between them every migration was applied by one."""
    both = [migrator.start("migrate", "--json") for _ in range(2)]
    told = [json.loads(process.communicate(timeout=SECONDS_MAX)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(name for each in told for name in each["migrations"]) == NAMES


def test_it_does_not_wait_without_end_for_another_migrator(migrator: Cli, beside: psycopg.Connection) -> None:
    """It gives up with a sentence, and leaves no lock and nothing half applied."""
    beside.execute("SELECT pg_advisory_xact_lock(hashtextextended('webhook-inbox migrations webhooks', 0))")
    done = migrator.run("migrate", "--lock-wait-seconds", "0.2")
    assert (done.returncode, done.stdout) == (1, "")
    assert "within 0.2 s" in done.stderr
    assert "Another migrator is at work" in done.stderr
    assert beside.execute("SELECT to_regnamespace('webhooks')").fetchone() == (None,)
    beside.rollback()
    assert migrator.run("migrate").returncode == 0


def test_it_waits_for_a_lock_that_comes_free(migrator: Cli, beside: psycopg.Connection) -> None:
    """A rival that finishes in time costs nothing but the time."""
    beside.execute("SELECT pg_advisory_xact_lock(hashtextextended('webhook-inbox migrations webhooks', 0))")
    process = migrator.start("migrate")
    eventually(
        lambda: (
            beside.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            ).fetchone()
            == (1,)
        ),
        what="the migrator waits",
    )
    beside.rollback()
    assert process.wait(SECONDS_MAX) == 0


@pytest.mark.parametrize("verb", [["migrate"], ["migrate", "--check"], ["status"]], ids=" ".join)
def test_a_locked_table_is_not_waited_for_without_end(
    migrator: Cli, beside: psycopg.Connection, verb: list[str]
) -> None:
    """Somebody holds our tables: one sentence and exit 1, within seconds."""
    assert migrator.run("migrate").returncode == 0
    beside.execute("LOCK TABLE webhooks.migrations IN ACCESS EXCLUSIVE MODE")
    done = migrator.run(*verb)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("webhook-inbox: ")
    assert "lock" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("serves_from", "served"), [(VERSION, True), (VERSION + 1, False)])
def test_a_newer_schema_is_left_alone(
    migrator: Cli, beside: psycopg.Connection, serves_from: int, served: bool
) -> None:
    """A compatible one is good; for another one this release says that it is the one to upgrade."""
    assert migrator.run("migrate").returncode == 0
    beside.execute(
        "INSERT INTO webhooks.migrations (version, name, serves_from) VALUES (%s, 'later', %s)",
        [VERSION + 1, serves_from],
    )
    beside.commit()
    check, migrate = migrator.run("migrate", "--check"), migrator.run("migrate")
    assert (check.returncode, migrate.returncode) == ((0, 0) if served else (1, 1))
    told = check.stdout + migrate.stdout + migrate.stderr
    assert ("upgrade webhook-inbox" in told) is not served
    assert ("newer than this release's" in told) is served


def test_a_user_who_may_not_is_told_what_is_missing(migrator: Cli, beside: psycopg.Connection) -> None:
    """SQLSTATE 42501, raised by the server; nothing is left."""
    role = f"cli_{beside.info.dbname}"
    beside.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
    beside.commit()
    try:
        dsn = migrator.environment["WEBHOOK_INBOX_DATABASE_URL"]
        done = migrator.run("migrate", "--database", f"{dsn}&options={quote(f'-c role={role}')}")
    finally:
        beside.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
        beside.commit()
    assert (done.returncode, done.stdout) == (1, "")
    assert "SQLSTATE 42501" in done.stderr
    assert "CREATE on the database" in done.stderr
