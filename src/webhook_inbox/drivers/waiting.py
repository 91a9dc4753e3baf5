"""
Wait for a connection, on a thread or on an event loop, for code that is written once.

A *doing* is a generator that yields whatever a driver's method has given it, and receives its value. On a thread that
is the value already; on an event loop it is an awaitable of it. What waiting raises rises where the doing stands, so
its ``try`` and ``finally`` read as if it waited itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Doing: TypeAlias = Generator[Any, Any, T]
#: ``on_thread``, or ``on_loop``, which gives a coroutine.
Wait: TypeAlias = Callable[[Doing[Any]], Any]


class Left(BaseException):
    """
    Stand in for a GeneratorExit that what is waited for has raised.

    Thrown into a generator, GeneratorExit itself would close whatever that one delegates to, and its ``finally`` could
    wait for nothing any more (PEP 380).
    """


def on_thread(doing: Doing[T]) -> T:
    """Do *doing* to its end: what it yields has been waited for by whoever made it."""
    value = None
    while True:
        try:
            value = doing.send(value)
        except StopIteration as stop:
            done: T = stop.value
            return done


async def on_loop(doing: Doing[T]) -> T:
    """Do *doing* to its end, awaiting what it yields."""
    value: object = None
    error: BaseException | None = None
    while True:
        try:
            given = doing.send(value) if error is None else doing.throw(error)
        except StopIteration as stop:
            done: T = stop.value
            return done
        except Left:
            raise GeneratorExit from None
        value, error = None, None
        try:
            value = await given
        except GeneratorExit:
            error = Left()
        except BaseException as raised:  # noqa: BLE001 - it is the doing's affair
            error = raised


def is_cancelled(raised: BaseException) -> bool:
    """Say whether *raised* asks this very task to end, rather than being the affair of what was awaited."""
    task = asyncio.current_task()
    return isinstance(raised, asyncio.CancelledError) and task is not None and task.cancelling() > 0
