"""A message that a user emits in a transaction of their own is part of it, whichever library they write with."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import psycopg
import pytest
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.fixtures.benches import django_alias, forget_alias, set_django_up
from tests.fixtures.outbox import Outbox
from webhook_inbox import Django, GiveUp, Inbox
from webhook_inbox.destinations import Call, Http, Message
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.message import SendState

set_django_up()

#: Emits by the function given on a connection of its own, then commits or, told so, rolls back; gives what emit gave.
Way = Callable[[str, Callable[[Any], Any], bool], Any]


def url(dsn: str, driver: str) -> str:
    """The DSN as SQLAlchemy names it."""
    parts = conninfo_to_dict(dsn)
    return (
        f"postgresql+{driver}://{parts['user']}:{parts.get('password', '')}@/{parts['dbname']}"
        f"?host={parts['host']}&port={parts['port']}"
    )


def on_psycopg(dsn: str, emit: Callable[[Any], Any], kept: bool) -> Any:
    """A connection of psycopg's."""
    with psycopg.connect(dsn) as conn:
        found = emit(conn)
        conn.commit() if kept else conn.rollback()
    return found


def on_psycopg_async(dsn: str, emit: Callable[[Any], Any], kept: bool) -> Any:
    """... and on an event loop, in autocommit mode, within a transaction block."""

    async def story() -> Any:
        conn = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        async with conn, conn.transaction(force_rollback=not kept):
            return await emit(conn)

    return asyncio.run(story())


def on_asyncpg(dsn: str, emit: Callable[[Any], Any], kept: bool) -> Any:
    """asyncpg, with a codec of the user's own for jsonb."""

    async def story() -> Any:
        conn = await asyncpg.connect(dsn)
        try:
            await conn.set_type_codec("jsonb", encoder=repr, decoder=str, schema="pg_catalog")
            started = conn.transaction()
            await started.start()
            found = await emit(conn)
            await (started.commit() if kept else started.rollback())
            return found
        finally:
            await conn.close()

    return asyncio.run(story())


def on_engine(dsn: str, emit: Callable[[Any], Any], kept: bool) -> Any:
    """A connection of SQLAlchemy's, which begins by itself."""
    engine = create_engine(url(dsn, "psycopg"))
    with engine.connect() as conn:
        found = emit(conn)
        conn.commit() if kept else conn.rollback()
    engine.dispose()
    return found


def on_session(dsn: str, emit: Callable[[Any], Any], kept: bool) -> Any:
    """A session that has not begun."""
    engine = create_engine(url(dsn, "psycopg"))
    with Session(engine) as session:
        found = emit(session)
        session.commit() if kept else session.rollback()
    engine.dispose()
    return found


def on_scoped_session(dsn: str, emit: Callable[[Any], Any], kept: bool) -> Any:
    """The session of this thread, as Flask-SQLAlchemy has it."""
    engine = create_engine(url(dsn, "psycopg"))
    session = scoped_session(sessionmaker(engine))
    found = emit(session)
    session.commit() if kept else session.rollback()
    session.remove()
    engine.dispose()
    return found


def on_async_scoped_session(dsn: str, emit: Callable[[Any], Any], kept: bool) -> Any:
    """The session of this task."""

    async def story() -> Any:
        engine = create_async_engine(url(dsn, "asyncpg"))
        session = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
        found = await emit(session)
        await (session.commit() if kept else session.rollback())
        await session.remove()
        await engine.dispose()
        return found

    return asyncio.run(story())


def _on_async_session(driver: str) -> Way:
    def way(dsn: str, emit: Callable[[Any], Any], kept: bool) -> Any:
        async def story() -> Any:
            engine = create_async_engine(url(dsn, driver))
            async with AsyncSession(engine) as session:
                found = await emit(session)
                await (session.commit() if kept else session.rollback())
            await engine.dispose()
            return found

        return asyncio.run(story())

    return way


