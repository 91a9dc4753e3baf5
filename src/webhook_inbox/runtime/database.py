"""Turn the database that a user gives into drivers: one for threads, one for event loops, or both."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from webhook_inbox.drivers.django_database import Django
from webhook_inbox.drivers.driver import AsyncDriver, Driver
from webhook_inbox.drivers.lending import LoopDriver
from webhook_inbox.drivers.psycopg_async import AsyncPsycopgDriver
from webhook_inbox.drivers.psycopg_once import OnceDriver
from webhook_inbox.drivers.psycopg_settings import libpq_dsn
from webhook_inbox.drivers.psycopg_sync import PsycopgDriver
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.lease import which_database
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.runtime.own import NotOurs, OverLoop, OwnDriver
from webhook_inbox.runtime.worlds import AsyncpgPool, world_of
from webhook_inbox.sql.statements import Statements

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
    from sqlalchemy.orm import sessionmaker

Database: TypeAlias = (
    "str | ConnectionPool[Any] | AsyncConnectionPool[Any] | Django | AsyncpgPool | partial[Any]"
    " | Engine | AsyncEngine | sessionmaker[Any] | async_sessionmaker[Any]"
)
VARIABLES = ("WEBHOOK_INBOX_DATABASE_URL", "DATABASE_URL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drivers:
    """
    Hold the drivers for one database.

    Attributes:
        find_dsn: Gives the DSN for sessions of our own beside the pool, the heartbeat's and the listener's; None where
            it cannot be told.
        threads: For ``def`` handlers and synchronous callers, or None.
        loops: For ``async def`` handlers, or None.
        connections_max: Of the pool that the user gave; None where we make one.
        sure: Whether that DSN is all that says where the user's connections lead to.
        probe: Told the fault points of every plan, those of our own sessions too.
    """

    find_dsn: Callable[[], str | None]
    threads: Driver | None
    loops: AsyncDriver | None
    connections_max: int | None = None
    sure: bool = True
    probe: Probe = no_probe

    def own(self, settings: Settings, sql: Statements) -> Driver:
        """Make a driver with one connection that nobody else uses; see ``own.py`` for where that cannot be."""
        dsn = self.find_dsn()
        if dsn is None:
            return self._shared()
        own = PsycopgDriver(dsn, settings=settings.with_overrides({"connections_max": 1}), probe=self.probe)
        return self._proven(own, sql)

    def once(self, sql: Statements) -> Driver:
        """Make a driver with a connection of its own for each plan; see ``own.py`` for where that cannot be."""
        dsn = self.find_dsn()
        return self._shared() if dsn is None else self._proven(OnceDriver(dsn, probe=self.probe), sql)

    def meet(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take *loop* for the one on which the user's connections are used, before anything was asked of them there."""
        if isinstance(self.loops, LoopDriver):
            self.loops.loop = loop

    def _proven(self, own: Driver, sql: Statements) -> Driver:
        return own if self.sure else OwnDriver(own, self._shared(), lambda: which_database(sql))

    def _shared(self) -> Driver:
        loops = self.loops
        if self.threads is None and isinstance(loops, LoopDriver):
            return OverLoop(loops, lambda: loops.loop)
        if self.threads is None:
            raise ConfigurationError("the database given serves neither threads nor event loops")
        return NotOurs(self.threads)


def drivers_for(database: Database | None, *, settings: Settings, probe: Probe) -> Drivers:
    """
    Make drivers for what the user gave; None takes the DSN from the environment.

    Raises:
        ConfigurationError: There is none, or it is nothing we can use.
    """
    given: object = dsn_from_environment() if database is None else database
    match given:
        case str():
            dsn = libpq_dsn(given)
            return Drivers(
                find_dsn=lambda: dsn,
                threads=PsycopgDriver(dsn, settings=settings, probe=probe),
                loops=AsyncPsycopgDriver(dsn, settings=settings, probe=probe),
                probe=probe,
            )
        case ConnectionPool():
            sync_dsn = _dsn_of(given)
            return Drivers(
                find_dsn=lambda: sync_dsn,
                threads=PsycopgDriver(given, settings=settings, probe=probe),
                loops=None,
                connections_max=given.max_size,
                probe=probe,
            )
        case AsyncConnectionPool():
            async_dsn = _dsn_of(given)
            return Drivers(
                find_dsn=lambda: async_dsn,
                threads=None,
                loops=AsyncPsycopgDriver(given, settings=settings, probe=probe),
                connections_max=given.max_size,
                probe=probe,
            )
        case _:
            return _drivers_of_world(given, settings=settings, probe=probe)


def _drivers_of_world(given: object, *, settings: Settings, probe: Probe) -> Drivers:
    world = world_of(given, settings=settings, probe=probe)
    if world is None:
        raise ConfigurationError(
            f"Inbox(database) is a {type(given).__qualname__}; give a DSN, a pool of psycopg_pool or asyncpg, "
            "partial(asyncpg.create_pool, ...), a SQLAlchemy engine or sessionmaker, or Django('default')"
        )
    return Drivers(
        find_dsn=world.find_dsn,
        threads=world.threads,
        loops=world.loops,
        connections_max=world.connections_max,
        sure=world.sure,
        probe=probe,
    )


def _dsn_of(pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> str:
    """Give what *pool* connects to: its conninfo, and what its ``kwargs`` say to libpq beside it."""
    conninfo: object = pool.conninfo
    kwargs: object = pool.kwargs or {}
    if not isinstance(conninfo, str) or not isinstance(kwargs, Mapping):
        raise ConfigurationError(
            "Inbox(pool): a pool whose conninfo or kwargs is a function is not supported; give it a string and a dict"
        )
    libpq_keywords = {each.keyword.decode() for each in Conninfo.get_defaults()}
    try:
        known = conninfo_to_dict(conninfo, **{key: kwargs[key] for key in kwargs if key in libpq_keywords})
        # With nothing known, libpq goes by its environment variables, as the pool does.
        return libpq_dsn(make_conninfo("", **{"application_name": "webhook-inbox", **known}))
    except psycopg.Error:
        raise ConfigurationError(
            "Inbox(pool): the pool's conninfo and kwargs are nothing that libpq understands"
        ) from None


def dsn_from_environment(environment: Mapping[str, str] | None = None) -> str:
    """
    Give the DSN that the environment names.

    Raises:
        ConfigurationError: Neither variable is set.
    """
    values = os.environ if environment is None else environment
    for variable in VARIABLES:
        if dsn := values.get(variable, "").strip():
            return dsn
    raise ConfigurationError(
        f"no database: set {VARIABLES[0]} (or {VARIABLES[1]}) to postgresql://user:password@host/name"
    )
