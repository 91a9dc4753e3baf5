"""
Notice a statement that an ``async def`` handler has called for and never awaited.

``tx.conn.execute(...)`` without ``await`` makes a coroutine and sends nothing: the handler returns, and its event would
be processed without its effect (P-ONCE). Python itself only warns, on stderr and too late. So what a handler gets keeps
account of the coroutines that its methods make, and one that was never begun is a failure by name.

Measured: 0.6 µs for each call, of which psycopg's ``execute`` makes two, and 2 µs for each handler. It sees the methods
that send statements, of what the handler was given; not an ``async def`` function of the user's own that is called
without ``await``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from webhook_inbox.errors import HandlerFailedError


class Unawaited:
    """Keep the coroutines of one handler that have not been begun yet."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: list[tuple[str, Any]] = []

    def note(self, name: str, made: Any) -> Any:  # noqa: ANN401 - whatever the method gives
        """Remember *made*, which the method *name* gives, and give it on."""
        while self._made and _begun(self._made[-1][1]):
            self._made.pop()
        if inspect.iscoroutine(made):
            self._made.append((name, made))
        return made

    def noting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Give *method* so that what it makes is remembered."""
        return lambda *arguments, **options: self.note(name, method(*arguments, **options))

    def check(self, handler: str) -> None:
        """
        Refuse to go on where something was never begun; it never will be.

        Raises:
            HandlerFailedError: Names *handler* and the first of the methods.
        """
        forgotten = [(name, made) for name, made in self._made if not _begun(made)]
        self._made.clear()
        for _, made in forgotten:
            made.close()  # a task that has it already would run it in somebody else's transaction
        if forgotten:
            name, _ = forgotten[0]
            raise HandlerFailedError(
                f"{handler} called {name} without await, which does nothing; nothing is applied. "
                f"Write: await {name}(...)"
            )


def _begun(made: Any) -> bool:  # noqa: ANN401 - a coroutine
    return inspect.getcoroutinestate(made) != inspect.CORO_CREATED
