"""Call the functions that users gave to hear of errors and of dead events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from webhook_inbox.model.failure import describe
from webhook_inbox.model.receipt import EventResult
from webhook_inbox.telemetry.events import HOOK_FAILED

ErrorHook = Callable[[str, BaseException], None]
DeadHook = Callable[[str, EventResult], None]


class Hooks:
    """
    Hold the hooks of one inbox; one that raises is logged and turns no answer around.

    Attributes:
        on_error: Called with (endpoint name, exception).
        on_dead: Called with (endpoint name, result).
    """

    def __init__(self) -> None:
        self.on_error: list[ErrorHook] = []
        self.on_dead: list[DeadHook] = []

    def error(self, endpoint: str, error: BaseException) -> None:
        """Tell of an exception that made a delivery or a run fail."""
        _call(self.on_error, endpoint, error)

    def dead(self, endpoint: str, result: EventResult) -> None:
        """Tell of an event that was committed as dead."""
        _call(self.on_dead, endpoint, result)


def _call(hooks: Iterable[Callable[[str, Any], None]], endpoint: str, subject: object) -> None:
    for hook in hooks:
        try:
            hook(endpoint, subject)
        except Exception as error:  # noqa: BLE001 - a hook of the user's must not turn an answer around
            HOOK_FAILED.log(endpoint, describe(error))
