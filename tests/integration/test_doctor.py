"""Each thing that makes a promise untrue is found on a real server, and nothing is found where all is well."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.fixtures.databases import GIVEN, Given
from tests.fixtures.pooler import direct
from tests.fixtures.postgres import PostgresServer
from webhook_inbox import Inbox
from webhook_inbox.cli.database import run_plan
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.model.finding import Finding, Weight
from webhook_inbox.model.secret import Secret
from webhook_inbox.protocol import database_checks
from webhook_inbox.protocol.diagnosis import diagnose
from webhook_inbox.protocol.doctor import Health, read_health
from webhook_inbox.sources import GitHub, Stripe
from webhook_inbox.sql.roles import OWNER, PARTS, Part, roles_script
from webhook_inbox.testing.databases import apply_migrations

GOOD_SECRET = "whsec_4f9c2b7a1de8053a6c7d"
#: The tests' shared server is not durable, and may stand behind a pooler: no fault of the app's.
OF_THE_FIXTURE = {"fsync", "full_page_writes", "synchronous_commit", "pooler"}
EVENT = """INSERT INTO webhooks.inbox
    (provider, endpoint, event_id, event_type, state, body_sha256, body_bytes, last_error)
    VALUES ('stripe', 'billing', 'evt_1', 'invoice.paid', '{state}', '', 0, {error})"""

DEAD_SEND = """WITH message AS (
        INSERT INTO webhooks.outbox (event_type, payload) VALUES ('Booked', 'null') RETURNING id, position
    )
    INSERT INTO webhooks.sends (message_id, destination, position, state)
    SELECT id, 'mail', position, 'dead' FROM message"""


def app(dsn: str, source: Any = None, *, handles: bool = True, **settings: Any) -> Inbox:
    """An app with one endpoint."""
    inbox = Inbox(dsn)
    billing = inbox.endpoint("billing", source or Stripe(secrets=GOOD_SECRET), **settings)

    def book(tx: Any, event: Any) -> None:
        """Have an effect."""

    if handles:
        billing.on("invoice.paid")(book)
    return inbox


def health(dsn: str, clock: Callable[[], float] = time.time, *, parts: Sequence[Part] = PARTS) -> Health:
    """What the database tells."""
    return run_plan(dsn, lambda: read_health("webhooks", parts=parts, clock=clock))


def found(
    dsn: str, inbox: Inbox | None = None, *, clock: Callable[[], float] = time.time, processes: int = 1
) -> dict[str, Finding]:
    """The findings by name, without those that the fixture is to blame for."""
    plans = list((inbox or app(dsn)).endpoint_plans.values())
    findings = diagnose(health(dsn, clock), plans, processes=processes)
    return {each.name: each for each in findings if each.name not in OF_THE_FIXTURE}


def execute(dsn: str, *statements: str) -> None:
    """Do what an operator or an accident does."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_nothing_is_found_where_all_is_well() -> None:
    """A durable server with our schema, and an app with a handler and a good secret."""
    with EmbeddedPostgres() as server:
        apply_migrations(server.dsn)
        plans = list(app(server.dsn).endpoint_plans.values())
        assert diagnose(health(server.dsn), plans) == ()


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_a_server_that_forgets_is_wrong(name: str) -> None:
    """Either switch loses or damages what was answered 200."""
    with EmbeddedPostgres(settings={name: "off"}) as server:
        apply_migrations(server.dsn)
        (finding,) = diagnose(health(server.dsn), list(app(server.dsn).endpoint_plans.values()))
    assert (finding.name, finding.weight) == (name, Weight.WRONG)


#: What an operator or an accident does to the database, and what is found.
ACCIDENTS = {
    "read_only": ("ALTER DATABASE {database} SET default_transaction_read_only = on", Weight.WRONG),
    "statement_timeout": ("ALTER DATABASE {database} SET statement_timeout = '2s'", Weight.RISKY),
    "idle_in_transaction_session_timeout": (
        "ALTER DATABASE {database} SET idle_in_transaction_session_timeout = '1s'",
        Weight.RISKY,
    ),
    "schema_behind": ("DELETE FROM webhooks.migrations WHERE version > 4", Weight.WRONG),
    "schema_newer": (
        "INSERT INTO webhooks.migrations (version, name, serves_from) VALUES (900, 'later', 1)",
        Weight.NOTE,
    ),
    "indexes": ("DROP INDEX webhooks.inbox_due", Weight.WRONG),
    "autovacuum": ("ALTER TABLE webhooks.inbox SET (autovacuum_enabled = off)", Weight.RISKY),
    "no_worker": (EVENT.format(state="waiting", error="NULL"), Weight.WRONG),
    "unhandled": (EVENT.format(state="ignored", error="'no handler for invoice.paid'"), Weight.NOTE),
    "paused": ("INSERT INTO webhooks.endpoints (name, paused_by) VALUES ('billing', 'ada')", Weight.RISKY),
    "outbox_unrouted": (
        "INSERT INTO webhooks.outbox (event_type, payload, state) VALUES ('Booked', 'null', 'unrouted')",
        Weight.WRONG,
    ),
    "outbox_dead": (DEAD_SEND, Weight.WRONG),
    "partitions": (
        "INSERT INTO webhooks.bodies_default SELECT now() - interval '1 day', 1, '', 'null'",
        Weight.RISKY,
    ),
}


