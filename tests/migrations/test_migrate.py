"""Migrations bring any database to the same schema, whoever runs them, at once, killed, or without privileges."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.fixtures.arrivals import item, recording
from tests.fixtures.postgres import SCHEMA, PostgresServer
from tests.fixtures.programs import Programs
from tests.fixtures.receiving import ODD_SCHEMA
from tests.migrations.catalog import Snapshot, snapshot
from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.errors import KeyBusyError, SchemaVersionError, StatementError
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.migrate import check_schema, migrate, schema_status
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.steps import Begin, Plan
from webhook_inbox.sql.migrations import PARTITION_DAYS_AHEAD, migration_script, migrations
from webhook_inbox.sql.statements import quoted_identifier

ALL = tuple(f"{step.version:04}_{step.name}" for step in migrations(SCHEMA))
SECONDS_MAX = 60.0


def run(dsn: str, plan: Plan[Any], *, probe: Probe = no_probe) -> Any:
    """Run *plan* on a connection of its own."""
    with psycopg.connect(dsn) as conn:
        return PsycopgRunner(conn, probe=probe).run(plan)


def execute(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run *statements*; what the last one finds."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        cursor = [conn.execute(statement.encode()) for statement in statements][-1]
        return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module", params=[SCHEMA, ODD_SCHEMA], ids=["plain", "odd"])
def schema(request: pytest.FixtureRequest) -> str:
    """The name of the schema."""
    return str(request.param)


@pytest.fixture(scope="module")
def expected(postgres: PostgresServer, schema: str) -> Iterator[Snapshot]:
    """What an undisturbed migration makes."""
    name = postgres.create()
    run(postgres.dsn_of(name), migrate(schema))
    yield snapshot(postgres.dsn_of(name), schema)
    postgres.drop(name)


@pytest.fixture
def databases(postgres: PostgresServer) -> Iterator[Callable[[], str]]:
    """Makes empty databases."""
    made: list[str] = []

    def make() -> str:
        made.append(postgres.create())
        return postgres.dsn_of(made[-1])

    yield make
    for name in made:
        postgres.drop(name)


def test_a_database_is_brought_up_once(empty_database: str, schema: str, expected: Snapshot) -> None:
    """Everything the first time, nothing the second; the status tells both."""
    before = run(empty_database, schema_status(schema))
    assert (before.applied, before.pending, before.served) == (0, len(ALL), False)
    assert run(empty_database, migrate(schema)) == ALL
    assert run(empty_database, migrate(schema)) == ()
    after = run(empty_database, schema_status(schema))
    assert (after.applied, after.known, after.pending, after.served) == (len(ALL), len(ALL), 0, True)
    assert snapshot(empty_database, schema) == expected
    run(empty_database, check_schema(schema))


def test_the_script_makes_what_the_runner_makes(empty_database: str, schema: str, expected: Snapshot) -> None:
    """``migrate --sql`` is the same, partitions included; a second time it fails as a whole and changes nothing."""
    script = migration_script(schema)
    execute(empty_database, script)
    assert snapshot(empty_database, schema) == expected
    assert run(empty_database, migrate(schema)) == ()
    with pytest.raises(psycopg.errors.DuplicateTable):
        execute(empty_database, script)
    assert snapshot(empty_database, schema) == expected


@pytest.mark.parametrize("style", ["on", "off"])
def test_the_script_does_not_mind_how_a_session_reads_strings(
    empty_database: str, schema: str, expected: Snapshot, style: str
) -> None:
    """``standard_conforming_strings`` off reads backslashes in constants; ours mean the same either way."""
    execute(empty_database, f"SET standard_conforming_strings = {style}; {migration_script(schema)}")
    assert snapshot(empty_database, schema) == expected


def test_two_migrators_at_once_take_turns(
    databases: Callable[[], str], schema: str, expected: Snapshot
) -> None:
    """Each step is applied by one of them, once; both succeed."""
    for _ in range(3):
        dsn, barrier = databases(), threading.Barrier(3)

        def migrate_at_once(dsn: str = dsn, barrier: threading.Barrier = barrier) -> tuple[str, ...]:
            barrier.wait(SECONDS_MAX)
            return tuple(run(dsn, migrate(schema)))

        with ThreadPoolExecutor(3) as threads:
            done = [
                future.result(SECONDS_MAX) for future in [threads.submit(migrate_at_once) for _ in range(3)]
            ]
        assert sorted(name for names in done for name in names) == list(ALL)
        assert snapshot(dsn, schema) == expected


#: Runs in a process of its own: for each (dsn, number) it forks a migrator that dies at its number-th fault point.
KILLED = """
import json, os, signal, sys
import psycopg
from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.protocol.migrate import migrate

