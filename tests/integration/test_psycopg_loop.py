"""
A connection that its loop tells of once does what psycopg's own does, on every loop: it ends, it is cancelled, it is
lost, and nothing of it is left in the loop for the next socket with its number.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pytest
import uvloop

from webhook_inbox.drivers.psycopg_loop import LoopConnection, _Reading

Work: TypeAlias = Callable[[str], Coroutine[Any, Any, None]]
SECONDS_MAX = 30.0
#: More than what a socket holds on its way, so that both sides have to wait for one another.
LARGE = "x" * 16_000_000


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, empty_database: str) -> Callable[[Work], None]:
    """Run one test's work on a loop of each kind, bounded in time."""

    def run_bounded(work: Work) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(work(empty_database), SECONDS_MAX))

    return run_bounded


async def connect(dsn: str) -> LoopConnection:
    """Open a connection of ours."""
    return await LoopConnection.connect(dsn, autocommit=True)


def inode(conn: LoopConnection) -> int:
    """What tells its socket from all others, whatever number it has."""
    return os.fstat(conn.fileno()).st_ino


def numbers_of(socket: int) -> int:
    """How many numbers this process has of the socket with that inode: one is libpq's, one more the loop's."""
    found = 0
    for number in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += number.stat().st_ino == socket
    return found


async def one(conn: psycopg.AsyncConnection[Any], query: str, *params: object) -> object:
    """Give the first column of the first row."""
    row = await (await conn.execute(query, params)).fetchone()
    return None if row is None else row[0]


async def end(dsn: str, pid: int) -> None:
    """End the session of *pid* from another one, and come back once the server has no more of it."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as other:
        await other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))


def test_statements_follow_one_another(run: Callable[[Work], None]) -> None:
    """Many statements get their own answers, one after the other and on several connections at once."""

    async def work(dsn: str) -> None:
        async def count(conn: LoopConnection, start: int) -> list[object]:
            return [await one(conn, "SELECT %s::int", start + n) for n in range(50)]

        conns = [await connect(dsn) for _ in range(3)]
        counted = await asyncio.gather(*(count(conn, 100 * i) for i, conn in enumerate(conns)))
        assert counted == [list(range(100 * i, 100 * i + 50)) for i in range(3)]
        for conn in conns:
            await conn.close()

    run(work)


@pytest.mark.parametrize("pipelined", [False, True])
def test_more_than_the_socket_holds(run: Callable[[Work], None], *, pipelined: bool) -> None:
    """What has to be sent and read in turns arrives whole."""

    async def work(dsn: str) -> None:
        async with await connect(dsn) as conn:
            if not pipelined:
                assert await one(conn, "SELECT %s::text", LARGE) == LARGE
                return
            async with conn.pipeline():
                cursors = [await conn.execute("SELECT %s::text", (LARGE,)) for _ in range(3)]
                assert [await cursor.fetchone() for cursor in cursors] == [(LARGE,)] * 3

    run(work)


def test_a_session_that_ends_while_idle_keeps_no_loop_busy(run: Callable[[Work], None]) -> None:
    """The server's last word is left unread and the loop hears of it once; the next statement meets it."""

    async def work(dsn: str) -> None:
        conn = await connect(dsn)
        await one(conn, "SELECT 1")
        assert numbers_of(inode(conn)) == 2
        await end(dsn, conn.info.backend_pid)
        for _ in range(3):
            await asyncio.sleep(0)
        assert numbers_of(inode(conn)) == 1, "the loop goes on looking at a socket that nobody reads"
        with pytest.raises(psycopg.OperationalError):
            await one(conn, "SELECT 1")

    run(work)


