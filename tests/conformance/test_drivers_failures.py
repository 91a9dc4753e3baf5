"""Every driver names what the database does by its SQLSTATE; each is raised by a real server, none is made up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg import sql

from tests.conformance.conftest import OpenBench
from tests.fixtures.arrivals import item, recording
from tests.fixtures.drivers import BEGIN, Bench, Script, statement
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.programs import eventually
from tests.fixtures.worlds import DATABASE_ERRORS, say, scalar, sqlstate_of
from webhook_inbox.errors import (
    ConflictError,
    HandlerFailedError,
    HandlerTimeoutError,
    InboxError,
    KeyBusyError,
    SchemaVersionError,
    StatementError,
    StoreError,
    StoreUnavailableError,
)
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.steps import Commit, One, Plan, Rollback, Run, Script as ScriptStep
from webhook_inbox.sql.statements import Statement

Steps: TypeAlias = Generator[Any, Any, None]
SECONDS_MAX = 20.0


def plan_of(*texts: str) -> Callable[[], Plan[None]]:
    """A plan that runs *texts* in one transaction."""

    def plan() -> Plan[None]:
        yield BEGIN
        for text in texts:
            yield ScriptStep("test", text)
        yield Commit()

    return plan


def ours(bench: Bench, *texts: str) -> StoreError:
    """What the plan that runs *texts* as our own statements meets."""
    with pytest.raises(StoreError) as caught:
        bench.run(plan_of(*texts))
    return caught.value


def theirs(bench: Bench, *texts: str, seconds_max: float = 30.0) -> InboxError:
    """What the plan meets whose handler runs *texts*."""

    def script(conn: Any) -> Steps:
        for text in texts:
            yield say(conn, text)

    def plan() -> Plan[None]:
        yield BEGIN
        yield Run("tests.handler", bench.work(script), seconds_max)
        yield Commit()

    with pytest.raises(InboxError) as caught:
        bench.run(plan)
    return caught.value


SAVED = ("INSERT INTO once VALUES (1) RETURNING n",)
#: (what our own statements do, the SQLSTATE, what it is for a plan, what it is in a handler)
ALONE: dict[str, tuple[tuple[str, ...], str, type[InboxError], type[InboxError]]] = {
    "unique": (SAVED * 2, "23505", StatementError, HandlerFailedError),
    "check": (("INSERT INTO effect VALUES (NULL)",), "23502", StatementError, HandlerFailedError),
    "division": (("SELECT 1 / 0",), "22012", StatementError, HandlerFailedError),
    "syntax": (("SELEC 1",), "42601", StatementError, HandlerFailedError),
    "no table": (("SELECT * FROM nowhere",), "42P01", SchemaVersionError, HandlerFailedError),
    "no column": (("SELECT nothing FROM effect",), "42703", SchemaVersionError, HandlerFailedError),
    "no schema": (("CREATE TABLE nowhere.t (n int)",), "3F000", SchemaVersionError, HandlerFailedError),
    "read-only": (
        ("SET TRANSACTION READ ONLY", "INSERT INTO effect VALUES (1)"),
        "25006",
        StoreUnavailableError,
        StoreUnavailableError,
    ),
    "statement_timeout": (
        ("SET LOCAL statement_timeout = '20ms'", "SELECT pg_sleep(10)"),
        "57014",
        StoreUnavailableError,
        HandlerTimeoutError,
    ),
    "terminated": (
        ("SELECT pg_terminate_backend(pg_backend_pid())",),
        "57P01",
        StoreUnavailableError,
        StoreUnavailableError,
    ),
    "raised 40001": (
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END $$",),
        "40001",
        ConflictError,
        ConflictError,
    ),
    "disk full": (
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '53100'; END $$",),
        "53100",
        StoreUnavailableError,
        StoreUnavailableError,
    ),
    "input/output error": (
        ("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '58030'; END $$",),
        "58030",
        StoreUnavailableError,
        StoreUnavailableError,
    ),
}


@pytest.mark.parametrize("case", ALONE.values(), ids=ALONE)
def test_a_statement_of_ours_fails_by_its_sqlstate(
    bench: Bench, effects: psycopg.Connection[Any], case: tuple[Any, ...]
) -> None:
    """P-DUP: nothing but the unique key's own verdict is a duplicate; each failure has its name, and nothing stays."""
    texts, sqlstate, name, _ = case
    error = ours(bench, *texts)
    assert (type(error), error.sqlstate) == (name, heard(bench, sqlstate))
    assert sqlstate_of(error.__cause__) == error.sqlstate
    assert "DETAIL" not in str(error)
    assert "once" not in str(error)
    works_again(bench, effects)


@pytest.mark.parametrize("case", ALONE.values(), ids=ALONE)
def test_a_statement_of_a_handlers_fails_by_its_sqlstate(
    bench: Bench, effects: psycopg.Connection[Any], case: tuple[Any, ...]
) -> None:
    """P-DUP: what a handler meets is its own failure, unless the database is to blame; the cause is kept."""
    texts, sqlstate, _, name = case
    error = theirs(bench, *texts)
    assert type(error) is name
    assert "tests.handler" in str(error)
    assert sqlstate_of(error.__cause__) == heard(bench, sqlstate)
    works_again(bench, effects)


