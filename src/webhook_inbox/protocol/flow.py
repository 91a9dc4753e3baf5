"""
Name the steps of a flow: what the receive path must wait for, beside a plan's own statements.

A *flow* is to plans what a plan is to steps: written once, it asks for what must be waited for and never waits itself.
The runtime drives it on threads or on an event loop.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from webhook_inbox.errors import ConflictError
from webhook_inbox.model.arrival import Arrival
from webhook_inbox.model.event import Event, EventKey
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.protocol.handlers import Kind
from webhook_inbox.protocol.recording import Recording
from webhook_inbox.protocol.steps import Plan

_CONFLICT_RETRIES_MAX = 5
_CONFLICT_PAUSE_SECONDS = 0.05
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """Call the user's *function* with *argument*, awaiting its answer where it is awaitable."""

    function: Callable[..., object]
    argument: object


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


FlowStep: TypeAlias = Ask | Hold | Transact | Pause | Prepare | Enqueue | Acknowledge
Flow: TypeAlias = Generator[FlowStep, Any, T]


def once(plan: Callable[[], Plan[T]]) -> Flow[T]:
    """Run *plan*, which runs no handler."""
    done: T = yield Transact(plan, None)
    return done


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
