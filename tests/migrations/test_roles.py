"""Each part can do what it does and nothing else: every statement under its role, and no grant without a statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.fixtures.postgres import PostgresServer
from tests.fixtures.receiving import ODD_SCHEMA
from tests.migrations.roles import NOBODYS, RUN_BY, Stage, made, revoke
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.sql.roles import OWNER, PARTS, needs, roles_script
from webhook_inbox.sql.statements import Statements

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "privileges.md"


@pytest.fixture(scope="module")
def stage(postgres: PostgresServer) -> Iterator[Stage]:
    """Under the schema's usual name."""
    yield from made(postgres, "webhooks")


@pytest.fixture(scope="module")
def odd_stage(postgres: PostgresServer) -> Iterator[Stage]:
    """Under a name that somebody's quoting stumbles over."""
    yield from made(postgres, ODD_SCHEMA)


def test_every_statement_is_somebodys() -> None:
    """Whoever adds one says here who runs it, and grants in ``roles.sql`` what that takes."""
    known = frozenset().union(*RUN_BY.values(), NOBODYS.split())
    assert known == {field.name for field in fields(Statements)}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_may_run_what_it_runs(stage: Stage, odd_stage: Stage, part: str) -> None:
    """Every statement of it passes the server's check under its role, whatever the schema is called."""
    for at in (stage, odd_stage):
        assert {name: why for name in sorted(RUN_BY[part]) if (why := at.may(part, name))} == {}


@pytest.mark.parametrize("part", [part for part in PARTS if part != "reader"])
def test_a_part_may_do_nothing_else(stage: Stage, part: str) -> None:
    """Without any one of its grants, some statement of it is refused; so each is needed."""
    needless = []
    for role, name, right, column in sorted(stage.granted()):
        if role == part:
            with stage.undone():
                revoke(stage, role, name, right, column)
                if not any(stage.may(part, statement) for statement in sorted(RUN_BY[part])):
                    needless.append((name, right, column))
    assert needless == []


def test_the_reader_reads_all_and_changes_nothing(stage: Stage) -> None:
    """Every table and view of ours, and no other privilege than that."""
    rights = {(name, right) for role, name, right, _ in stage.granted() if role == "reader"}
    tables = {
        row[0]
        for row in stage.conn.execute(
            "SELECT relname::text FROM pg_class WHERE relnamespace = 'webhooks'::regnamespace "
            "AND relkind IN ('r', 'p', 'v') AND NOT relname ~ '^bodies_\\d+$'"
        ).fetchall()
    }
    assert rights == {(table, "SELECT") for table in tables} | {("jsonb_or_null", "EXECUTE")}
    with stage.acting_as("reader") as conn:
        conn.execute("SELECT * FROM webhooks.events")


DENIED = {
    "receiver": (
        "SELECT body FROM webhooks.bodies",
        "SELECT kept FROM webhooks.inbox",
        "SELECT body FROM webhooks.conflicts",
        "SELECT payload FROM webhooks.events",
        "UPDATE webhooks.inbox SET state = 'ignored'",
        "DELETE FROM webhooks.inbox",
        "DELETE FROM webhooks.bodies",
        "INSERT INTO webhooks.inbox (processed_at) VALUES (now())",
        "SELECT payload FROM webhooks.outbox",
        "SELECT webhooks.drop_body_partition(now(), 0)",
    ),
    "worker": (
        "UPDATE webhooks.inbox SET event_id = 'evt_other'",
        "UPDATE webhooks.inbox SET body_sha256 = ''",
        "UPDATE webhooks.bodies SET body = ''",
        "SELECT payload FROM webhooks.outbox",
        "DELETE FROM webhooks.outbox",
        "INSERT INTO webhooks.audit (actor, action) VALUES ('', '')",
        "INSERT INTO webhooks.endpoints (name) VALUES ('billing')",
    ),
    "relay": (
        "SELECT 1 FROM webhooks.inbox",
        "SELECT 1 FROM webhooks.bodies",
        "UPDATE webhooks.outbox SET payload = 'null'",
        "INSERT INTO webhooks.outbox (event_type, payload) VALUES ('', 'null')",
    ),
    "operator": (
        "UPDATE webhooks.audit SET actor = ''",
        "DELETE FROM webhooks.audit",
        "UPDATE webhooks.inbox SET event_id = 'evt_other'",
        "UPDATE webhooks.bodies SET body = ''",
        "INSERT INTO webhooks.workers (name, lease_ends_at) VALUES ('', now())",
    ),
    "reader": ("DELETE FROM webhooks.counters", "SELECT webhooks.next_event_id()"),
}


