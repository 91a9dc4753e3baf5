"""An inbox in a process that has several event loops, that has forked, or that can start no more threads."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.fixtures.programs import eventually
from tests.fixtures.queue import EFFECTS, Queue, body_of, in_time
from webhook_inbox.drivers import silence
from webhook_inbox.drivers.psycopg_sync import PsycopgDriver
from webhook_inbox.drivers.silence import Watch
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.model.claim import WorkerId
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.steps import Begin
from webhook_inbox.runtime.heartbeat import Heartbeat
from webhook_inbox.runtime.notifier import Notifier
from webhook_inbox.runtime.wake import channel_of
from webhook_inbox.sql.statements import Statements, listen

INSERT = "INSERT INTO effects (event_id, note) VALUES (%s, %s)"
SQL = Statements.of("webhooks")


def inline(dsn: str, **given: Any) -> Queue:
    """An inbox whose endpoint runs its handlers in the request, with a table for effects."""
    box = Queue(dsn, endpoint={"mode": "inline"}, **given)
    box.rows(EFFECTS)
    return box


@contextmanager
def no_more_threads() -> Iterator[None]:
    """A process that has as many threads as it may."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield


def test_event_loops_that_take_turns_keep_their_connections(database: str) -> None:
    """Each of two that live at once has a pool of its own, and has it still when the other has had its turn."""
    other = asyncio.new_event_loop()
    thread = threading.Thread(target=other.run_forever)
    thread.start()

    async def story() -> None:
        box = inline(database, connections_max=1)

        @box.billing.on("invoice.paid")
        async def book(tx: Any, event: Any) -> None:
            await tx.conn.execute(INSERT, [event.id, str(tx.conn.info.backend_pid)])

        for number in range(4):
            await box.receive(f"here_{number}")
            there = asyncio.run_coroutine_threadsafe(box.receive(f"there_{number}"), other)
            await in_time(asyncio.wrap_future(there))
        loops = box.rows(
            "SELECT split_part(event_id, '_', 1) AS loop, count(DISTINCT note) AS sessions FROM effects "
            "GROUP BY 1 ORDER BY 1"
        )
        assert loops == [{"loop": "here", "sessions": 1}, {"loop": "there", "sessions": 1}]
        await in_time(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(box.close(), other)))
        await box.close()

    try:
        asyncio.run(story())
    finally:
        other.call_soon_threadsafe(other.stop)
        thread.join()
        other.close()


def test_a_forked_process_opens_connections_of_its_own(database: str) -> None:
    """P-ACK: two processes that spoke on one socket would hear each other's answers."""
    box = inline(database)

    @box.billing.on("invoice.paid")
    def book(tx: Any, event: Any) -> None:
        tx.conn.execute(INSERT, [event.id, str(tx.conn.info.backend_pid)])

    assert box.deliver_sync(body_of("evt_1")).status == 200
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(box.deliver_sync(body_of("evt_2")).status != 200)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert box.deliver_sync(body_of("evt_3")).status == 200
    box.inbox.close()
    sessions = {row["event_id"]: row["note"] for row in box.rows("SELECT event_id, note FROM effects")}
    assert sessions["evt_1"] == sessions["evt_3"] != sessions["evt_2"]


def test_def_handlers_run_again_once_there_are_threads_again(database: str) -> None:
    """P-CALM, P-FLOW: without a thread for its handler a delivery hears 503, and takes no place from later ones."""

    async def story() -> None:
        box = inline(database, connections_max=2)

        @box.billing.on("invoice.paid")
        def book(tx: Any, event: Any) -> None:
            tx.conn.execute(INSERT, [event.id, ""])

        with no_more_threads():
            for number in range(4):
                (receipt,) = await box.receive(f"evt_{number}")
                assert (receipt.status, receipt.reason) == (503, "store_unavailable")
        (receipt,) = await box.receive("evt_after")
        assert (receipt.status, str(receipt.outcome)) == (200, "processed")
        await box.close()

    asyncio.run(story())


def test_a_notifier_without_a_thread_notifies_later(database: str) -> None:
    """It never fails, whatever the process may not have; the next event has it try again."""
    notifier = Notifier(
        lambda: PsycopgDriver(database, settings=Settings(connections_max=1)),
        channel=channel_of("webhooks"),
        sql=SQL,
    )
    with no_more_threads():
        notifier.send_soon()
        notifier.stop()
    with psycopg.connect(database, autocommit=True) as ear:
        ear.execute(listen(channel_of("webhooks")).encode())
        notifier.send_soon()
        assert [each.channel for each in ear.notifies(timeout=10, stop_after=1)] == [channel_of("webhooks")]
    notifier.stop()


def test_a_lease_is_held_only_where_it_can_be_renewed(database: str) -> None:
    """P-COUNT: a process that can start no thread for its heartbeat does not begin what it would lose."""
    heartbeat = Heartbeat(
        lambda: PsycopgDriver(database, settings=Settings(connections_max=1)), name="w", seconds=60, sql=SQL
    )
    with no_more_threads(), pytest.raises(StoreUnavailableError, match="no thread"):
        heartbeat.began(WorkerId(1), time.monotonic())
    held = [heartbeat.held, heartbeat.began(WorkerId(2), time.monotonic()), heartbeat.held]
    assert held == [None, 2, 2]
    heartbeat.stop(forget=False)


def test_a_watch_without_a_thread_watches_the_next_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-FLOW: that no thread was to be had once leaves no silent connection to itself for ever."""
    monkeypatch.setattr(silence, "SILENCE_SECONDS", 0.0)
    watch = Watch()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Socket(ours)
        with no_more_threads(), watch.over(connection):
            pass
        with watch.over(connection) as wait:
            wait.expect(Begin(SQL.begin, seconds_max=0.0))
            eventually(lambda: wait.given_up, what="the connection is given up", seconds=10)
        assert theirs.recv(1) == b""


class Socket:
    """A connection that says nothing."""

    closed = False

    def __init__(self, given: socket.socket) -> None:
        self.fileno = given.fileno
