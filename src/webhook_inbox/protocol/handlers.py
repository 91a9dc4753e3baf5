"""Match events to the functions that users registered for their types."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Never, TypeAlias, TypeVar

from webhook_inbox.errors import ConfigurationError
from webhook_inbox.model.event import Event

Kind: TypeAlias = Literal["sync", "async"]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Pattern:
    """
    Match event types: ``invoice.paid`` literally, ``invoice.*`` by prefix, ``*`` all.

    Raises:
        ConfigurationError: Empty, or a ``*`` anywhere but at the end.
    """

    text: str

    def __post_init__(self) -> None:
        """Refuse what could never match or would surprise."""
        if not isinstance(self.text, str) or not self.text or "*" in self.text[:-1]:
            raise ConfigurationError(f"event type {self.text!r} is no type, prefix with a final *, or *")

    @property
    def prefix(self) -> str | None:
        """Give what comes before the final ``*``, or None for a literal type."""
        return self.text[:-1] if self.text.endswith("*") else None

    def matches(self, event_type: str) -> bool:
        """Say whether an event of *event_type* is meant."""
        prefix = self.prefix
        return event_type == self.text if prefix is None else event_type.startswith(prefix)

    def overlaps(self, other: Pattern) -> bool:
        """Say whether some event type matches both."""
        mine, theirs = self.prefix, other.prefix
        if mine is None:
            return other.matches(self.text)
        if theirs is None:
            return self.matches(other.text)
        return mine.startswith(theirs) or theirs.startswith(mine)


@dataclass(frozen=True, slots=True)
class Handler:
    """
    Hold one registered function.

    Attributes:
        pattern: Which event types it is for.
        function: Called with (tx, event).
        kind: ``sync`` for ``def``, ``async`` for ``async def``.
        name: ``module.qualname``, for message ids, logs and fault points; the same in every process that registers the
            same handlers in the same order.
        batch: Whether it takes a list of events; then no other handler shares its types.
        prepare: Called with the event before the transaction begins; its answer is the function's third argument.
        pipeline: Whether its statements are sent without waiting for the answer of each.
    """

    pattern: Pattern
    function: Callable[..., Any]
    kind: Kind
    name: str
    batch: bool = False
    prepare: Callable[..., Any] | None = None
    pipeline: bool = False


class Handlers:
    """
    Collect handlers, in registration order, without knowing any inbox.

    Put them on an endpoint with ``endpoint.include(handlers)``.
    """

    def __init__(self) -> None:
        self._handlers: list[Handler] = []

    def on(
        self, *event_types: str, prepare: Callable[[Event], Any] | None = None, pipeline: bool = False
    ) -> Callable[[Function], Function]:
        """
        Register the decorated function for each of *event_types*: literal, ``prefix.*`` or ``*``.

        The function takes (tx, event); it may be ``def`` or ``async def``. All that match a type run in registration
        order in one transaction; the first that raises decides for all.

        Args:
            prepare: A first half that runs outside the transaction, after a plain look for a duplicate, for
                what takes long: fetching the object from the provider's API. It takes the event, may run
                again, and must have no effect; what it gives is the function's third argument.
            pipeline: Send the function's statements without waiting for the answer of each (libpq's pipeline mode).
                For one that writes and reads nothing: a read waits for the answer all the same. What the server
                refuses is raised when the function returns, so it cannot catch it. A driver that has no pipeline
                waits for each.

        Raises:
            ConfigurationError: No type, a bad pattern, a function that cannot take its arguments or that has ``yield``,
                or ``def`` and ``async def`` for one event type.
        """
        return self._registering(event_types, prepare=prepare, pipeline=pipeline)

    def on_batch(self, *event_types: str, **unfit: Never) -> Callable[[Function], Function]:
        """
        Register the decorated function as set-based: it takes (tx, list of events), one transaction, one effect each.

        The events of a call are due together and of one endpoint; on an error they run again in halves, down to lists
        of one. Say to which event a message belongs: ``tx.emit(..., event=event)``.

        Raises:
            ConfigurationError: As ``on``, or another handler shares one of the types; or *unfit* are options of ``on``.
        """
        if unfit:
            raise ConfigurationError(
                f"on_batch() takes no {' or '.join(unfit)}: its handler has all events in hand, so that one statement "
                "serves them all; write it so, or use on()"
            )
        return self._registering(event_types, batch=True)

    def _registering(
        self,
        event_types: tuple[str, ...],
        **options: Any,  # noqa: ANN401 - as ``_handler`` takes them
    ) -> Callable[[Function], Function]:
        if not event_types or not all(isinstance(given, str) for given in event_types):
            raise ConfigurationError('on() needs the event types it is for: @endpoint.on("invoice.paid")')

        def register(function: Function) -> Function:
            for event_type in event_types:
                self.add(_handler(Pattern(event_type), function, **options))
            return function

        return register

    def include(self, handlers: Handlers) -> None:
        """
        Register every handler of *handlers* here, in its order.

        Raises:
            ConfigurationError: As ``on``.
        """
        for handler in handlers:
            self.add(handler)

    def add(self, handler: Handler) -> None:
        """
        Register one handler.

        Raises:
            ConfigurationError: As ``on``.
        """
        for other in self._handlers:
            if other.function == handler.function and other.pattern == handler.pattern:
                raise ConfigurationError(f"{handler.name} is registered twice for {handler.pattern.text!r}")
            if (other.batch or handler.batch) and other.pattern.overlaps(handler.pattern):
                raise ConfigurationError(
                    f"{other.name} and {handler.name} share {handler.pattern.text!r}, "
                    "but a set-based handler stands alone"
                )
            if other.kind != handler.kind and other.pattern.overlaps(handler.pattern):
                raise ConfigurationError(
                    f"{other.name} ({other.kind}) and {handler.name} ({handler.kind}) would share the transaction "
                    f"of one {handler.pattern.text!r} event; write both as def or both as async def"
                )
        self._handlers.append(replace(handler, name=self._name_of(handler)))

    def _name_of(self, handler: Handler) -> str:
        """Tell functions apart that share a name, as closures and lambdas do: message ids are made from it."""
        for other in self._handlers:
            if other.function == handler.function:
                return other.name
        taken = {other.name for other in self._handlers}
        name, number = handler.name, 1
        while name in taken:
            number += 1
            name = f"{handler.name}#{number}"
        return name

    def matching(self, event_type: str) -> tuple[Handler, ...]:
        """Give the handlers for *event_type*, in registration order, each function once."""
        found: list[Handler] = []
        for handler in self._handlers:
            # Compared, not hashed: a callable object need not be hashable.
            if handler.pattern.matches(event_type) and all(
                handler.function != other.function for other in found
            ):
                found.append(handler)
        return tuple(found)

    def __iter__(self) -> Iterator[Handler]:
        return iter(self._handlers)


def _handler(
    pattern: Pattern,
    function: Callable[..., Any],
    *,
    batch: bool = False,
    prepare: Callable[[Event], Any] | None = None,
    pipeline: bool = False,
) -> Handler:
    named = _unbound(function)
    name = f"{named.__module__}.{getattr(named, '__qualname__', type(named).__qualname__)}"
    try:
        inspect.signature(function).bind(*[None] * (2 if prepare is None else 3))
    except (TypeError, ValueError):
        called = "handler(tx, event)" if prepare is None else "handler(tx, event, prepared)"
        raise ConfigurationError(f"{name} cannot be called as {called}") from None
    target = named if inspect.isroutine(named) else type(named).__call__
    written = inspect.unwrap(target)
    if any(map(inspect.isgeneratorfunction, (target, written))) or inspect.isasyncgenfunction(written):
        raise ConfigurationError(f"{name} has yield in it, so that calling it would not run it")
    kind: Kind = "async" if any(map(inspect.iscoroutinefunction, (target, written))) else "sync"
    return Handler(pattern, function, kind, name, batch, prepare, pipeline)


def _unbound(function: Any) -> Any:  # noqa: ANN401 - any callable
    """Give the function that a ``functools.partial`` was made of."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