schema, jobs = json.loads(sys.stdin.readline())
for dsn, number in jobs:
    child = os.fork()
    if not child:
        left = [number]
        def probe(point):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
        with psycopg.connect(dsn) as conn:
            PsycopgRunner(conn, probe=probe).run(migrate(schema))
        os._exit(0)
    print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])), flush=True)
"""


def test_a_migrator_that_is_killed_anywhere_leaves_what_the_next_one_finishes(
    databases: Callable[[], str], programs: Programs, schema: str, expected: Snapshot
) -> None:
    """SIGKILL before and after every step of the plan: the next run finishes, and the schema is the same."""
    points: list[str] = []
    run(databases(), migrate(schema), probe=points.append)
    assert len(points) >= 2 * 5 * len(ALL)
    jobs = [(databases(), number) for number in range(1, len(points) + 1)]
    here = Path(__file__).parents[2]
    program = programs.start(KILLED, environment={"PYTHONPATH": str(here / "src")})
    assert program.process.stdin is not None
    program.process.stdin.write(json.dumps([schema, jobs]).encode() + b"\n")
    assert [program.report() for _ in jobs] == [-signal.SIGKILL] * len(jobs)
    for dsn, number in jobs:
        finished = run(dsn, migrate(schema))
        assert ALL[len(ALL) - len(finished) :] == finished, points[number - 1]
        assert snapshot(dsn, schema) == expected, points[number - 1]


def test_a_migrator_does_not_wait_without_end_for_its_rival(empty_database: str, schema: str) -> None:
    """Another one that holds the lock is waited for a bounded time; nothing is left."""
    with psycopg.connect(empty_database) as rival:
        lock = next(iter(migrate(schema)))
        assert isinstance(lock, Begin)
        rival.execute(lock.statement.text.encode(), lock.params)
        with pytest.raises(KeyBusyError):
            run(empty_database, migrate(schema, lock_wait_seconds=0.1))
        run(empty_database, migrate("another"))  # another schema's migrator does not mind
    status = run(empty_database, schema_status(schema))
    assert status.applied == 0
    assert run(empty_database, migrate(schema)) == ALL


def test_two_schemas_of_one_database_are_two_inboxes(
    empty_database: str, expected: Snapshot, schema: str
) -> None:
    """Nothing is shared: an event in one is not in the other."""
    for name in (schema, "another"):
        run(empty_database, migrate(name))
        for outcome in (Outcome.IGNORED, Outcome.DUPLICATE):
            given = item(settled="ignored")
            assert run(empty_database, record_one(given, recording(name))).outcome is outcome
    assert snapshot(empty_database, schema) == expected


def test_a_schema_that_is_too_old_is_refused_with_the_command_that_helps(empty_database: str) -> None:
    """Not there, and half way up: what is needed, what is found, and what to type."""
    with pytest.raises(SchemaVersionError, match=r"not there.*run `webhook-inbox migrate MODULE:"):
        run(empty_database, check_schema(SCHEMA))
    run(empty_database, migrate(SCHEMA))
    execute(empty_database, f"DELETE FROM webhooks.migrations WHERE version = {len(ALL)}")
    with pytest.raises(
        SchemaVersionError, match=f"at version {len(ALL) - 1}, this release needs version {len(ALL)}"
    ):
        run(empty_database, check_schema(SCHEMA))


def test_a_newer_schema_is_served_where_it_says_so(empty_database: str) -> None:
    """A later release's compatible step is nothing to us; where it needs a newer release, ours is to be upgraded."""
    run(empty_database, migrate(SCHEMA))
    newer = "INSERT INTO webhooks.migrations (version, name, serves_from) VALUES ({}, 'later', {})"
    execute(empty_database, newer.format(len(ALL) + 1, len(ALL)))
    run(empty_database, check_schema(SCHEMA))
    assert run(empty_database, migrate(SCHEMA)) == ()
    execute(empty_database, newer.format(len(ALL) + 2, len(ALL) + 1))
    with pytest.raises(
        SchemaVersionError, match=f"knows version {len(ALL) + 1} or later.*upgrade webhook-inbox"
    ):
        run(empty_database, check_schema(SCHEMA))


