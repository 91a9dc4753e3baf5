"""Make drivers for what other libraries gave: each is imported where the user has done so already, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from webhook_inbox.drivers.django_database import Django
from webhook_inbox.drivers.driver import AsyncDriver, Driver
from webhook_inbox.drivers.wire import Lender
from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.probe import Probe


class AsyncpgPool(Protocol):
    """Name what is needed of an ``asyncpg.Pool``, for type checkers: asyncpg comes without types."""

    def acquire(self, *, timeout: float | None = None) -> Any: ...  # noqa: ANN401, D102 - asyncpg's own
    def get_max_size(self) -> int: ...  # noqa: D102
    async def expire_connections(self) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """
    Hold how one library's connections are used.

    Attributes:
        lender: Lends them.
        find_dsn: Gives what they connect to; None where it cannot be told.
        sure: Whether nothing but that DSN says where they connect to.
        threads: For ``def`` handlers, or None.
        loops: For ``async def`` handlers, or None.
        connections_max: How many there are in the pool; None where there is no pool, or no limit.
    """

    lender: Lender
    find_dsn: Callable[[], str | None]
    threads: Driver | None = None
    loops: AsyncDriver | None = None
    connections_max: int | None = None
    sure: bool = True


def world_of(given: object, *, settings: Settings, probe: Probe) -> World | None:
    """
    Give the world that *given* is of; None where it is of none that is known.

    Raises:
        ConfigurationError: It is known, and cannot be used.
    """
    if isinstance(given, Django):
        return _django(given, settings, probe)
    if isinstance(given, partial):
        return _opened_asyncpg(given, settings, probe)
    libraries = {kind.__module__.partition(".")[0] for kind in type(given).__mro__}
    if "sqlalchemy" in libraries:
        return _sqlalchemy(given, settings, probe)
    if "asyncpg" in libraries:
        return _asyncpg(given, settings, probe)
    return None


def _sqlalchemy(given: Any, settings: Settings, probe: Probe) -> World | None:  # noqa: ANN401 - looked at here
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
    from sqlalchemy.orm import sessionmaker

    from webhook_inbox.drivers.lending import LoopDriver, ThreadDriver
    from webhook_inbox.drivers.sqlalchemy_engine import SqlAlchemyLender

    if not isinstance(given, Engine | AsyncEngine | sessionmaker | async_sessionmaker):
        return None
    lender = SqlAlchemyLender(given, settings=settings)
    on_loops = isinstance(lender.engine, AsyncEngine)
    return World(
        lender=lender,
        find_dsn=lender.dsn,
        threads=None if on_loops else ThreadDriver(lender, probe=probe),
        loops=LoopDriver(lender, probe=probe) if on_loops else None,
        connections_max=lender.connections_max,
        sure=False,  # an engine's connect_args, creator and listeners are not to be seen
    )


def _asyncpg(given: Any, settings: Settings, probe: Probe) -> World | None:  # noqa: ANN401 - looked at here
    from asyncpg import Pool

    from webhook_inbox.drivers.asyncpg_pool import AsyncpgLender
    from webhook_inbox.drivers.lending import LoopDriver

    if not isinstance(given, Pool):
        return None
    lender = AsyncpgLender(given, settings=settings)
    return World(
        lender=lender,
        find_dsn=lender.dsn,
        loops=LoopDriver(lender, probe=probe),
        connections_max=given.get_max_size(),
    )


def _opened_asyncpg(given: partial[Any], settings: Settings, probe: Probe) -> World | None:
    if getattr(given.func, "__module__", "").partition(".")[0] != "asyncpg":
        return None
    from asyncpg import create_pool

    from webhook_inbox.drivers.asyncpg_opened import OpenedLender
    from webhook_inbox.drivers.lending import LoopDriver

    if given.func is not create_pool:
        return None
    lender = OpenedLender(given, settings=settings)
    return World(
        lender=lender,
        find_dsn=lender.dsn,
        loops=LoopDriver(lender, probe=probe),
        connections_max=lender.connections_max,
    )


def _django(given: Django, settings: Settings, probe: Probe) -> World:
    try:
        from webhook_inbox.drivers.django_world import DjangoLender
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"Django({given.alias!r}) needs Django: pip install 'webhook-inbox[django]'"
        ) from error
    from webhook_inbox.drivers.lending import ThreadDriver

    lender = DjangoLender(given, settings=settings)
    return World(
        lender=lender,
        find_dsn=lender.dsn,
        threads=ThreadDriver(lender, probe=probe),
        connections_max=lender.connections_max,
    )
