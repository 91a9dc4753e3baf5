"""A pool of asyncpg's that the inbox opens itself: one, when and where it is wanted, and closed again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import asyncpg
import psycopg
import pytest

from tests.fixtures.benches import asyncpg_arguments
from tests.fixtures.drivers import statement
from tests.fixtures.queue import until
from webhook_inbox import Inbox
from webhook_inbox.drivers.asyncpg_opened import OpenedLender
from webhook_inbox.drivers.lending import LoopDriver
from webhook_inbox.errors import ConfigurationError, StoreUnavailableError
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.steps import Begin, Plan, Rollback

NAME = "opened-pool"


class Opened:
    """A driver over a pool that it opens, and how often it has."""

    def __init__(self, dsn: str, **more: Any) -> None:
        self.times = 0
        given = {
            **asyncpg_arguments(dsn),
            "server_settings": {"application_name": NAME},
            "min_size": 0,
            "max_size": 2,
        }
        self.opens = partial(self._open, **given | more)
        self.driver = LoopDriver(OpenedLender(self.opens, settings=Settings()))

    def _open(self, **given: Any) -> Any:
        self.times += 1
        return asyncpg.create_pool(**given)

    async def ask(self) -> int:
        """Run a plan that asks for 1."""

        def plan() -> Plan[int]:
            row = yield Begin(statement("SELECT 1"))
            yield Rollback()
            return int(row[0])

        return await self.driver.run(plan)


@pytest.fixture
def sessions(database: str) -> Iterator[Any]:
    """Counts the sessions of pools that were opened here."""
    with psycopg.connect(database, autocommit=True) as witness:

        def count() -> int:
            row = witness.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()",
                [NAME],
            ).fetchone()
            assert row is not None
            return int(row[0])

        yield count


def test_one_pool_serves_all_who_want_it_first(database: str, sessions: Any) -> None:
    """Nothing is opened before; eight at once open one pool, and no more connections than it may have."""
    opened = Opened(database)

    async def story() -> None:
        assert (opened.times, sessions()) == (0, 0)
        assert await asyncio.gather(*(opened.ask() for _ in range(8))) == [1] * 8
        assert opened.times == 1
        assert 1 <= sessions() <= 2
        await opened.driver.close()
        await until(lambda: sessions() == 0)

    asyncio.run(story())


def test_it_is_opened_anew_on_the_next_loop(database: str, sessions: Any) -> None:
    """As the command line does, which asks whether the database is ready before it serves; closing twice is nothing."""
    opened = Opened(database)

    async def story() -> None:
        assert await opened.ask() == 1
        await opened.driver.close()
        await opened.driver.close()

    for times in (1, 2):
        asyncio.run(story())
        assert opened.times == times


def test_a_database_that_is_away_is_asked_again(database: str) -> None:
    """The pool that could not be opened is not kept."""
    opened = Opened(database, min_size=1, port=1, host="127.0.0.1")

    async def story() -> None:
        with pytest.raises(StoreUnavailableError):
            await opened.ask()
        opened.opens.keywords.update(asyncpg_arguments(database))
        assert await opened.ask() == 1
        await opened.driver.close()

    asyncio.run(story())
    assert opened.times == 2


def test_a_pool_that_could_not_be_made_is_made_again(database: str) -> None:
    """The user's ``init`` may ask for more than a database; the failure of a moment is not kept, nor its text told."""

    async def init(_: Any) -> None:
        if opened.times == 1:
            raise RuntimeError("secret-4711")

    opened = Opened(database, min_size=1, init=init)

    async def story() -> None:
        with pytest.raises(
            StoreUnavailableError, match="the pool could not be opened: RuntimeError"
        ) as failed:
            await opened.ask()
        assert "4711" not in str(failed.value)
        assert await opened.ask() == 1
        await opened.driver.close()

    asyncio.run(story())


def test_who_is_cancelled_leaves_the_pool_to_the_others(database: str) -> None:
    """The request that came first is gone before the pool is open."""
    opened = Opened(database)

    async def story() -> None:
        first, second = asyncio.create_task(opened.ask()), asyncio.create_task(opened.ask())
        await asyncio.sleep(0)
        first.cancel()
        assert await second == 1
        assert first.cancelled()
        await opened.driver.close()

    asyncio.run(story())
    assert opened.times == 1


def test_a_connection_that_is_still_lent_does_not_hold_up_the_end(
    database: str, sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing waits for it a bounded time, and then cuts it."""
    monkeypatch.setattr("webhook_inbox.drivers.asyncpg_opened._CLOSE_SECONDS_MAX", 0.1)
    opened = Opened(database)

    async def story() -> None:
        lender = opened.driver._lender
        assert isinstance(lender, OpenedLender)
        await opened.ask()
        await lender._pool.acquire()
        async with asyncio.timeout(30):
            await opened.driver.close()
        await until(lambda: sessions() == 0)

    asyncio.run(story())


@pytest.mark.parametrize(
    "given",
    [partial(int, "1"), partial(asyncpg.connect, "postgresql://"), int],
    ids=["a number", "asyncpg.connect", "a class"],
)
def test_another_function_is_no_database(given: Any) -> None:
    """What opens a pool is ``asyncpg.create_pool``; the refusal says what may be given."""
    with pytest.raises(ConfigurationError, match=r"partial\(asyncpg.create_pool"):
        Inbox(given)
