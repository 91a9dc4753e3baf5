"""Give an inbox every kind of database as a user does; two type checkers read this file, nothing runs it."""

from __future__ import annotations

from functools import partial
from typing import assert_type
from uuid import UUID

import asyncpg
from psycopg import AsyncConnection as PsycopgAsyncConnection, Connection as PsycopgConnection
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from webhook_inbox import Django, Event, Handlers, Inbox, Tx

engine = create_engine("postgresql+psycopg:///app")
async_engine = create_async_engine("postgresql+asyncpg:///app")
inboxes = (
    Inbox(engine),
    Inbox(sessionmaker(engine)),
    Inbox(async_engine),
    Inbox(async_sessionmaker(async_engine)),
    Inbox(partial(asyncpg.create_pool, "postgresql:///app", min_size=0)),
    Inbox(Django("default")),
    Inbox(Django("default", testcase=True)),
)
handlers = Handlers()


@handlers.on("sync")
def on_thread(tx: Tx[Connection], event: Event) -> None:
    """Use a session on a thread."""
    assert_type(tx.conn, Connection)
    assert_type(tx.session, Session)
    tx.session.execute(text("SELECT 1"))
    assert_type(tx.emit("Booked", {}), UUID)
    assert_type(tx.review("look"), int)
    assert_type(tx.stale("key", 1), bool)


@handlers.on("async")
async def on_loop(tx: Tx[AsyncConnection], event: Event) -> None:
    """Use a session on an event loop."""
    assert_type(tx.session, AsyncSession)
    await tx.conn.execute(text("SELECT 1"))
    await tx.session.execute(text("SELECT 1"))
    assert_type(await tx.emit("Booked", {}), UUID)
    assert_type(await tx.review("look"), int)
    assert_type(await tx.stale("key", 1), bool)


@handlers.on("asyncpg")
async def on_asyncpg(tx: Tx[asyncpg.Connection], event: Event) -> None:
    """Use asyncpg's own connection."""
    await tx.conn.execute("INSERT INTO notes VALUES ($1)", event.id)
    await tx.emit("Booked", {})


async def on_asyncpg_pool() -> Inbox:
    """Give a pool of asyncpg's."""
    return Inbox(await asyncpg.create_pool("postgresql:///app"))


@handlers.on("psycopg")
def without_session(tx: Tx[PsycopgConnection], event: Event) -> None:
    """There is no session where there is no SQLAlchemy, and a checker says so."""
    tx.session  # type: ignore[arg-type]  # noqa: B018
    assert_type(tx.emit("Booked", {}), UUID)


@handlers.on("psycopg async")
async def without_async_session(tx: Tx[PsycopgAsyncConnection], event: Event) -> None:
    """As on a thread."""
    tx.session  # type: ignore[arg-type]  # noqa: B018
    assert_type(await tx.emit("Booked", {}), UUID)
