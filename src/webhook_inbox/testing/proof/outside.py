"""Notice what a handler does outside of its database: no rollback undoes it, and the next attempt does it again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial, wraps
from typing import Any

from webhook_inbox.protocol.handlers import Handler

_CALLS = {
    "socket.connect",
    "socket.sendto",
    "subprocess.Popen",
    "os.system",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
}
_WRITING = os.O_WRONLY | os.O_RDWR
#: Who hears of it; tasks and ``asyncio.to_thread`` inherit it from the handler that made them.
_told: ContextVar[Callable[[str], object] | None] = ContextVar("told", default=None)


def watched(handler: Handler, told: Callable[[str, str], object]) -> Callable[..., Any]:
    """
    Give the function of *handler* so that *told* hears what it does outside while it runs: its name, and what.

    Python's audit events tell it (PEP 578); what a C library does by itself, as libpq does, they do not.
    """
    _listen()
    hears = partial(told, handler.name)

    @wraps(handler.function)
    def listened(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the user's function
        with _telling(hears):
            return handler.function(*args, **kwargs)

    @wraps(handler.function)
    async def listened_on_loop(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as above
        with _telling(hears):
            return await handler.function(*args, **kwargs)

    return listened if handler.kind == "sync" else listened_on_loop


@contextmanager
def _telling(hears: Callable[[str], object]) -> Iterator[None]:
    token = _told.set(hears)
    try:
        yield
    finally:
        _told.reset(token)


@cache
def _listen() -> None:
    """Listen from now on: a hook cannot be taken away again, but it hears nothing where nobody watches."""
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    told = _told.get()
    if told is None:
        return
    if event in _CALLS:
        told(event)
    elif event == "open" and arguments[2] & _WRITING and "__pycache__" not in str(arguments[0]):
        told("open, for writing")