def test_a_lost_connection_leaves_nothing_to_the_next(run: Callable[[Work], None]) -> None:
    """A connection that is lost under a statement raises; its socket's number serves others at once."""

    async def work(dsn: str) -> None:
        conn = await connect(dsn)
        lost = inode(conn)
        waiting = asyncio.create_task(one(conn, "SELECT pg_sleep(60)"))
        await end(dsn, conn.info.backend_pid)
        with pytest.raises(psycopg.OperationalError):
            await waiting
        assert numbers_of(lost) == 0
        others = [await connect(dsn) for _ in range(4)]
        assert [await one(other, "SELECT 7") for other in others] == [7] * 4
        for other in (conn, *others):
            await other.close()

    run(work)


def test_a_closed_connection_leaves_nothing_to_the_next(run: Callable[[Work], None]) -> None:
    """The loop forgets a connection before it is closed."""

    async def work(dsn: str) -> None:
        conn = await connect(dsn)
        await one(conn, "SELECT 1")
        closed = inode(conn)
        await conn.close()
        assert numbers_of(closed) == 0
        async with await connect(dsn) as other:
            assert await one(other, "SELECT 8") == 8

    run(work)


def test_a_connection_that_nobody_closed_leaves_nothing_to_the_next(run: Callable[[Work], None]) -> None:
    """The next socket gets its number, and is heard; the loop lets go of the lost one once the server has."""

    async def work(dsn: str) -> None:
        conn = await connect(dsn)
        await one(conn, "SELECT 1")
        number, lost = conn.fileno(), inode(conn)
        conn.pgconn.finish()
        others = [await connect(dsn) for _ in range(4)]
        assert number in [other.fileno() for other in others]
        assert [await one(other, "SELECT 7") for other in others] == [7] * 4
        while numbers_of(lost):
            await asyncio.sleep(0.01)
        for other in others:
            await other.close()

    run(work)


@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_the_other_side_has_gone_with_something_left_to_read(new_loop: Callable[[], Any]) -> None:
    """Who reads it bit by bit is told each time, though uvloop tells of such a socket only once."""

    async def read_all(ours: socket.socket) -> bytes:
        reading, read = _Reading(asyncio.get_running_loop(), ours.fileno()), b""
        with suppress(ConnectionResetError):
            while True:
                await asyncio.wait_for(reading.next(), SECONDS_MAX)
                if not (piece := ours.recv(2)):
                    break
                read += piece
        reading.stop()
        return read

    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"an answer")
        ours.sendall(b"a question that is not read any more: the socket is in error")
        theirs.close()
        with asyncio.Runner(loop_factory=new_loop) as runner:
            assert runner.run(read_all(ours)) == b"an answer"


def test_a_cancelled_statement_is_cancelled_in_the_server(run: Callable[[Work], None]) -> None:
    """Who stops waiting has the server stop working; the connection serves on."""

    async def work(dsn: str) -> None:
        async with await connect(dsn) as conn:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await conn.execute("SELECT pg_sleep(60)")
            assert await one(conn, "SELECT 9") == 9

    run(work)


def test_notifications_are_waited_for_as_long_as_was_said(run: Callable[[Work], None]) -> None:
    """The time limit that psycopg has for notifications is kept, and statements go on afterwards."""

    async def work(dsn: str) -> None:
        async with await connect(dsn) as conn:
            await conn.execute("LISTEN here")
            assert [each async for each in conn.notifies(timeout=0.2)] == []
            await conn.execute("NOTIFY here, 'heard'")
            heard = [each.payload async for each in conn.notifies(timeout=10, stop_after=1)]
            assert heard == ["heard"]
            assert await one(conn, "SELECT 1") == 1

    run(work)


def test_another_loop_is_told_too(empty_database: str) -> None:
    """A connection that is used on a second loop, when the first has ended, is heard there."""
    with asyncio.Runner() as first:
        conn = first.run(connect(empty_database))
        assert first.run(one(conn, "SELECT 1")) == 1
        with asyncio.Runner() as second:
            assert second.run(asyncio.wait_for(one(conn, "SELECT 2"), SECONDS_MAX)) == 2
            second.run(conn.close())
