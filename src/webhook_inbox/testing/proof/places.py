"""Give the handlers of an inbox places to run at, each with a connection of the kind that the inbox was given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from webhook_inbox.drivers.django_database import Django
from webhook_inbox.drivers.psycopg_loop import LoopConnection
from webhook_inbox.drivers.psycopg_sync import PsycopgRunner
from webhook_inbox.errors import ConfigurationError, StoreError
from webhook_inbox.inbox import Inbox
from webhook_inbox.model.settings import Settings
from webhook_inbox.protocol.handlers import Kind
from webhook_inbox.protocol.lease import which_database
from webhook_inbox.protocol.probe import no_probe
from webhook_inbox.protocol.steps import Plan, Row
from webhook_inbox.runtime.worlds import world_of
from webhook_inbox.sql.statements import Statements
from webhook_inbox.testing.schedules import Place
from webhook_inbox.testing.schedules.place import LentPlace, PsycopgPlace

T = TypeVar("T")
#: A pool that shall keep a connection opens another one where a handler's was cut, as if the handler did.
_SIZES = {"min_size": 0, "max_size": 1}


class Places:
    """
    Open places as they are needed.

    Args:
        inbox: Where it was given a DSN, places connect to *database*; else as what it was given does.
        database: The DSN that is proved on.

    Raises:
        ConfigurationError: What *inbox* was given cannot serve a proof.
    """

    def __init__(self, inbox: Inbox, database: str) -> None:
        self._opens = _openers(inbox._database, database)  # noqa: SLF001 - nobody else needs to know what it was given
        self._open: dict[Kind, list[Place]] = {"sync": [], "async": []}
        self._database = database
        self._sql = Statements.of(inbox.schema)

    def at(self, *kinds: Kind) -> list[Place]:
        """
        Give a free place for each of *kinds*.

        Raises:
            ConfigurationError: It is on another database.
        """
        taken: list[Place] = []
        for kind in kinds:
            free = (place for place in self._open[kind] if place.free and place not in taken)
            taken.append(next(free, None) or self._opened(kind))
        return taken

    def run(self, kind: Kind, plan: Plan[T]) -> T:
        """Run *plan* at a free place; see ``Place.run``."""
        (place,) = self.at(kind)
        return place.run(plan)

    def close(self) -> None:
        """Close every connection."""
        for place in [*self._open["sync"], *self._open["async"]]:
            with suppress(StoreError, TimeoutError):
                place.close()

    def _opened(self, kind: Kind) -> Place:
        place = self._opens[kind]()
        self._open[kind].append(place)
        if place.run(which_database(self._sql)) != self._meant:
            raise ConfigurationError(
                "the inbox was given another database than the one to prove on: a proof would write to it"
            )
        return place

    @cached_property
    def _meant(self) -> Row:
        with psycopg.connect(self._database) as conn:
            return PsycopgRunner(conn).run(which_database(self._sql))


def _openers(given: Any, database: str) -> Mapping[Kind, Callable[[], Place]]:  # noqa: ANN401 - whatever an Inbox takes
    match given:
        case None | str():
            return {
                "sync": lambda: PsycopgPlace(partial(psycopg.connect, database)),
                "async": lambda: PsycopgPlace(partial(LoopConnection.connect, database), loop=True),
            }
        case ConnectionPool():
            # As the pool itself makes one, with what the user has it do to each; no other name does all of it.
            return {"sync": lambda: PsycopgPlace(given._connect)}  # noqa: SLF001 - as said
        case AsyncConnectionPool():
            return {"async": lambda: PsycopgPlace(given._connect, loop=True)}  # noqa: SLF001 - as above
        case Django(testcase=True):
            raise ConfigurationError(
                "Django(..., testcase=True) lives in one transaction of a test's: prove on Django(...), in a "
                "TransactionTestCase or with transactional_db"
            )
        case _:
            return _lent(given)


def _lent(given: Any) -> Mapping[Kind, Callable[[], Place]]:  # noqa: ANN401 - as above
    def opened() -> Place:
        world = world_of(_alike(given), settings=Settings(), probe=no_probe)
        assert world is not None  # noqa: S101 - the inbox was made of it
        return LentPlace(world.lender, loop=world.loops is not None)

    return {"sync": opened, "async": opened}


def _alike(given: Any) -> Any:  # noqa: ANN401 - as above
    """Give what connects as *given* does, with no connection in common: each event loop needs its own."""
    if isinstance(given, Django):
        return given  # a thread has its own anyway
    if isinstance(given, partial):
        return partial(given, **_SIZES)
    if type(given).__module__.startswith("asyncpg."):
        return _pool_alike(given)
    from webhook_inbox.testing.proof.engines import engine_alike

    return engine_alike(given)


def _pool_alike(pool: Any) -> Any:  # noqa: ANN401 - asyncpg has no types
    from asyncpg import create_pool

    try:
        arguments, options = pool._connect_args, pool._connect_kwargs  # noqa: SLF001 - it has no public name
        more = {
            name: getattr(pool, f"_{name}") for name in ("connection_class", "init", "record_class", "setup")
        }
    except AttributeError as error:
        raise ConfigurationError(
            "this release of asyncpg does not tell how its pool connects: give "
            "Inbox(partial(asyncpg.create_pool, ...))"
        ) from error
    return partial(create_pool, *arguments, **{**options, **more, **_SIZES})
