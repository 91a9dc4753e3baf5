"""Make SQLAlchemy engines that connect as another does, and have no connection in common with it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine


def engine_alike(given: Any) -> Any:  # noqa: ANN401 - an engine or a sessionmaker, of either kind
    """Give such an engine, or a ``sessionmaker`` that is bound to one; without listeners of the engine's own."""
    if isinstance(given, AsyncEngine):
        return AsyncEngine(_alike(given.sync_engine))
    if isinstance(given, Engine):
        return _alike(given)
    options = {**given.kw, "bind": engine_alike(given.kw["bind"])}
    return type(given)(class_=given.class_, **options)


def _alike(engine: Engine) -> Engine:
    return Engine(
        engine.pool.recreate(),
        engine.dialect,
        engine.url,
        execution_options=engine.get_execution_options(),
    )
