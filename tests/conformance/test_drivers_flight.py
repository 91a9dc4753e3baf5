"""What is sent in one flight comes back in order, stops at the first error, and survives what handlers and pools do."""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.conformance.conftest import OpenBench
from tests.conformance.test_drivers_pool import end_every_session
from tests.faults.proxy import Fate, Proxy, at_commit_reply
from tests.fixtures.arrivals import arrival, item, recording
from tests.fixtures.drivers import BEGIN, DRIVERS, Bench, Script, statement
from webhook_inbox.errors import (
    ConflictError,
    StatementError,
    StoreUnavailableError,
    TransactionEndedError,
)
from webhook_inbox.model.states import Outcome
from webhook_inbox.protocol.enqueue import enqueue
from webhook_inbox.protocol.record import record_one
from webhook_inbox.protocol.steps import (
    All,
    Begin,
    Commit,
    One,
    Plan,
    Release,
    Rollback,
    RollbackTo,
    Savepoint,
    Step,
    Together,
)
from webhook_inbox.sql.statements import quoted_identifier
from webhook_inbox.testing.databases import apply_migrations

#: Only the drivers of psycopg's own pools fly; the others perform the same steps one by one (test_drivers_plans).
pytestmark = pytest.mark.parametrize("open_bench", DRIVERS, ids=lambda driver: driver.label, indirect=True)
Steps: TypeAlias = Generator[Any, Any, None]
INSERT = statement("INSERT INTO effect VALUES (%(n)s) RETURNING n", "n")
DIVIDE = One(statement("SELECT 1 / 0"))
PREPARED = One(
    statement("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'webhook%%'"),
)
#: No character of it is in ASCII, all of them are in LATIN1.
WESTERN = "\u00fc\u00f1\u00ee\u00e7"


def insert(n: int) -> One:
    """The step that writes *n*."""
    return One(INSERT, {"n": n})


def together(*steps: Step) -> Callable[[], Plan[tuple[Any, ...]]]:
    """A plan that sends *steps* in one flight, and gives their results."""

    def plan() -> Plan[tuple[Any, ...]]:
        results: tuple[Any, ...] = yield Together(steps)
        return results

    return plan


def rows(witness: psycopg.Connection[Any]) -> list[int]:
    """What was committed to ``effect``."""
    return [n for (n,) in witness.execute("SELECT n FROM effect ORDER BY n")]


def pid(bench: Bench) -> int:
    """The session on which the next plan runs, where there is only one."""
    ((number,), _) = bench.run(together(Begin(statement("SELECT pg_backend_pid()")), Rollback()))
    return int(number)