def heard(bench: Bench, sqlstate: str) -> str:
    """What a driver tells of *sqlstate*: asyncpg meets a session's end as a connection that is closed."""
    return "08003" if sqlstate == "57P01" and not bench.hears_last_words else sqlstate


def works_again(bench: Bench, witness: psycopg.Connection[Any]) -> None:
    """See that nothing stayed, and that the driver goes on at once."""
    assert witness.execute(
        "SELECT (SELECT count(*) FROM effect) + (SELECT count(*) FROM once)"
    ).fetchone() == (0,)
    for _ in range(3):
        bench.run(plan_of("SELECT 1"))


def test_a_session_that_pauses_too_long_is_a_handler_out_of_time(
    bench: Bench, effects: psycopg.Connection[Any]
) -> None:
    """25P03: the server ends the session of a handler that pauses too long; asyncpg hears it or not."""

    def script(conn: Any) -> Steps:
        yield say(conn, "SET LOCAL idle_in_transaction_session_timeout = '50ms'")
        pid = yield scalar(conn, "SELECT pg_backend_pid()")
        eventually(lambda: is_gone(effects, pid), what="the server ended the session")
        yield say(conn, "SELECT 1")

    def plan() -> Plan[None]:
        yield BEGIN
        yield Run("tests.handler", bench.work(script), 30.0)
        yield Commit()

    with pytest.raises(HandlerTimeoutError if bench.hears_last_words else InboxError, match="25P03|08003"):
        bench.run(plan)
    works_again(bench, effects)


def is_gone(witness: psycopg.Connection[Any], pid: int) -> bool:
    """Whether that session has ended."""
    return witness.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone() is None


