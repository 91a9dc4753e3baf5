"""
Give the database every trouble it knows, on a server of the tests' own, and find every effect once.

The errors are the real server's. In trouble the answer is 503 and says when to come again (500 where it is the handler
that did not finish), it comes within its bound, and nothing is half stored. Once the trouble is over the next try
works, without a restart.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.faults.app import KINDS, TABLES
from tests.faults.bench import Bench
from tests.faults.gate import gate_closed, waiting_at_the_gate
from tests.faults.invariants import APPLICATION, until
from tests.faults.ledger import Answer, Ledger
from tests.faults.receiver import HANG_SECONDS_MAX, IMPATIENT, Receiver
from tests.faults.server import Nursery
from tests.fixtures.postgres import SCHEMA
from webhook_inbox.embedded import EmbeddedPostgres
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.sql.migrations import migration_script

CONNECTIONS_MAX = 40
KILLS_OF_THE_SERVER = 20
#: What a busy machine may add to a wait that is bounded.
SLACK_SECONDS = 2.0


@pytest.fixture(scope="module")
def troubled(_calm_environment: None) -> Iterator[EmbeddedPostgres]:
    """The server that gets into trouble; every test leaves it well."""
    settings = {"max_connections": str(CONNECTIONS_MAX)}
    with EmbeddedPostgres(durable=False, settings=settings) as server:
        yield server


@pytest.fixture
def bench(troubled: EmbeddedPostgres, nursery: Nursery, tmp_path: Path) -> Iterator[Bench]:
    """A new database of that server, with our schema and the receiver's tables."""
    name = sql.Identifier(f"test_{tmp_path.name}")
    with psycopg.connect(troubled.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(name))
    dsn = troubled.dsn_of(f"test_{tmp_path.name}")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(migration_script(SCHEMA))
        connection.execute(TABLES)
    yield Bench(nursery, dsn, tmp_path, Ledger(tmp_path / "ledger"))
    with psycopg.connect(troubled.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@asynccontextmanager
async def receiving(bench: Bench, kind: str, **settings: Any) -> AsyncIterator[Receiver]:
    """Receive on the bench's database, warm; check every invariant in the end."""
    receiver = Receiver(bench, bench.dsn, kind, **settings)
    async with receiver.running():
        assert (await receiver.attempt(receiver.letter())).outcome == "processed"
        yield receiver
    bench.check(receiver.expected)


async def timed(attempt: Awaitable[Answer]) -> tuple[Answer, float]:
    """The answer, and the seconds until it came."""
    started = time.monotonic()
    answer = await attempt
    return answer, time.monotonic() - started


def is_asked_to_come_again(answer: Answer) -> bool:
    """Whether the answer is the one that trouble with the database deserves (P-ACK)."""
    return (answer.status, answer.outcome) == (503, "unavailable") and int(answer.headers["retry-after"]) >= 1


@contextmanager
def altered(dsn: str, setting: str, value: str, *, for_all: bool = False) -> Iterator[None]:
    """Have the operator set *setting*: of the database for new sessions, or of the whole server for all."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        target = "SYSTEM" if for_all else f'DATABASE "{admin.info.dbname}"'

        def alter(how: str) -> None:
            admin.execute("BEGIN READ WRITE; COMMIT")
            admin.execute(f"ALTER {target} {how}")
            admin.execute("SELECT pg_reload_conf()")

        admin.execute("SET default_transaction_read_only = off")
        alter(f"SET {setting} = '{value}'")
        try:
            with psycopg.connect(dsn) as other:
                until(lambda: shown(other, setting) == value, f"{setting} is {value}")
            yield
        finally:
            alter(f"RESET {setting}")
            with psycopg.connect(dsn) as other:
                until(lambda: shown(other, setting) != value, f"{setting} is no longer {value}")


def shown(connection: psycopg.Connection[Any], setting: str) -> str:
    """The value of *setting* in that session, now."""
    row = connection.execute(f"SHOW {setting}").fetchone()
    connection.rollback()
    assert row is not None
    return str(row[0])


async def seen(condition: Callable[[], bool], what: str) -> None:
    """Wait for *condition* while the receiver goes on."""
    await asyncio.to_thread(until, condition, what)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_away_is_answered_503_and_the_first_try_after_it_works(
    kind: str, bench: Bench, troubled: EmbeddedPostgres
) -> None:
    """Stopped, and started again: with connections that had been open, and with none (P-ACK)."""

    async def story() -> None:
        async with receiving(bench, kind, connection_wait_seconds=0.5) as receiver:
            letters = [receiver.letter() for _ in range(3)]
            troubled.halt("immediate")
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(bench.dsn)
            for letter in letters:
                answer, seconds = await timed(receiver.attempt(letter))
                assert is_asked_to_come_again(answer)
                assert seconds < 0.5 + SLACK_SECONDS
            troubled.start()
            for letter in letters:
                assert (await receiver.attempt(letter)).outcome == "processed"
            troubled.restart("immediate")
            assert (await receiver.attempt(receiver.letter())).outcome == "processed"

    asyncio.run(story())


def test_a_server_that_is_killed_under_load_loses_and_doubles_nothing(
    bench: Bench, troubled: EmbeddedPostgres, tally: Counter[str]
) -> None:
    """SIGKILL of every process of the server, 20 times, while four senders deliver to a receiver that lives on."""
    stop, names = threading.Event(), count(1)
    letters = [Receiver(bench, bench.dsn, kind, names) for kind in KINDS]

    def acknowledged(enough: int) -> bool:
        return len(bench.ledger.acknowledged) >= enough

    with bench.servers(connection_wait_seconds=0.5) as (server,):

        def deliver(number: int) -> None:
            while not stop.is_set():
                bench.sender(server).deliver(letters[number % 2].letter())

        senders = [threading.Thread(target=deliver, args=(number,)) for number in range(4)]
        for sender in senders:
            sender.start()
        try:
            for _ in range(KILLS_OF_THE_SERVER):
                recovered = partial(acknowledged, len(bench.ledger.acknowledged) + 5)
                until(recovered, "the receiver has recovered", seconds=5 + SLACK_SECONDS)
                troubled.kill()
                troubled.start()
        finally:
            stop.set()
            for sender in senders:
                sender.join()
        assert server.stop().status == 0, "the receiver has lived through all of it"
    bench.check([event for receiver in letters for event in receiver.expected])
    assert bench.ledger.outcomes()["unavailable"] > 0
    tally["kills of the database server"] += KILLS_OF_THE_SERVER


@pytest.mark.parametrize("kind", KINDS)
def test_a_read_only_server_is_answered_503_and_not_ready(kind: str, bench: Bench) -> None:
    """As after a failover: new sessions and those that were open may not write (P-ACK)."""

    async def story() -> None:
        async with receiving(bench, kind) as receiver:
            letters = [receiver.letter() for _ in range(3)]
            with altered(bench.dsn, "default_transaction_read_only", "on", for_all=True):
                for letter in letters:
                    assert is_asked_to_come_again(await receiver.attempt(letter))
                with pytest.raises(StoreUnavailableError) as raised:
                    await receiver.inbox.check()
                assert raised.value.sqlstate == "25006"
            for letter in letters:
                assert (await receiver.attempt(letter)).outcome == "processed"
            await receiver.inbox.check()

    asyncio.run(story())


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_out_of_connections_is_answered_503(kind: str, bench: Bench) -> None:
    """53300 for everybody who comes, until somebody leaves (P-ACK)."""

    async def story() -> None:
        receiver = Receiver(bench, bench.dsn, kind, connection_wait_seconds=0.5)
        async with receiver.running():
            letters = [receiver.letter() for _ in range(3)]
            with ExitStack() as crowd:
                with pytest.raises(psycopg.OperationalError, match="too many clients"):
                    come_in_crowds(crowd, bench.dsn)
                for letter in letters:
                    answer, seconds = await timed(receiver.attempt(letter))
                    assert is_asked_to_come_again(answer)
                    assert seconds < 0.5 + SLACK_SECONDS
            await seen(partial(has_room, bench.dsn), "the crowd has left")
            for letter in letters:
                assert (await receiver.attempt(letter)).outcome == "processed"
        bench.check(receiver.expected)

    asyncio.run(story())


def come_in_crowds(crowd: ExitStack, dsn: str) -> None:
    """Open connections until there are no more to be had."""
    for _ in range(CONNECTIONS_MAX + 1):
        crowd.enter_context(psycopg.connect(dsn))


def has_room(dsn: str) -> bool:
    """Whether the server takes as many connections as the receiver may want."""
    try:
        with ExitStack() as few:
            for _ in range(5):
                few.enter_context(psycopg.connect(dsn))
    except psycopg.OperationalError:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_an_exhausted_pool_sheds_with_503_in_time_and_recovers(kind: str, bench: Bench) -> None:
    """Two connections, both with a handler that waits: the third event hears 503, and later works (P-ACK)."""

    async def story() -> None:
        limits = {"connections_max": 2, "connection_wait_seconds": 0.5}
        async with receiving(bench, kind, **limits) as receiver:
            third, gated = receiver.letter(), [receiver.letter("test.gate") for _ in range(2)]
            with gate_closed(bench.dsn) as keeper:
                waiting = [asyncio.create_task(receiver.attempt(letter)) for letter in gated]
                await seen(lambda: waiting_at_the_gate(keeper) == 2, "both handlers wait")
                answer, seconds = await timed(receiver.attempt(third))
                assert is_asked_to_come_again(answer)
                assert seconds < 0.5 + SLACK_SECONDS
            assert [(await task).outcome for task in waiting] == ["processed", "processed"]
            assert (await receiver.attempt(third)).outcome == "processed"

    asyncio.run(story())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", ["inbox", "bodies"])
def test_a_table_lock_of_another_session_is_answered_503_in_time(kind: str, table: str, bench: Bench) -> None:
    """ACCESS EXCLUSIVE, as a careless ALTER TABLE takes it: no hang, 503 after duplicate_wait_seconds (P-ACK)."""

    async def story() -> None:
        async with receiving(bench, kind, duplicate_wait_seconds=0.3) as receiver:
            letter = receiver.letter()
            with psycopg.connect(bench.dsn) as other, psycopg.connect(bench.dsn, autocommit=True) as witness:
                other.execute(f"LOCK TABLE webhooks.{table} IN ACCESS EXCLUSIVE MODE")
                attempt = asyncio.create_task(timed(receiver.attempt(letter)))
                blocked = partial(is_blocked_by, witness, other.info.backend_pid)
                await seen(blocked, "the receiver waits for the lock")
                answer, seconds = await attempt
                assert is_asked_to_come_again(answer)
                assert seconds < 0.3 + SLACK_SECONDS
            assert (await receiver.attempt(letter)).outcome == "processed"

    asyncio.run(story())


def is_blocked_by(witness: psycopg.Connection[Any], pid: int) -> bool:
    """Whether some session waits for that of *pid*."""
    blocked = "SELECT FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    return witness.execute(blocked, (pid,)).fetchone() is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("setting", "event_type"),
    [
        ("statement_timeout", "test.slow"),
        ("idle_in_transaction_session_timeout", "test.pause"),
        ("idle_in_transaction_session_timeout", "test.pause_at_the_end"),
    ],
)
def test_a_handler_that_runs_into_a_limit_of_the_operator_fails_by_name(
    kind: str, setting: str, event_type: str, bench: Bench
) -> None:
    """A stricter limit of the operator's stays in force: 500, ``handler_timeout``, rolled back (P-ONCE)."""

    async def story() -> None:
        with altered(bench.dsn, setting, "200ms"):
            receiver = Receiver(bench, bench.dsn, kind)
            async with receiver.running():
                letter = receiver.letter(event_type, seconds=0.6)
                answer = await receiver.attempt(letter)
                assert (answer.status, answer.reason) == (500, "handler_timeout")
                assert (await receiver.attempt(receiver.letter())).outcome == "processed"
        later = Receiver(bench, bench.dsn, kind)
        async with later.running():
            assert (await later.attempt(letter)).outcome == "processed"
        bench.check(receiver.expected)

    asyncio.run(story())


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_server_is_answered_in_time_and_left_behind(
    kind: str, bench: Bench, troubled: EmbeddedPostgres
) -> None:
    """SIGSTOP for every process of the server: sessions stay up and say nothing; 503 within the bound (P-ACK)."""

    async def story() -> None:
        async with receiving(bench, kind, **IMPATIENT) as receiver:
            letters = [receiver.letter() for _ in range(4)]
            frozen = troubled.processes()
            try:
                for pid in frozen:
                    with suppress(ProcessLookupError):  # one that was about to end
                        os.kill(pid, signal.SIGSTOP)
                answers = await asyncio.gather(*(timed(receiver.attempt(letter)) for letter in letters))
            finally:
                for pid in frozen:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
            assert len(frozen) > 3
            for answer, seconds in answers:
                assert is_asked_to_come_again(answer)
                assert seconds < HANG_SECONDS_MAX
            for letter in letters:
                await receiver.settle(letter)

    asyncio.run(story())


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_that_the_operator_ends_is_answered_503_and_an_idle_one_is_not_missed(
    kind: str, bench: Bench
) -> None:
    """57P01 while the handler runs: 503, rolled back, processed on the resend; while idle: nothing (P-ACK)."""

    async def story() -> None:
        async with receiving(bench, kind) as receiver:
            end_sessions(bench.dsn)
            assert (await receiver.attempt(receiver.letter())).outcome == "processed"
            letter = receiver.letter("test.gate")
            with gate_closed(bench.dsn) as keeper:
                attempt = asyncio.create_task(receiver.attempt(letter))
                await seen(lambda: waiting_at_the_gate(keeper) == 1, "the handler runs")
                end_sessions(bench.dsn)
                assert is_asked_to_come_again(await attempt)
            assert (await receiver.attempt(letter)).outcome == "processed"

    asyncio.run(story())


def end_sessions(dsn: str) -> None:
    """End every session of the receiver's, as an operator does."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        ended = admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s AND datname = %s",
            (APPLICATION, admin.info.dbname),
        ).fetchall()
    assert (True,) in ended
