"""
Name the steps of a flow: what the receive path must wait for, beside a plan's own statements.

A *flow* is to plans what a plan is to steps: written once, it asks for what must be waited for and never waits itself.
The runtime drives it on threads or on an event loop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from webhook_inbox.errors import ConflictError
from webhook_inbox.model.arrival import Arrival
from webhook_inbox.model.event import Event, EventKey
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.model.steering import STEERING, Steering
from webhook_inbox.protocol.handlers import Handler, Kind
from webhook_inbox.protocol.recording import Recording
from webhook_inbox.protocol.steps import Plan

_CONFLICT_RETRIES_MAX = 5
_CONFLICT_PAUSE_SECONDS = 0.05
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """
    Call the user's *function* with *argument*, awaiting its answer where it is awaitable.

    Attributes:
        seconds_max: How long it may take, on an event loop; None: as long as it likes.
    """

    function: Callable[..., object]
    argument: object
    seconds_max: float | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold *keys* within this process until the flow ends; gives those that no rival kept for *seconds*."""

    keys: tuple[EventKey, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Transact:
    """Run a fresh plan on a connection; *kind* says which sort of handlers it runs, None: none."""

    plan: Callable[[], Plan[Any]]
    kind: Kind | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Prepare:
    """
    Call a handler's prepare stage with its *event*, outside any transaction; gives its answer, or a
    ``Steering`` that it raised.

    Anything else it raises is thrown into the flow as a ``HandlerError``.
    """

    name: str
    function: Callable[[Event], Any]
    event: Event
    seconds_max: float


@dataclass(frozen=True, slots=True)
class Enqueue:
    """
    Record *arrivals* for the worker, together with whatever else is to be recorded just now; gives one result
    each.
    """

    arrivals: tuple[Arrival, ...]
    to: Recording
    revive: bool


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Say what may be answered from now on, though the flow goes on."""

    result: EventResult


@dataclass(frozen=True, slots=True)
class Apart:
    """Run *flow* to its end by itself, so that the keys it holds are given back then; gives what it returns."""

    flow: Flow[Any]


FlowStep: TypeAlias = Apart | Ask | Hold | Transact | Pause | Prepare | Enqueue | Acknowledge
Flow: TypeAlias = Generator["FlowStep", Any, T]


def once(plan: Callable[[], Plan[T]]) -> Flow[T]:
    """Run *plan*, which runs no handler."""
    done: T = yield Transact(plan, None)
    return done


def prepare(
    handlers: Iterable[Handler], event: Event, seconds_max: float
) -> Flow[tuple[Any, ...] | Steering]:
    """
    Run the prepare stages of *handlers* in order, each within *seconds_max*.

    Returns:
        What each gave, None where a handler has none; or what the first that steered has raised.
    """
    prepared: list[Any] = []
    for handler in handlers:
        answer = None
        if handler.prepare is not None:
            answer = yield Prepare(handler.name, handler.prepare, event, seconds_max)
        if isinstance(answer, STEERING):
            return answer
        prepared.append(answer)
    return tuple(prepared)


def transact(plan: Callable[[], Plan[T]], kind: Kind | None) -> Flow[T]:
    """
    Run *plan* again at once, a bounded number of times, where the server chose it as a deadlock's or serialization's
    victim.
    """
    for attempt in range(1, _CONFLICT_RETRIES_MAX + 1):
        try:
            done: T = yield Transact(plan, kind)
        except ConflictError:
            if attempt == _CONFLICT_RETRIES_MAX:
                raise
            yield Pause(random.uniform(0, _CONFLICT_PAUSE_SECONDS * 2**attempt))  # noqa: S311 - jitter, not a secret
        else:
            return done
    raise AssertionError("unreachable")
