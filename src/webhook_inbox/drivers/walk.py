"""Walk through a plan, step by step; drivers differ only in how they wait for a step's result."""

from __future__ import annotations

import inspect
import secrets
from typing import Generic, TypeVar, assert_never, cast

from webhook_inbox.errors import HandlerFailedError, HandlerTimeoutError, InboxError, StoreUnavailableError
from webhook_inbox.protocol.probe import Probe, no_probe
from webhook_inbox.protocol.steps import (
    Commit,
    Plan,
    Release,
    Rollback,
    RollbackTo,
    Run,
    Savepoint,
    Step,
    parts,
    step_name,
)

T = TypeVar("T")
# Nobody names it by accident: a handler that went back to it would undo its effect and keep its mark (P-ONCE).
SAVEPOINT = f"webhook_inbox_{secrets.token_hex(4)}"


class Walk(Generic[T]):
    """
    Hold one run of a plan: ask for a ``step``, perform it, say what came of it, until there is none.

    Args:
        plan: A plan that has not started.
        probe: Told ``<plan>.<step>.before`` and ``.after`` of each step.
    """

    __slots__ = ("_error", "_name", "_plan", "_points", "_probe", "_result", "_value")

    def __init__(self, plan: Plan[T], *, probe: Probe) -> None:
        self._plan = plan
        self._probe = probe
        self._name = getattr(plan, "__name__", "plan")
        self._points: tuple[str, ...] = ()
        self._result: object = None
        self._error: InboxError | None = None
        self._value: T | None = None

    def step(self) -> Step | None:
        """
        Give the next step, or None where the plan has returned its ``value``.

        Raises:
            InboxError: Whatever the plan raises, for instance the error of a step that it does not handle.
        """
        for point in self._points:
            self._probe(f"{point}.after")
        result, error, self._result, self._error = self._result, self._error, None, None
        try:
            step = self._plan.send(result) if error is None else self._plan.throw(error)
        except StopIteration as stop:
            self._value = stop.value
            return None
        if self._probe is not no_probe:
            self._points = tuple(f"{self._name}.{step_name(part)}" for part in parts(step))
            for point in self._points:
                self._probe(f"{point}.before")
        return step

    def succeeded(self, result: object) -> None:
        """Take the result of the step."""
        self._result = result

    def failed(self, error: InboxError) -> None:
        """Take the error of the step; it is thrown into the plan."""
        self._error = error

    @property
    def value(self) -> T:
        """Give what the plan returned."""
        return cast("T", self._value)

    def close(self) -> None:
        """End the plan where it stands."""
        self._plan.close()


class NotBegunError(Exception):
    """Say that a plan could not even begin, on a connection that is dead; nothing can have been applied."""

    def __init__(self, reason: StoreUnavailableError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def commands(step: Savepoint | RollbackTo | Release | Commit | Rollback) -> tuple[str, ...]:
    """Give the SQL of a step that has neither parameters nor a result, one text a statement."""
    match step:
        case Savepoint():
            return (f"SAVEPOINT {SAVEPOINT}",)
        case RollbackTo():
            return (f"ROLLBACK TO SAVEPOINT {SAVEPOINT}", f"RELEASE SAVEPOINT {SAVEPOINT}")
        case Release():
            return (f"RELEASE SAVEPOINT {SAVEPOINT}",)
        case Commit():
            return ("COMMIT",)
        case Rollback():
            return ("ROLLBACK",)
        case _:
            assert_never(step)


def too_long(step: Run) -> HandlerTimeoutError:
    """Say that a handler overran its time."""
    return HandlerTimeoutError(
        f"{step.name} took longer than {step.seconds_max}s (setting handler_seconds_max)"
    )


def refuse_awaitable(step: Run, given: object) -> None:
    """
    Refuse the work of an ``async def`` handler on a connection that cannot await it: it would have no effect (P-ONCE).

    Raises:
        HandlerFailedError: *given* is awaitable.
    """
    if inspect.isawaitable(given):
        if inspect.iscoroutine(given):
            given.close()
        raise HandlerFailedError(f"{step.name} is async def, but was run on a thread; nothing is applied")
