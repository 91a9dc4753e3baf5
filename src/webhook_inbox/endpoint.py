"""Hold one endpoint: the name that a provider posts to, and the functions that its events are for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never, Protocol, TypeVar

from webhook_inbox.model.event import Event
from webhook_inbox.protocol.endpoint import EndpointPlan
from webhook_inbox.protocol.handlers import Handler, Handlers

Function = TypeVar("Function", bound=Callable[..., Any])


class Decorator(Protocol):
    """Take a function and give it back, typed as it was."""

    def __call__(self, function: Function, /) -> Function:
        """Register *function*."""
        ...


class Endpoint:
    """
    Hold one endpoint: who sends to it, and what to do with their events.

    Made by ``Inbox.endpoint``.

    Attributes:
        plan: Everything that is configured about it.
    """

    def __init__(self, plan: EndpointPlan, serves: Callable[[Handler], None]) -> None:
        self.plan = plan
        self._serves = serves

    @property
    def name(self) -> str:
        """Give the path segment that the provider posts to."""
        return self.plan.name

    def on(
        self, *event_types: str, prepare: Callable[[Event], Any] | None = None, pipeline: bool = False
    ) -> Decorator:
        """
        Register the decorated function for *event_types*; see ``Handlers.on``.

        Raises:
            ConfigurationError: As ``Handlers.on``, or the database given cannot serve this kind of function.
        """
        return self._included(lambda handlers: handlers.on(*event_types, prepare=prepare, pipeline=pipeline))

    def on_batch(self, *event_types: str, **unfit: Never) -> Decorator:
        """
        Register the decorated function as set-based for *event_types*; see ``Handlers.on_batch``.

        Raises:
            ConfigurationError: As ``on``.
        """
        return self._included(lambda handlers: handlers.on_batch(*event_types, **unfit))

    def include(self, handlers: Handlers) -> None:
        """
        Register every handler of *handlers* here, in its order.

        Raises:
            ConfigurationError: As ``on``.
        """
        for handler in handlers:
            self._serves(handler)
        self.plan.handlers.include(handlers)

    def _included(self, registering: Callable[[Handlers], Decorator]) -> Decorator:
        registering(
            Handlers()
        )  # what is wrong with it already is told at once: ``@endpoint.on`` without parentheses

        def register(function: Function) -> Function:
            handlers = Handlers()
            registering(handlers)(function)
            self.include(handlers)
            return function

        return register