@pytest.mark.parametrize("name", ACCIDENTS)
def test_an_accident_is_found(database: str, name: str) -> None:
    """What is so is found, with its weight, and nothing else."""
    statement, weight = ACCIDENTS[name]
    assert found(database) == {}
    with psycopg.connect(database, autocommit=True) as connection:
        called = f'"{connection.info.dbname}"'
        connection.execute(statement.format(database=called).encode())
    (finding,) = found(database).values()
    assert (finding.name, finding.weight) == (name, weight)
    assert finding.what.endswith(".")
    assert finding.why.endswith(".")
    assert finding.remedy


def test_a_database_that_lacks_characters_is_found(postgres: PostgresServer) -> None:
    """An authentic delivery that says *snowman* in a header could never be stored there."""
    name = f"test_latin_{secrets.token_hex(4)}"
    postgres.admin.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        apply_migrations(postgres.direct_dsn_of(name))
        (finding,) = found(postgres.direct_dsn_of(name)).values()
        assert (finding.name, finding.weight) == ("encoding", Weight.RISKY)
        assert "LATIN1" in finding.what
    finally:
        postgres.drop(name)


def test_days_without_a_partition_are_found(database: str) -> None:
    """The next three days have one each, or somebody is told."""
    execute(
        database,
        "DO $$ BEGIN EXECUTE format('DROP TABLE webhooks.%I', "
        "'bodies_' || to_char((now() AT TIME ZONE 'UTC')::date + 2, 'YYYYMMDD')); END $$",
    )
    assert set(found(database)) == {"partitions"}


def test_an_index_that_is_invalid_is_found(database: str) -> None:
    """One that CREATE INDEX CONCURRENTLY left behind serves no query."""
    execute(
        database, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'webhooks.inbox_due'::regclass"
    )
    assert "inbox_due" in found(database)["indexes"].what


@contextmanager
def acting_as(dsn: str, *grants: str) -> Iterator[str]:
    """Have every session of the database, but those that are there, act as a role that was granted *grants*."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        role = f"t{secrets.token_hex(6)}"
        connection.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA webhooks TO {role}".encode())
        try:
            for grant in grants:
                connection.execute(f"{grant} TO {role}".encode())
            connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET role = {role}'.encode())
            yield role
        finally:
            connection.execute(f'ALTER DATABASE "{connection.info.dbname}" RESET role'.encode())
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_a_user_without_privileges_is_told_so(database: str) -> None:
    """What it lacks is named, as a GRANT has it; what it may read is looked at all the same."""
    with acting_as(database, "GRANT SELECT ON ALL TABLES IN SCHEMA webhooks"):
        findings = found(database)
        looked = health(database).contents
    assert set(findings) == {"privileges"}
    assert findings["privileges"].weight is Weight.WRONG
    assert "lacks INSERT on inbox, USAGE on inbox_id_seq, " in findings["privileges"].what
    assert re.search(r"and \d+ more\.$", findings["privileges"].what)
    assert looked is not None


def test_each_part_needs_what_its_role_has(database: str) -> None:
    """Under its role a part lacks nothing, and what one privilege less makes it lack is said."""
    prefix = f"t{secrets.token_hex(4)}"
    execute(database, roles_script("webhooks", prefix=prefix))
    lacking = {}
    for part in PARTS:
        with acting_as(database, f"GRANT {prefix}_{part}"):
            lacking[part] = health(database, parts=[part]).tables
    revoked = f"REVOKE UPDATE (claims) ON webhooks.inbox FROM {prefix}_worker"
    execute(database, revoked, f"REVOKE EXECUTE ON FUNCTION webhooks.seal_effect FROM {prefix}_worker")
    with acting_as(database, f"GRANT {prefix}_worker"):
        told = health(database, parts=["worker"])
    execute(database, *(f"DROP OWNED BY {prefix}_{part} CASCADE" for part in PARTS))
    execute(database, f"REASSIGN OWNED BY {prefix}_owner TO CURRENT_USER")
    execute(database, *(f"DROP ROLE {prefix}_{part}" for part in (OWNER, *PARTS)))
    assert {part: table.denied for part, table in lacking.items() if table} == dict.fromkeys(PARTS, ())
    assert {part for part, table in lacking.items() if table and table.readable} == {"operator", "reader"}
    assert told.tables is not None
    assert told.tables.denied == ("UPDATE (claims) on inbox", "EXECUTE on seal_effect")
    assert told.contents is None


def test_synchronous_commit_off_is_noted(database: str) -> None:
    """Our own commits switch it on; the app's others may be lost."""
    execute(database, f'ALTER DATABASE "{_name(database)}" SET synchronous_commit = off')
    plans = list(app(database).endpoint_plans.values())
    by_name = {each.name: each.weight for each in diagnose(health(database), plans)}
    assert by_name["synchronous_commit"] is Weight.NOTE


