"""Turn the database that a user gives into drivers: one for threads, one for event loops, or both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from webhook_inbox.drivers.driver import AsyncDriver, Driver
from webhook_inbox.drivers.psycopg_async import AsyncPsycopgDriver
from webhook_inbox.drivers.psycopg_settings import libpq_dsn
from webhook_inbox.drivers.psycopg_sync import PsycopgDriver
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.probe import Probe, no_probe

Database: TypeAlias = str | ConnectionPool[Any] | AsyncConnectionPool[Any]
VARIABLES = ("WEBHOOK_INBOX_DATABASE_URL", "DATABASE_URL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drivers:
    """
    Hold the drivers for one database.

    Attributes:
        dsn: For sessions of our own beside the pool: the heartbeat's and the listener's.
        threads: For ``def`` handlers and synchronous callers, or None.
        loops: For ``async def`` handlers, or None.
        connections_max: Of the pool that the user gave; None where we make one.
        probe: Told the fault points of every plan, those of our own sessions too.
    """

    dsn: str
    threads: Driver | None
    loops: AsyncDriver | None
    connections_max: int | None = None
    probe: Probe = no_probe


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
                dsn=dsn,
                threads=PsycopgDriver(dsn, settings=settings, probe=probe),
                loops=AsyncPsycopgDriver(dsn, settings=settings, probe=probe),
                probe=probe,
            )
        case ConnectionPool():
            return Drivers(
                dsn=_dsn_of(given),
                threads=PsycopgDriver(given, settings=settings, probe=probe),
                loops=None,
                connections_max=given.max_size,
                probe=probe,
            )
        case AsyncConnectionPool():
            return Drivers(
                dsn=_dsn_of(given),
                threads=None,
                loops=AsyncPsycopgDriver(given, settings=settings, probe=probe),
                connections_max=given.max_size,
                probe=probe,
            )
        case _:
            kind = type(given).__qualname__
            raise ConfigurationError(
                f"Inbox(database) is a {kind}; give a DSN, a psycopg_pool.ConnectionPool or an AsyncConnectionPool"
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