@pytest.mark.parametrize(
    ("part", "statement"), [(part, each) for part, denied in DENIED.items() for each in denied]
)
def test_what_nobody_needs_is_denied(stage: Stage, part: str, statement: str) -> None:
    """42501, raised by the server."""
    with stage.acting_as(part) as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(statement.encode())


@pytest.mark.parametrize("part", PARTS)
def test_nobody_may_change_the_schema(stage: Stage, part: str) -> None:
    """Only the owner makes, alters and drops."""
    for statement in ("CREATE TABLE webhooks.t ()", "ALTER TABLE webhooks.inbox DISABLE TRIGGER ALL"):
        with stage.acting_as(part) as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(statement.encode())


def test_the_page_lists_what_is_granted(stage: Stage) -> None:
    """Role, object, privilege and column: neither less nor more than the database holds."""
    documented = set()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            role, name, rights = (cell.strip() for cell in line.strip("|").split("|"))
            for right, columns in re.findall(r"([A-Z]+)(?: \(([^)]+)\))?", rights):
                for column in re.findall(r"\w+", columns) or [""]:
                    documented.add((role.strip("`"), name.strip("`"), right, column))
    assert documented == stage.granted()


def test_what_the_script_grants_is_what_a_part_is_said_to_need(stage: Stage) -> None:
    """``needs`` reads the script as the server does; a part that is another one too has what that has."""
    granted = stage.granted()
    also = {"worker": "receiver", "operator": "reader"}
    for part in PARTS:
        assert set(needs(part)) == {each[1:] for each in granted if each[0] in {part, also.get(part)}}


def test_the_script_ends_in_the_same_however_often_it_runs(stage: Stage) -> None:
    """And takes back what is granted besides."""
    before = stage.granted()
    stage.conn.execute(
        sql.SQL("GRANT UPDATE ON webhooks.inbox TO {}").format(sql.Identifier(stage.names["receiver"]))
    )
    assert stage.granted() != before
    stage.conn.execute(roles_script(stage.schema, prefix=stage.prefix).encode())
    assert stage.granted() == before


def test_the_owner_owns_all_and_migrates(stage: Stage) -> None:
    """Tables, view, partitions and functions; no superuser is asked."""
    owner = stage.names[OWNER]
    others = stage.conn.execute(
        "SELECT relname FROM pg_class "
        "WHERE relnamespace = 'webhooks'::regnamespace AND pg_get_userbyid(relowner) <> %s "
        "UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'webhooks'::regnamespace "
        "AND pg_get_userbyid(proowner) <> %s",
        [owner, owner],
    ).fetchall()
    assert others == []
    with stage.acting_as(OWNER) as conn:
        conn.execute("DROP TABLE webhooks.bodies_default")
        conn.execute("CREATE TABLE webhooks.bodies_default PARTITION OF webhooks.bodies DEFAULT")


def test_a_worker_that_owns_nothing_makes_and_drops_days(stage: Stage) -> None:
    """The functions do it as their owner; what is made is the owner's."""
    with stage.acting_as("worker") as conn:
        assert conn.execute("SELECT webhooks.make_body_partitions(40)").fetchone() == (10,)
        dropped = conn.execute("SELECT webhooks.drop_body_partition(now() + interval '2 days', 9)").fetchone()
        conn.execute("RESET ROLE")
        owners = conn.execute(
            "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class JOIN pg_inherits ON inhrelid = oid "
            "WHERE inhparent = 'webhooks.bodies'::regclass"
        ).fetchall()
    assert dropped is not None
    assert str(dropped[0]).startswith("bodies_2")
    assert owners == [(stage.names[OWNER],)]


def test_a_member_is_granted_in_the_same_transaction() -> None:
    """So that an app whose tables are handed over is not without them for a moment."""
    script = roles_script("webhooks", prefix="hooks", members=[("worker", 'a"pp'), (OWNER, "deploy")])
    assert 'GRANT "hooks_worker" TO "a""pp";\nGRANT "hooks_owner" TO "deploy";\n\nCOMMIT;' in script
    with pytest.raises(ConfigurationError, match="there is no role 'admin'; there are owner, receiver"):
        roles_script("webhooks", prefix="hooks", members=[("admin", "app")])
    with pytest.raises(ConfigurationError, match="role 'x+_receiver' is no PostgreSQL name"):
        roles_script("webhooks", prefix="x" * 55)