def test_a_lock_that_does_not_come_in_time_is_busy_for_us_and_a_failure_for_a_handler(
    bench: Bench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """55P03: for our statements a rival holds the key; in a handler it is the handler's own lock."""
    effects.execute("INSERT INTO once VALUES (1)")
    texts = ("SET LOCAL lock_timeout = '20ms'", "SELECT n FROM once WHERE n = 1 FOR UPDATE")
    with psycopg.connect(database) as rival:
        rival.execute("SELECT n FROM once FOR UPDATE")
        error = ours(bench, *texts)
        assert (type(error), error.sqlstate) == (KeyBusyError, "55P03")
        assert type(theirs(bench, *texts)) is HandlerFailedError


@pytest.mark.parametrize("who", ["ours", "handler"])
def test_the_victim_of_a_deadlock_may_run_again(
    bench: Bench, database: str, effects: psycopg.Connection[Any], who: str
) -> None:
    """40P01 from a real deadlock: two transactions that lock the same rows in opposite order."""
    effects.execute("INSERT INTO once VALUES (1), (2)")
    effects.execute(
        sql.SQL("ALTER DATABASE {} SET deadlock_timeout = '10ms'").format(sql.Identifier(effects.info.dbname))
    )
    lock = "SELECT n FROM once WHERE n = {} FOR UPDATE"
    with psycopg.connect(database) as rival:
        rival.execute("SET deadlock_timeout = '1h'")  # the other one shall be the victim
        rival.execute(lock.format(2))
        pid = rival.info.backend_pid

        def other_half() -> None:
            with suppress(psycopg.Error):
                rival.execute(lock.format(1))

        def wait_for_rival() -> None:
            waits = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
            eventually(lambda: effects.execute(waits, [pid]).fetchone() is not None, what="the rival waits")

        thread = threading.Thread(target=other_half)

        def script(conn: Any) -> Steps:
            yield say(conn, lock.format(1))
            thread.start()
            wait_for_rival()
            yield say(conn, lock.format(2))

        def plan() -> Plan[None]:
            yield BEGIN
            if who == "handler":
                yield Run("tests.handler", bench.work(script), 30.0)
            else:
                yield One(statement(lock.format(1)))
                thread.start()
                wait_for_rival()
                yield One(statement(lock.format(2)))
            yield Commit()

        with pytest.raises(ConflictError) as caught:
            bench.run(plan)
        assert caught.value.sqlstate == "40P01"
        thread.join(SECONDS_MAX)


def test_a_serialization_failure_at_the_commit_may_run_again(
    bench: Bench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """40001 raised by COMMIT itself, out of a real deferred check."""
    effects.execute(
        """
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'could not serialize' USING ERRCODE = 'serialization_failure';
        END $$;
        CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION refuse();
        """
    )
    error = ours(bench, "INSERT INTO effect VALUES (1) RETURNING n")
    assert (type(error), error.sqlstate) == (ConflictError, "40001")


def test_a_server_without_a_connection_to_spare_is_unavailable_within_the_wait(
    open_bench: OpenBench, postgres: PostgresServer, effects: psycopg.Connection[Any], database: str
) -> None:
    """53300 from a real limit: unavailable after ``connection_wait_seconds``, and served once there is room."""
    limit = sql.SQL("ALTER DATABASE {} CONNECTION LIMIT {}")
    name = sql.Identifier(effects.info.dbname)
    role = f"plain_{effects.info.backend_pid}"  # superusers are not counted
    effects.execute(f"CREATE ROLE {role} LOGIN")
    try:
        effects.execute(limit.format(name, 0))
        bench = open_bench(as_role(postgres, effects.info.dbname, role), connection_wait_seconds=0.5)
        with pytest.raises(StoreUnavailableError, match="connection_wait_seconds|53300|refused"):
            bench.run(plan_of("SELECT 1"))
        effects.execute(limit.format(name, -1))
        bench.run(plan_of("SELECT 1"))
    finally:
        effects.execute(f"DROP ROLE {role}")  # it owns nothing; its session may live on


def as_role(postgres: PostgresServer, database: str, role: str) -> str:
    """The DSN of *database* for *role*."""
    return psycopg.conninfo.make_conninfo(postgres.dsn_of(database), user=role)


def test_what_a_driver_cannot_send_is_no_outage(bench: Bench) -> None:
    """A value that the driver refuses to send is a fault of the statement's, and the connection goes on."""
    text = Statement("test", "SELECT %(v)s::text", ("v",))
    number = Statement("test", "SELECT %(v)s::int", ("v",))

    def plan() -> Plan[int]:
        yield BEGIN
        for refused in (object(), "a\x00b"):
            with pytest.raises(StatementError, match="could not be sent|22000"):
                yield One(text, {"v": refused})
        row = yield One(number, {"v": 7})
        yield Commit()
        return int(row[0])

    assert bench.run(plan) == 7


def test_what_an_error_says_of_a_row_stays_in_its_cause(
    bench: Bench, effects: psycopg.Connection[Any]
) -> None:
    """P-QUIET: the server quotes the offending value; our error does not."""
    effects.execute("CREATE TABLE secrets (v text PRIMARY KEY)")
    insert = Statement("test", "INSERT INTO secrets VALUES (%(v)s) RETURNING v", ("v",))

    def plan() -> Plan[None]:
        yield BEGIN
        for _ in range(2):
            yield One(insert, {"v": "not for the log"})

    with pytest.raises(StatementError) as caught:
        bench.run(plan)
    assert "not for the log" in str(caught.value.__cause__)
    assert "not for the log" not in str(caught.value)


def test_an_error_that_a_handler_wraps_is_still_known(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """An ORM or the user's own code wraps the driver's error; the SQLSTATE is found behind it, however wrapped."""

    def wraps(conn: Any, *, explicitly: bool) -> Steps:
        try:
            yield say(conn, "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '40P01'; END $$")
        except DATABASE_ERRORS as error:
            raise RuntimeError("wrapped") from (error if explicitly else None)

    for explicitly in (True, False):

        def script(conn: Any, explicitly: bool = explicitly) -> Steps:
            return wraps(conn, explicitly=explicitly)

        def plan(script: Script = script) -> Plan[None]:
            yield BEGIN
            yield Run("tests.handler", bench.work(script), 30.0)

        with pytest.raises(ConflictError) as caught:
            bench.run(plan)
        assert caught.value.sqlstate == "40P01"


def test_a_handlers_own_database_is_not_ours(
    bench: Bench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """An error without SQLSTATE from a connection of the handler's own is the handler's failure: ours is well."""

    def script(conn: Any) -> Steps:
        yield say(conn, "SELECT 1")
        psycopg.connect("host=/nowhere dbname=x")

    def plan() -> Plan[None]:
        yield BEGIN
        yield Run("tests.handler", bench.work(script), 30.0)

    with pytest.raises(HandlerFailedError):
        bench.run(plan)


def test_an_event_whose_first_copy_is_kept_open_is_busy_after_the_wait(
    bench: Bench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """P-DUP: a rival transaction on the same key is waited for, ``wait_seconds`` and no longer, and is no duplicate."""

    def plan() -> Plan[Outcome]:
        result = yield from record_one(item(), recording(wait_seconds=0.1))
        return result.outcome

    columns = "provider, endpoint, account, environment, event_id, event_type, state, body_sha256, body_bytes"
    values = "'stripe', 'billing', '', 'test', 'evt_1', 't', 'ignored', '', 0"
    with psycopg.connect(database) as rival:
        rival.execute(f"INSERT INTO webhooks.inbox ({columns}) VALUES ({values})")
        with pytest.raises(KeyBusyError):
            bench.run(plan)
        rival.rollback()
    ignored = item(settled="ignored")
    assert bench.run(lambda: record_one(ignored, recording())).outcome is Outcome.IGNORED


def test_a_plan_may_answer_an_error_by_rolling_back(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """After any failed statement ``Rollback`` works, and a new transaction may begin."""

    def plan() -> Plan[int]:
        yield BEGIN
        with suppress(StatementError):
            yield One(statement("SELECT 1 / 0"))
        yield Rollback()
        row = yield BEGIN
        yield Commit()
        return int(row[0])

    assert bench.run(plan) == 1