@pytest.mark.parametrize(("ahead_seconds", "said"), [(60, "60 s ahead of"), (-60, "60 s behind")])
def test_a_clock_that_is_off_is_found(database: str, ahead_seconds: int, said: str) -> None:
    """By how much, and which way; the time that the answer took is no skew."""
    finding = found(database, clock=lambda: time.time() - ahead_seconds)["clock_skew"]
    assert said in finding.what


def test_a_transaction_that_stays_open_is_found(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its session does: vacuum can remove nothing that it may still see."""
    with psycopg.connect(database) as open_one:
        open_one.execute("SELECT 1")
        assert found(database) == {}
        monkeypatch.setattr(database_checks, "OLD_TRANSACTION_SECONDS", 0.0)
        assert set(found(database)) == {"old_transaction"}


def test_more_connections_than_the_server_has_are_found(database: str) -> None:
    """Two pools of ten and six beside them, a hundred times."""
    assert "2600 connections (100 x 26)" in found(database, processes=100)["connections"].what


def test_no_pooler_is_found_where_there_is_none(database: str) -> None:
    """The driver and the server name one process."""
    assert health(direct(database)).server.pooled is False


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: given.label)
def test_every_way_to_give_a_database_is_looked_at(given: Given, database: str) -> None:
    """On its own connections; a driver that cannot tell of a pooler says neither yes nor no."""

    async def looked() -> Health:
        async with given.open(direct(database)) as opened:
            inbox = Inbox(opened)
            async with inbox.running():
                return await inbox.perform(read_health)

    told = asyncio.run(looked())
    assert told.server.pooled in {False, None}
    assert told.contents is not None


def test_an_endpoint_without_a_handler_is_found(database: str) -> None:
    """Its events would have no effect."""
    assert set(found(database, app(database, handles=False))) == {"no_handlers"}


def test_a_source_whose_signature_leaves_out_the_id_is_noted(database: str) -> None:
    """With what is known of the source, and what decides about duplicates."""
    finding = found(database, app(database, GitHub(secrets=GOOD_SECRET)))["signed_id"]
    assert finding.weight is Weight.NOTE
    assert "duplicate" in finding.remedy


@pytest.mark.parametrize(
    ("secret", "weight"), [("whsec_changeme_0123456789", Weight.WRONG), ("whsec_short", Weight.RISKY)]
)
def test_a_secret_that_can_be_guessed_is_found_and_not_shown(
    database: str, secret: str, weight: Weight
) -> None:
    """It is named by its label."""
    finding = found(database, app(database, Stripe(secrets=secret)))["secret"]
    assert finding.weight is weight
    assert "secret-1" in finding.what
    assert not re.search(secret, repr(finding))


def test_chance_does_not_make_a_secret_a_placeholder(database: str) -> None:
    """A long random value may spell anything within."""
    assert found(database, app(database, Stripe(secrets="whsec_9xFakeR1replaceme7Q2"))) == {}


def test_a_second_secret_is_noted_by_its_label(database: str) -> None:
    """So that the old one does not stay after a rotation."""
    both = [Secret(GOOD_SECRET, label="2030"), Secret(f"{GOOD_SECRET}00", label="2029")]
    finding = found(database, app(database, Stripe(secrets=both)))["several_secrets"]
    assert finding.weight is Weight.NOTE
    assert "2030, 2029" in finding.what


def test_secrets_that_a_callable_gives_are_not_asked_for(database: str) -> None:
    """They belong to a delivery."""

    def give() -> str:
        raise AssertionError("asked")

    assert found(database, app(database, Stripe(secrets=give))) == {}


def _name(dsn: str) -> str:
    with psycopg.connect(dsn) as connection:
        return connection.info.dbname
