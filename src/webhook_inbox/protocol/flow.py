"""
Name the steps of a flow: what the receive path must wait for, beside a plan's own statements.

A *flow* is to plans what a plan is to steps: written once, it asks for what must be waited for and never waits itself.
The runtime drives it on threads or on an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from webhook_inbox.model.event import EventKey
from webhook_inbox.protocol.handlers import Kind
from webhook_inbox.protocol.steps import Plan

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


FlowStep: TypeAlias = Ask | Hold | Transact | Pause
Flow: TypeAlias = Generator[FlowStep, Any, T]