@pytest.fixture
def role(postgres: PostgresServer) -> Iterator[str]:
    """An ordinary role that may log in, and nothing else."""
    name = "plain_migrator"
    postgres.admin.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    postgres.admin.execute(f"DROP ROLE {name}")


def test_an_ordinary_role_may_migrate_a_database_it_may_create_in(
    databases: Callable[[], str], schema: str, role: str, expected: Snapshot
) -> None:
    """No superuser: CREATE on the database is enough, and the role owns what it made."""
    dsn = databases()
    execute(dsn, f"GRANT CREATE ON DATABASE {conninfo_to_dict(dsn)['dbname']} TO {role}")
    try:
        mine = make_conninfo(dsn, user=role)
        assert run(mine, migrate(schema)) == ALL
        assert snapshot(mine, schema) == expected
        result = run(mine, record_one(item(settled="ignored"), recording(schema)))
        assert result.outcome is Outcome.IGNORED
    finally:
        execute(dsn, f"DROP OWNED BY {role} CASCADE")


def test_a_schema_that_was_made_beforehand_needs_no_privilege_on_the_database(
    databases: Callable[[], str], schema: str, role: str, expected: Snapshot
) -> None:
    """An administrator makes the schema for the role; the role migrates within it."""
    dsn = databases()
    execute(dsn, f"CREATE SCHEMA {quoted_identifier(schema)} AUTHORIZATION {role}")
    try:
        assert run(make_conninfo(dsn, user=role), migrate(schema)) == ALL
        assert snapshot(dsn, schema) == expected
    finally:
        execute(dsn, f"DROP OWNED BY {role} CASCADE")


def test_a_role_that_may_not_is_refused_and_leaves_nothing(
    databases: Callable[[], str], schema: str, role: str
) -> None:
    """42501, raised by the server."""
    dsn = databases()
    with pytest.raises(StatementError) as caught:
        run(make_conninfo(dsn, user=role), migrate(schema))
    assert caught.value.sqlstate == "42501"
    assert run(dsn, schema_status(schema)).applied == 0
    assert execute(
        dsn, "SELECT count(*) FROM pg_namespace WHERE nspname NOT LIKE 'pg%' AND nspname <> 'public'"
    ) == [(1,)]


def test_the_house_needs_what_it_makes(expected: Snapshot) -> None:
    """A schema that lost an index, a trigger or a comment would be told from a whole one."""
    assert {index[1] for index in expected["indexes"]} >= {
        "inbox_event_key",
        "inbox_unfinished",
        "inbox_attention",
    }
    assert [trigger[1] for trigger in expected["triggers"] if trigger[0] == "inbox"] == [
        "refuse_unsealed_effect"
    ]
    assert expected["comments"]
    partitions = [row for row in expected["relations"] if row[4]]
    assert (
        len([row for row in partitions if row[1] == "r"]) == PARTITION_DAYS_AHEAD + 2
    )  # today, and the default