def test_results_come_in_the_order_of_their_steps(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """One result each: a row, every row, no row, nothing."""
    steps = (
        Begin(statement("SELECT %(n)s::int + 1", "n"), {"n": 1}),
        All(statement("SELECT generate_series(1, 3)")),
        One(statement("SELECT 1 WHERE false")),
        insert(1),
        Savepoint(),
        insert(2),
        RollbackTo(),
        Savepoint(),
        insert(3),
        Release(),
        Commit(),
    )
    assert bench.run(together(*steps)) == (
        (2,),
        [(1,), (2,), (3,)],
        None,
        (1,),
        None,
        (2,),
        None,
        None,
        (3,),
        None,
        None,
    )
    assert rows(effects) == [1, 3]


def test_the_first_error_is_the_one_that_is_raised_and_nothing_after_it_is_performed(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """P-ONCE: not even what no rollback takes back; the connection serves on."""
    bench = open_bench(database, connections_max=1)
    before = pid(bench)
    effects.execute("CREATE SEQUENCE called")
    draw = One(statement("SELECT nextval('called')"))
    for _ in range(2):  # once as it is prepared, once as it is known
        with pytest.raises(StatementError) as caught:
            bench.run(
                together(BEGIN, draw, DIVIDE, draw, One(statement("SELECT 'x'::int")), insert(1), Commit())
            )
        assert caught.value.sqlstate == "22012"
    assert rows(effects) == []
    assert effects.execute("SELECT last_value FROM called").fetchone() == (2,)
    assert pid(bench) == before


def test_what_is_left_open_by_a_flight_is_rolled_back(bench: Bench, effects: psycopg.Connection[Any]) -> None:
    """P-ONCE: as a plan that ends in any other way."""
    bench.run(together(BEGIN, insert(1)))
    bench.run(together(BEGIN, insert(2), Commit()))
    assert rows(effects) == [2]


@pytest.mark.parametrize("steps", [(insert(1),), (insert(1), Commit()), (Commit(),)], ids=len)
def test_nothing_is_performed_without_a_transaction(
    bench: Bench, effects: psycopg.Connection[Any], steps: tuple[Step, ...]
) -> None:
    """P-ONCE: each statement would commit by itself, and a COMMIT of nothing would be confirmed."""
    with pytest.raises(TransactionEndedError):
        bench.run(together(*steps))
    assert rows(effects) == []


def test_flights_larger_than_every_buffer_do_not_wait_for_each_other(bench: Bench) -> None:
    """P-CALM: server and client both have more to send than the other has room for."""
    megabyte = b"x" * 1_000_000
    echo = One(statement("SELECT %(given)s::bytea", "given"), {"given": megabyte})
    begin = Begin(BEGIN.statement, seconds_max=30.0)
    _, *echoes, _ = bench.run(together(begin, *[echo] * 20, Commit()))
    assert [bytes(row[0]) == megabyte for row in echoes] == [True] * 20


def prepared(bench: Bench) -> int:
    """How many statements of ours the session has prepared."""
    (_, (number,), _) = bench.run(together(BEGIN, PREPARED, Rollback()))
    return int(number)


def test_what_is_prepared_survives_rollbacks_and_is_prepared_once(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """A session's statements outlive its transactions: neither a failure nor a rollback prepares them again."""
    bench = open_bench(database, connections_max=1)
    prepared(bench)
    known = prepared(bench)
    for _ in range(3):
        with pytest.raises(StatementError):
            bench.run(together(BEGIN, insert(1), DIVIDE, Commit()))
        bench.run(together(BEGIN, insert(2), Rollback()))
    assert prepared(bench) == known + 2, "the insert and the division"
    assert rows(effects) == []


def test_how_much_a_session_prepares_is_bounded(open_bench: OpenBench, database: str) -> None:
    """P-CALM: the server keeps what is prepared until the session ends."""
    bench = open_bench(database, connections_max=1)
    for n in [*range(300), *range(300)]:
        assert bench.run(together(BEGIN, One(statement(f"SELECT {n}")), Rollback()))[1] == (n,)
    assert prepared(bench) == 200


def test_what_is_prepared_is_named_by_what_it_is(open_bench: OpenBench, database: str) -> None:
    """P-ONCE: sessions that a pooler mixes up hold the same statement under a name, or none."""
    listed = All(statement("SELECT name, statement FROM pg_prepared_statements ORDER BY name"))
    seen = []
    for first in ("SELECT 11", "SELECT 12"):
        bench = open_bench(database, connections_max=1)
        bench.run(together(BEGIN, One(statement(first)), One(statement(first)), Rollback()))
        bench.run(together(BEGIN, One(statement("SELECT 3")), Rollback()))
        seen.append(dict(bench.run(together(BEGIN, listed, Rollback()))[1]))
    one, two = seen
    assert sorted(set(one.values()) ^ set(two.values())) == ["SELECT 11", "SELECT 12"]
    assert all(one[name] == two[name] for name in one.keys() & two.keys())
    assert len(set(one.values())) == len(one)


def says(*texts: str) -> Script:
    """A handler that runs *texts* after its effect."""

    def script(tx: Any, event: Any) -> Steps:
        yield tx.conn.execute("INSERT INTO effect VALUES (1)")
        for text in texts:
            yield tx.conn.execute(text)

    return script


def outcome(bench: Bench, event_id: str, script: Script) -> str:
    """What recording one event comes to."""
    given = item(bench.handler(script), event_id=event_id)
    try:
        return str(bench.run(partial(record_one, given, recording())).outcome)
    except ConflictError as error:
        return f"conflict {error.sqlstate}"


@pytest.mark.parametrize("forgets", ["DEALLOCATE ALL", "DISCARD PLANS; DEALLOCATE PREPARE ALL"])
def test_a_handler_that_makes_the_session_forget_costs_another_try_and_no_effect(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any], forgets: str
) -> None:
    """P-ONCE: where our next statement is not known any more, the transaction runs again at once; never half of it."""
    bench = open_bench(database, connections_max=1)
    assert outcome(bench, "evt_1", says()) == "processed"
    assert outcome(bench, "evt_2", says(forgets)) == "conflict 26000"
    assert rows(effects) == [1]
    assert outcome(bench, "evt_2", says(forgets)) == "processed"
    for n in range(3, 6):
        assert outcome(bench, f"evt_{n}", says()) == "processed"
    assert rows(effects) == [1] * 5


def test_a_table_that_has_changed_is_read_anew(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """What was prepared before another migration is prepared again: at once in a first flight, else by another try."""
    bench = open_bench(database, connections_max=1)
    everything = One(statement("SELECT * FROM effect ORDER BY 1 LIMIT 1"))
    first, second = together(BEGIN, insert(1), everything, Commit()), together(BEGIN, everything, Rollback())
    for _ in range(2):
        bench.run(first)
    effects.execute("ALTER TABLE effect ADD COLUMN more text DEFAULT 'x'")
    assert bench.run(second)[1] == (1, "x")
    effects.execute("ALTER TABLE effect DROP COLUMN more")

    def later() -> Plan[Any]:
        yield BEGIN
        return (yield everything)

    with pytest.raises(ConflictError):
        bench.run(later)
    assert bench.run(later) == (1,)


def discards(conn: Any) -> Steps:
    """Give a connection back as new."""
    yield conn.set_autocommit(True)
    yield conn.execute("DISCARD ALL")
    yield conn.set_autocommit(False)


def test_a_pool_that_resets_its_sessions_is_served_without_a_failure(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """The first flight of a plan finds nothing prepared, and is flown again; its transaction was nowhere else."""
    bench = open_bench(database, pool={"min_size": 1, "max_size": 1, "reset": discards})
    for n in range(3):
        assert outcome(bench, f"evt_{n}", says()) == "processed"
        bench.run(together(BEGIN, insert(2), Commit()))
    assert rows(effects) == [1] * 3 + [2] * 3


def test_a_pool_that_prepares_nothing_has_nothing_prepared(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """``prepare_threshold`` None: a transaction pooler gives each transaction another session."""
    kwargs = {"prepare_threshold": None}
    bench = open_bench(database, pool={"min_size": 1, "max_size": 1, "kwargs": kwargs})
    for n in range(3):
        assert outcome(bench, f"evt_{n}", says()) == "processed"
    (_, (number,), _) = bench.run(
        together(BEGIN, One(statement("SELECT count(*) FROM pg_prepared_statements")), Rollback())
    )
    assert number == 0


def test_a_connection_that_is_cut_as_the_commit_is_confirmed_is_in_doubt(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """P-ACK: everything came back but the last word; never a success, and the next flight has another connection."""
    with Proxy(database) as proxy:
        bench = open_bench(proxy.dsn, connections_max=1)
        flight = together(BEGIN, insert(1), Commit())
        bench.run(flight)
        proxy.arm(at_commit_reply(Fate.CUT_BEFORE))
        with pytest.raises(StoreUnavailableError):
            bench.run(flight)
        assert rows(effects) == [1, 1]
        proxy.heal()
        bench.run(flight)
        bench.close_driver()


def test_a_session_that_ended_while_it_was_idle_is_replaced_unnoticed(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """P-ACK: nothing was sent, so nothing can have been applied; also for a flight that commits."""
    bench = open_bench(database, connections_max=1)
    for n in range(1, 4):
        before = pid(bench)
        end_every_session(effects)
        bench.run(together(BEGIN, insert(n), Commit()))
        assert pid(bench) != before
    assert rows(effects) == [1, 2, 3]


@pytest.mark.parametrize("schema", [WESTERN, "\u65e5\u672c \N{GRINNING FACE}"])
def test_a_schema_may_have_any_name(open_bench: OpenBench, empty_database: str, schema: str) -> None:
    """Events are recorded alone and together, once."""
    apply_migrations(empty_database, schema)
    bench = open_bench(empty_database)
    recorded(bench, schema, "evt_\u65e5")


def recorded(bench: Bench, schema: str, event_id: str) -> None:
    """See that an event is recorded once, alone and together with others."""
    to = recording(schema)
    given = item(event_id=event_id, settled="ignored")
    assert [bench.run(lambda: record_one(given, to)).outcome for _ in range(2)] == [
        Outcome.IGNORED,
        Outcome.DUPLICATE,
    ]
    arrivals = [arrival(event_id), arrival(f"{event_id}2")]
    results = bench.run(lambda: enqueue(arrivals, to))
    assert [result.outcome for result in results] == [Outcome.DUPLICATE, Outcome.QUEUED]
    assert [result.event_id for result in results] == [event_id, f"{event_id}2"]


def test_a_connection_in_another_encoding_is_served(open_bench: OpenBench, empty_database: str) -> None:
    """Text, names and ids go in the connection's encoding; what it has no character for is refused by name."""
    apply_migrations(empty_database, WESTERN)
    bench = open_bench(make_conninfo(empty_database, client_encoding="latin1"), connections_max=1)
    recorded(bench, WESTERN, f"evt_{WESTERN}")
    before = pid(bench)
    with pytest.raises(StatementError, match="could not be sent"):
        bench.run(lambda: record_one(item(event_id="evt_\u65e5", settled="ignored"), recording(WESTERN)))
    with pytest.raises(StatementError):
        bench.run(lambda: enqueue([arrival("evt_\u65e5")], recording(WESTERN)))
    assert pid(bench) == before
    count = statement(f"SELECT count(*) FROM {quoted_identifier(WESTERN)}.inbox")
    assert bench.run(together(BEGIN, One(count), Rollback()))[1] == (2,)


MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("text", []),
        ("text", [None, None]),
        ("text", [None, "a", None, "", "\u65e5", 'q"{},\\ NULL']),
        ("text", ["NULL", "null"]),
        ("integer", [1, None, -(2**31), 2**31 - 1]),
        ("bigint", [1, 2**31, None, 2**63 - 1]),
        ("double precision", [0.5, None, 1e300]),
        ("bytea", [None, b"", b"\x00\xff\\x", None]),
        ("timestamptz", [None, None]),
        ("timestamptz", [MOMENT, None]),
    ],
    ids=str,
)
def test_a_list_comes_back_as_it_was_given(bench: Bench, kind: str, given: list[Any]) -> None:
    """With nothing but nulls, with some, and with what an array's text form would have to quote."""
    echo = One(statement(f"SELECT %(given)s::{kind}[]", "given"), {"given": given})
    for _ in range(2):
        assert bench.run(together(BEGIN, echo, Commit()))[1] == (given,)


@pytest.mark.parametrize("given", ["a\x00b", ["fine", "a\x00b"]], ids=["alone", "in a list"])
def test_a_text_with_a_nul_is_refused_and_the_connection_serves_on(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any], given: object
) -> None:
    """P-CALM: PostgreSQL has no such text; nothing of the flight is performed."""
    bench = open_bench(database, connections_max=1)
    before = pid(bench)
    echo = One(statement("SELECT %(given)s", "given"), {"given": given})
    for _ in range(2):
        with pytest.raises(StatementError):
            bench.run(together(BEGIN, insert(1), echo, Commit()))
    assert rows(effects) == []
    assert pid(bench) == before


def test_a_flight_that_cannot_be_written_is_not_begun(
    open_bench: OpenBench, database: str, effects: psycopg.Connection[Any]
) -> None:
    """Within a transaction, what the driver refuses takes nothing with it: the server has not heard of it."""
    bench = open_bench(database)

    def plan() -> Plan[None]:
        yield BEGIN
        yield insert(1)
        with pytest.raises(StatementError):
            yield Together((insert(2), One(statement("SELECT %(given)s", "given"), {"given": "\x00"})))
        yield Commit()

    bench.run(plan)
    assert rows(effects) == [1]