def _on_async_engine(driver: str) -> Way:
    def way(dsn: str, emit: Callable[[Any], Any], kept: bool) -> Any:
        async def story() -> Any:
            engine = create_async_engine(url(dsn, driver))
            async with engine.connect() as conn:
                found = await emit(conn)
                await (conn.commit() if kept else conn.rollback())
            await engine.dispose()
            return found

        return asyncio.run(story())

    return way


def on_django(dsn: str, emit: Callable[[Any], Any], kept: bool) -> Any:
    """Django's connection, within atomic()."""
    alias = django_alias(dsn)
    with transaction.atomic(using=alias):
        found = emit(connections[alias])
        transaction.set_rollback(not kept, using=alias)
    connections[alias].close()
    forget_alias(alias)
    return found


WAYS: dict[str, Way] = {
    "psycopg": on_psycopg,
    "psycopg-async": on_psycopg_async,
    "asyncpg": on_asyncpg,
    "sqlalchemy": on_engine,
    "sqlalchemy-session": on_session,
    "sqlalchemy-scoped-session": on_scoped_session,
    "sqlalchemy-async-scoped-session": on_async_scoped_session,
    "sqlalchemy-async-connection": _on_async_engine("asyncpg"),
    "sqlalchemy-async-psycopg": _on_async_session("psycopg_async"),
    "sqlalchemy-async-asyncpg": _on_async_session("asyncpg"),
    "django": on_django,
}


@pytest.mark.parametrize("way", WAYS)
def test_it_is_committed_and_rolled_back_with_the_rest(database: str, way: str) -> None:
    """P-OUT: not there before, there after, and never where the transaction is rolled back."""
    inbox, box = Inbox(database), Outbox(database)

    def emit(conn: Any) -> Any:
        return inbox.emit(
            conn,
            "Paid",
            {"é": 1},
            aggregate_type="Invoice",
            aggregate_id=7,
            to="mail",
            headers={"x-tenant": "7"},
        )

    message_id = WAYS[way](database, emit, True)
    assert WAYS[way](database, emit, False) is not None
    (row,) = box.rows("SELECT * FROM webhooks.outbox")
    assert row["id"] == message_id
    assert (row["event_type"], row["payload"], row["destination"]) == ("Paid", {"é": 1}, "mail")
    assert (row["aggregate_type"], row["aggregate_id"], row["headers"]) == ("Invoice", "7", {"x-tenant": "7"})
    assert (row["inbox_id"], row["state"]) == (None, "waiting")


#: What ``_relayed`` leaves of "Good", "Bad" and "Good".
RELAYED = {("crm", "sent"): 2, ("crm", "dead"): 1, ("down", "retrying"): 3}


async def _relayed(inbox: Inbox) -> None:
    """Bring three messages to a destination that fails one of them, and to one that is away."""
    seen: list[str] = []

    async def tell(message: Message) -> None:
        seen.append(message.event_type)
        if message.event_type == "Bad":
            raise GiveUp("no")

    inbox.destination("crm", Call(tell), ordered=True)
    inbox.destination("down", Http("http://127.0.0.1:9/", secret="whsec_" + "A" * 32, allow_private=True))
    for name in ("crm", "down"):
        inbox.route("*", to=name)
    outcomes = await asyncio.wait_for(inbox.relay(drain=True), 30)
    assert sorted(seen) == ["Bad", "Good", "Good"]
    assert outcomes[SendState.SENT] == 2
    assert outcomes[SendState.DEAD] == 1


async def relay_on_asyncpg(dsn: str) -> None:
    """An asyncpg pool, with codecs of the user's own for what we send."""

    async def init(conn: Any) -> None:
        await conn.set_type_codec("uuid", encoder=repr, decoder=repr, schema="pg_catalog")
        await conn.set_type_codec("jsonb", encoder=repr, decoder=repr, schema="pg_catalog")

    async with asyncpg.create_pool(dsn, min_size=1, init=init) as pool:
        await _relayed(Inbox(pool))


async def relay_on_async_engine(dsn: str) -> None:
    """SQLAlchemy's engine on asyncpg."""
    engine = create_async_engine(url(dsn, "asyncpg"))
    await _relayed(Inbox(engine))
    await engine.dispose()


