"""Run a loop of the inbox's, a worker's or a relay's, in this thread until it ends or is told to."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from typing import TypeVar

from webhook_inbox.cli.failures import BAD, GOOD
from webhook_inbox.cli.output import counted, say
from webhook_inbox.cli.stop_signals import told_to_stop
from webhook_inbox.inbox import Inbox

T = TypeVar("T")
S = TypeVar("S", bound=StrEnum)


def until_told(
    inbox: Inbox,
    loop: Callable[[asyncio.Event], Awaitable[T]],
    *,
    drain: bool,
    announce: Callable[[], None] | None,
) -> tuple[T, bool]:
    """
    Run *loop* while *inbox* runs; the event that it takes is set by the first signal.

    Args:
        drain: Whether it also ends by itself; told to stop before that, it has not done what it was to do.
        announce: Says that it runs; None: nobody wants to know.

    Returns:
        What it gave, and whether it was told to stop.
    """

    async def run() -> tuple[T, bool]:
        running, stop = asyncio.get_running_loop(), asyncio.Event()

        def ask() -> None:
            running.call_soon_threadsafe(stop.set)  # first: whoever reads what is said may keep it waiting
            say(f"stopping; what is under way has {inbox.stop_seconds_max:g} s")

        with told_to_stop(ask, seconds_max=inbox.stop_seconds_max) as ending:
            if announce is not None:
                announce()  # not before signals are heard: who reads it may stop us at once
            async with inbox.running():
                given = await loop(stop)
            ending.code = BAD if drain and stop.is_set() else GOOD
            return given, stop.is_set()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(run())


def counts(outcomes: Counter[S], kinds: Iterable[S]) -> dict[str, int]:
    """Give the outcomes there were, in the order of *kinds*: the good ones first."""
    return {each.value: outcomes[each] for each in kinds if outcomes[each]}


def counts_said(total: int, one: str, told: dict[str, int]) -> str:
    """Say them: ``3 runs: 2 processed, 1 dead``."""
    said = [f"{number} {name.replace('_', ' ')}" for name, number in told.items()]
    return ": ".join(filter(None, [counted(total, one), ", ".join(said)]))


def _loop_factory() -> Callable[[], AbstractEventLoop] | None:
    """Give the loop that `serve` runs on, where that extra is installed."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    return new_event_loop
