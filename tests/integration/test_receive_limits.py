"""The transaction that a handler is given: durable, bounded, and with the operator's stricter settings in force."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

import pytest
from psycopg import sql

from tests.fixtures.receiving import Bench
from tests.integration.conftest import OpenBench
from webhook_inbox import Outcome

Steps: TypeAlias = Generator[Any, Any, None]
HANDLER_SECONDS_MAX = 89.0
#: The server's own limit comes a second after ours.
SERVER_LIMIT = "90s"
#: What an operator may have written, and what a handler finds then; PostgreSQL shows it in the largest unit that fits.
LIMITS = {
    "0": SERVER_LIMIT,
    "999": "999ms",
    "1500ms": "1500ms",
    "2s": "2s",
    "89999": "89999ms",
    "90s": "90s",
    "90001": SERVER_LIMIT,
    "1min": "1min",
    "2min": SERVER_LIMIT,
    "1.5h": SERVER_LIMIT,
    "3h": SERVER_LIMIT,
    "1d": SERVER_LIMIT,
    "24d": SERVER_LIMIT,
    "2147483647": SERVER_LIMIT,
}
SETTINGS = (
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "lock_timeout",
    "synchronous_commit",
    "transaction_isolation",
    "transaction_read_only",
)
one_way = pytest.mark.parametrize("open_bench", ["thread", "loop"], indirect=True)


def seen_by_handler(bench: Bench, event_id: str = "evt_1") -> dict[str, str]:
    """What a handler finds its transaction set to."""
    found: dict[str, str] = {}

    def looks(tx: Any, event: Any) -> Steps:
        for name in SETTINGS:
            cursor = yield tx.conn.execute("SELECT current_setting(%s)", [name])
            (found[name],) = yield cursor.fetchone()

    if not bench.inbox._endpoints:
        bench.on(bench.endpoint(), do=looks)
    assert bench.deliver(event_id).outcome is Outcome.PROCESSED
    return found


def set_for_all(bench: Bench, name: str, value: str) -> None:
    """Have the operator set *name* for every new session on this database."""
    bench.ledger.execute(
        sql.SQL("ALTER DATABASE {} SET {} = {}").format(
            sql.Identifier(bench.ledger.info.dbname), sql.Identifier(name), sql.Literal(value)
        )
    )


@one_way
@pytest.mark.parametrize("setting", ["statement_timeout", "idle_in_transaction_session_timeout"])
@pytest.mark.parametrize(("given", "found"), LIMITS.items(), ids=LIMITS)
def test_the_stricter_of_two_limits_is_in_force(
    open_bench: OpenBench, setting: str, given: str, found: str
) -> None:
    """The operator's limit where it is stricter, in whatever unit it is written; else ours, which is never none."""
    bench = open_bench(handler_seconds_max=HANDLER_SECONDS_MAX)
    set_for_all(bench, setting, given)
    assert seen_by_handler(bench)[setting] == found


@one_way
@pytest.mark.parametrize(("given", "found"), [("0", "0"), ("700ms", "700ms"), ("3min", "3min")])
def test_a_handler_waits_for_its_own_locks_as_it_always_does(
    open_bench: OpenBench, given: str, found: str
) -> None:
    """The short lock wait for the event's key is ours alone: it is put back as soon as the key is ours."""
    bench = open_bench(duplicate_wait_seconds=2.0)
    set_for_all(bench, "lock_timeout", given)
    assert seen_by_handler(bench)["lock_timeout"] == found


@one_way
@pytest.mark.parametrize(
    ("given", "found"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("remote_apply", "remote_apply")],
)
def test_a_commit_is_durable_whatever_the_operator_set(open_bench: OpenBench, given: str, found: str) -> None:
    """P-ACK: 2xx means on disk; what is stricter than that stays."""
    bench = open_bench()
    set_for_all(bench, "synchronous_commit", given)
    assert seen_by_handler(bench)["synchronous_commit"] == found


@one_way
@pytest.mark.parametrize("level", ["serializable", "repeatable read", "read uncommitted"])
def test_the_transaction_is_read_committed_whatever_the_operator_set(
    open_bench: OpenBench, level: str
) -> None:
    """Under repeatable read a duplicate would be an error, 40001, in place of a verdict."""
    bench = open_bench()
    set_for_all(bench, "default_transaction_isolation", level)
    assert seen_by_handler(bench)["transaction_isolation"] == "read committed"
    assert bench.deliver("evt_1").outcome is Outcome.DUPLICATE


@one_way
def test_a_database_of_another_encoding_keeps_every_character(open_bench: OpenBench) -> None:
    """A server that was initialised in the C locale has SQL_ASCII databases; text goes in and out as UTF-8."""
    bench = open_bench()
    name = f"{bench.ledger.info.dbname}_ascii"
    bench.ledger.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    try:
        ascii_bench = bench.beside(name)
        try:
            seen: list[str] = []

            def books_wide(tx: Any, event: Any) -> Steps:
                seen.append(event.id)
                yield tx.conn.execute("INSERT INTO effect VALUES (%s)", [event.id])
                yield tx.emit("Booked é", {"id": event.id}, aggregate_id=event.id)

            ascii_bench.on(ascii_bench.endpoint(), do=books_wide)
            wide = "evt_é_\N{SNOWMAN}_\N{GRINNING FACE}"
            assert ascii_bench.deliver(wide).outcome is Outcome.PROCESSED
            again = ascii_bench.deliver(wide)
            assert (again.outcome, again.results[0].state) == (Outcome.DUPLICATE, "processed")
            assert ascii_bench.effects() == [wide]
            assert ascii_bench.events()[0]["event_id"] == wide
        finally:
            ascii_bench.close()
    finally:
        bench.ledger.execute(f"DROP DATABASE {name} WITH (FORCE)")