async def relay_on_threads(dsn: str) -> None:
    """A pool that threads alone can use."""
    with ConnectionPool(dsn, min_size=1, open=True) as pool:
        await _relayed(Inbox(pool))


async def relay_on_engine(dsn: str) -> None:
    """SQLAlchemy's engine of threads."""
    engine = create_engine(url(dsn, "psycopg"))
    await _relayed(Inbox(engine))
    engine.dispose()


def test_a_relay_works_on_djangos_connections(database: str) -> None:
    """P-OUT: as on all others; what belongs to Django is done off the loop."""
    box = Outbox(database)
    box.write("Good", "Bad", "Good")
    alias = django_alias(database)
    asyncio.run(_relayed(Inbox(Django(alias))))
    forget_alias(alias)
    assert Counter(box.sends("destination", "state")) == RELAYED


@pytest.mark.parametrize(
    "relay", [relay_on_asyncpg, relay_on_async_engine, relay_on_threads, relay_on_engine]
)
def test_a_relay_works_on_whatever_the_inbox_was_given(
    database: str, relay: Callable[[str], Awaitable[None]]
) -> None:
    """P-OUT: routed, claimed, settled, whichever library carries the statements."""
    box = Outbox(database)
    box.write("Good", "Bad", "Good")

    async def story() -> None:
        await relay(database)

    asyncio.run(story())
    assert Counter(box.sends("destination", "state")) == RELAYED


def test_a_key_makes_a_second_message_the_first(database: str) -> None:
    """P-OUT: the same id, now and later, and one row; another key, or none, is another message."""
    inbox, box = Inbox(database), Outbox(database)
    ids = [
        on_psycopg(database, lambda conn, key=key: inbox.emit(conn, "Paid", {}, key=key), True)  # type: ignore[misc]
        for key in ("a", "a", "b", None, None)
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4
    assert len(box.rows("SELECT id FROM webhooks.outbox")) == 4


def test_a_connection_without_a_transaction_is_refused(database: str) -> None:
    """The message would be there whatever becomes of what it tells of."""
    inbox = Inbox(database)

    async def on_asyncpg_bare() -> None:
        conn = await asyncpg.connect(database)
        try:
            await inbox.emit(conn, "Paid", {})
        finally:
            await conn.close()

    with (
        psycopg.connect(database, autocommit=True) as conn,
        pytest.raises(ConfigurationError, match="no transaction is open"),
    ):
        inbox.emit(conn, "Paid", {})
    with pytest.raises(ConfigurationError, match="no transaction is open"):
        asyncio.run(on_asyncpg_bare())
    alias = django_alias(database)
    with pytest.raises(ConfigurationError, match=r"use transaction\.atomic\(\)"):
        inbox.emit(connections[alias], "Paid", {})
    forget_alias(alias)
    assert Outbox(database).rows("SELECT id FROM webhooks.outbox") == []


def test_what_is_no_connection_is_refused_by_its_name(database: str) -> None:
    """An engine or a pool, of which a connection is to be taken first; or a driver that we do not speak."""
    inbox = Inbox(database)
    engine, other = create_engine(url(database, "psycopg")), create_engine("sqlite://")

    async def on_pool() -> None:
        await inbox.emit(asyncpg.create_pool(database, min_size=0), "Paid", {})

    mistakes: dict[str, Callable[[], Any]] = {
        "a str": lambda: inbox.emit(database, "Paid", {}),  # type: ignore[call-overload]
        r"a sqlalchemy\.engine\.base\.Engine": lambda: inbox.emit(engine, "Paid", {}),  # type: ignore[call-overload]
        r"a asyncpg\.pool\.Pool": lambda: asyncio.run(on_pool()),
    }
    with other.connect() as conn:
        mistakes[r"a sqlite3\.Connection"] = lambda: inbox.emit(conn, "Paid", {})
        for name, emit in mistakes.items():
            with pytest.raises(ConfigurationError, match=f": {name} is no connection that we know"):
                emit()
    other.dispose()
