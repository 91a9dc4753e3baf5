"""Watch where plans and flows stand when they ask for a step, so that no step is left out of what is killed at."""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, TypeAlias

from webhook_inbox.drivers.walk import Walk
from webhook_inbox.protocol.probe import no_probe
from webhook_inbox.protocol.steps import Step

#: Module, function, line.
Place: TypeAlias = tuple[str, str, int]


def yields_of(*modules: ModuleType) -> set[Place]:
    """Every place in *modules* where a step is asked for, read from their source."""
    return {
        (module.__name__, function.name, node.lineno)
        for module in modules
        for function in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Yield)
    }


class YieldWatch:
    """
    Remember each place of *modules* from which a step was asked for, on any thread that starts while it watches.

    A plan's step counts only where it has fault points: where its driver tells them to somebody.
    """

    def __init__(self, *modules: ModuleType) -> None:
        self._modules = {module.__name__ for module in modules}
        self.places: set[Place] = set()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch this thread and those that begin within the block."""
        before = sys.getprofile()
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(None)

    def __call__(self, frame: FrameType, event: str, given: Any) -> None:
        """Be told of a call or a return; a generator returns to its caller when it yields."""
        if event != "return" or frame.f_globals.get("__name__") not in self._modules:
            return
        if not isinstance(given, Step) or _has_points(frame):
            self.places.add((frame.f_globals["__name__"], frame.f_code.co_name, frame.f_lineno))


def _has_points(plan: FrameType) -> bool:
    """Whether whoever drives *plan* tells its fault points."""
    frame: FrameType | None = plan
    while frame is not None:
        driver = frame.f_locals.get("self")
        if isinstance(driver, Walk):
            return driver._probe is not no_probe
        frame = frame.f_back
    return False
