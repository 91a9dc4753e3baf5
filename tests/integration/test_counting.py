"""Duplicates, refusals and failures leave a sum in the database, and cost no delivery a write."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.fixtures.programs import eventually
from tests.fixtures.receiving import STRIPE_SECRET, stripe, stripe_event
from webhook_inbox import Inbox
from webhook_inbox.cli.database import run_plan
from webhook_inbox.protocol.prune import Position, Retention, prune_step
from webhook_inbox.protocol.status import read_backlog
from webhook_inbox.runtime import counting
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.signing import sign_stripe

ALL = {("shop", "duplicate", "", 2), ("shop", "rejected", "signature_mismatch", 3)}


def rows(dsn: str) -> set[tuple[Any, ...]]:
    """What the counters hold."""
    with psycopg.connect(dsn) as connection:
        return set(
            connection.execute("SELECT endpoint, outcome, reason, number FROM webhooks.counters").fetchall()
        )


async def shown(dsn: str, expected: set[tuple[Any, ...]]) -> None:
    """Wait until the counters hold this."""
    await asyncio.to_thread(eventually, lambda: rows(dsn) == expected, what=f"the counters hold {expected}")


def execute(dsn: str, statement: str) -> None:
    """Do what an operator does."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())


async def deliver(inbox: Inbox) -> None:
    """One event, which comes three times, and is forged three times."""
    body = stripe_event()
    for secret in (STRIPE_SECRET, STRIPE_SECRET, STRIPE_SECRET, "whsec_wrong", "whsec_wrong", "whsec_wrong"):
        await inbox.receive("shop", headers=sign_stripe(body, secret, int(time.time())), body=body)


def opened(dsn: str) -> Inbox:
    """An inbox that only records."""
    inbox = Inbox(dsn)
    inbox.endpoint("shop", stripe())
    return inbox


def test_they_are_written_when_the_process_stops(database: str) -> None:
    """All of them, and none before: a duplicate and a refusal write nothing while their sender waits."""

    async def run() -> set[tuple[Any, ...]]:
        inbox = opened(database)
        async with inbox.running():
            await deliver(inbox)
            return rows(database)

    assert asyncio.run(run()) == set()
    assert rows(database) == ALL


@contextmanager
def often(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have counts written at once."""
    with patch.context() as within:
        within.setattr(counting, "EVERY_SECONDS", 0.02)
        yield


def test_they_are_written_while_it_runs_and_add_up(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over time and over processes, in one row for each kind."""

    async def run() -> None:
        one, other = opened(database), opened(database)
        async with one.running(), other.running():
            await deliver(one)
            await shown(database, ALL)
            await asyncio.gather(deliver(one), deliver(other))
            twice_more = {("shop", "duplicate", "", 8), ("shop", "rejected", "signature_mismatch", 9)}
            await shown(database, twice_more)

    with often(monkeypatch):
        asyncio.run(run())


def test_what_cannot_be_written_is_kept(
    database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Until it can, and counted once; the log says so, without a payload."""
    caplog.set_level(logging.INFO, "webhook_inbox")
    execute(database, "ALTER TABLE webhooks.counters RENAME TO hidden")

    def told() -> bool:
        return any(getattr(record, "event", "") == "counts_kept" for record in caplog.records)

    async def run() -> None:
        inbox = opened(database)
        async with inbox.running():
            await deliver(inbox)
            await asyncio.to_thread(eventually, told, what="the log says that counts are kept")
            execute(database, "ALTER TABLE webhooks.hidden RENAME TO counters")
            await shown(database, ALL)

    with often(monkeypatch):
        asyncio.run(run())


#: As a WSGI server's process ends: nobody closes the inbox. From Python 3.12 on, no thread can be started by then.
UNCLOSED = """
import atexit, sys, threading
from webhook_inbox import Inbox
from webhook_inbox.sources import Stripe

inbox = Inbox(sys.argv[1])
inbox.endpoint("shop", Stripe(secrets="whsec_fake_counting"))
for _ in range(3):
    assert inbox.receive_sync("shop", headers=[], body=b"{}").status == 400

def refuse(thread):
    raise RuntimeError("can't create new thread at interpreter shutdown")

atexit.register(setattr, threading.Thread, "start", refuse)
print("ends", flush=True)
"""


def ended(dsn: str, seconds_max: float) -> None:
    """Have such a process run, and end within so many seconds."""
    with subprocess.Popen(
        [sys.executable, "-c", UNCLOSED, dsn], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ends\n"
            assert process.wait(seconds_max) == 0
        finally:
            process.kill()


def test_they_are_written_when_a_process_ends_that_nobody_stops(database: str) -> None:
    """By the end of the interpreter, since a WSGI server tells its app of none."""
    ended(database, 30.0)
    assert rows(database) == {("shop", "rejected", "signature_missing", 3)}


def test_the_end_of_a_process_waits_for_no_server_that_is_silent() -> None:
    """A second, and no more; the counts are lost then."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        ended(f"postgresql://fake@{host}:{port}/fake", 10.0)


def test_an_hour_counts_and_a_week_stays(database: str) -> None:
    """``status`` adds up the last hour; the hourly walk forgets what is older than a week."""
    execute(
        database,
        "INSERT INTO webhooks.counters (began_at, endpoint, outcome, number) "
        "SELECT now() - make_interval(mins => age), 'shop', 'duplicate', 1 "
        "FROM unnest(ARRAY[1, 59, 61, 10079, 10081]) age",
    )
    assert [each.number for each in run_plan(database, lambda: read_backlog("webhooks")).last_hour] == [2]
    walk = prune_step([Retention("shop", 1, 1)], Position(stage="counters"), Statements.of("webhooks"))
    run_plan(database, lambda: walk)
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM webhooks.counters").fetchone() == (4,)
