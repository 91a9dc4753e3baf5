"""Our own sessions beside an engine: opened where its URL leads, once that has been seen to be the right place."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg import sql

from webhook_inbox.drivers.psycopg_sync import PsycopgDriver
from webhook_inbox.errors import StoreUnavailableError
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.lease import which_database
from webhook_inbox.protocol.steps import Begin, Plan, Rollback
from webhook_inbox.runtime import own as own_module
from webhook_inbox.runtime.own import OverLoop, OwnDriver
from webhook_inbox.sql.statements import Statements

SQL = Statements.of("webhooks")
T = TypeVar("T")


def session() -> Plan[int]:
    """Ask which session it is."""
    row = yield Begin(SQL.doctor_server, seconds_max=5.0)
    yield Rollback()
    return int(row[0])


def test_a_moment_without_a_connection_does_not_decide_for_ever(
    postgres: Any, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-FLOW: a server that was full when it was asked first is asked again; till then the user's connections serve."""
    monkeypatch.setattr(own_module, "PROVE_AGAIN_SECONDS", 0.0)
    settings = Settings(connections_max=1, connection_wait_seconds=0.3)
    shared, own = (PsycopgDriver(empty_database, settings=settings) for _ in range(2))
    driver = OwnDriver(own, shared, lambda: which_database(SQL))
    theirs = shared.run(session)
    with psycopg.connect(empty_database) as known:
        name = sql.Identifier(known.info.dbname)
    postgres.admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
    assert driver.run(session) == theirs
    postgres.admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
    ours = driver.run(session)
    assert ours != theirs
    assert driver.run(session) == ours
    driver.close()
    shared.close()


class EndingDriver:
    """Runs plans on a loop that ends."""

    async def run(self, plan: Callable[[], Plan[T]]) -> T:
        raise asyncio.CancelledError

    async def close(self) -> None:
        raise AssertionError

    def give_up(self) -> None:
        raise AssertionError


def test_a_loop_that_ends_is_a_database_that_is_away() -> None:
    """P-CALM: whoever keeps a lease by it goes on to its own end, and says what is wrong in our words."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        with pytest.raises(StoreUnavailableError, match="ends"):
            OverLoop(EndingDriver(), lambda: loop).run(session)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
