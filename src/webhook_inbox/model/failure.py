"""
Describe an exception without what it says.

The text of an exception is made by whoever raised it and may quote the payload: a driver's error shows the offending
row, a handler's ``ValueError`` the value. Logs, answers and stored errors therefore carry the exception's type, its
SQLSTATE and constraint, and where it was raised: enough to find the line, nothing of the event (P-QUIET).
``inbox.on_error`` hands the exception itself to the user's code.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FRAMES_MAX = 12
_CAUSES_MAX = 5
_PACKAGE = Path(__file__).parents[1]
# Our rooms, but for the demo, which is a user; whatever pip installed; and Python's own library.
_NOT_THE_USERS = (
    *(f"{room}/" for room in _PACKAGE.iterdir() if room.is_dir() and room.name != "demo"),
    *(str(module) for module in _PACKAGE.glob("*.py")),
    *(sysconfig.get_paths()[name] + "/" for name in ("purelib", "platlib", "stdlib")),
    "psycopg_binary",
    "waiting.pyx",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    Hold what may be shown of an exception.

    Attributes:
        type: ``module.Class`` of the exception that started it.
        sqlstate: Five characters, or empty.
        constraint: Name of the violated constraint, or empty.
        frames: ``file:line function`` of the user's own code, outermost first, at most 12, the innermost kept; every
            frame where none is the user's.
    """

    type: str
    sqlstate: str = ""
    constraint: str = ""
    frames: tuple[str, ...] = ()

    def __str__(self) -> str:
        """
        Give one line: ``psycopg.errors.UniqueViolation (SQLSTATE 23505, constraint ledger_once) at billing.py:42
        book_payment``.
        """
        facts = [f"SQLSTATE {self.sqlstate}"] if self.sqlstate else []
        facts += [f"constraint {self.constraint}"] if self.constraint else []
        where = f" at {self.frames[-1]}" if self.frames else ""
        shown = f" ({', '.join(facts)})" if facts else ""
        return f"{self.type}{shown}{where}"


def describe(error: BaseException) -> Failure:
    """Give what may be shown of *error*; of an error of ours that wraps another, of the one it wraps."""
    root = error.__cause__ or error
    kind = type(root)
    frames = _users(traceback.extract_tb(root.__traceback__))
    causes = list(_causes(root))
    sqlstate = next((state for each in (*causes, error) if (state := getattr(each, "sqlstate", None))), "")
    constraint = next((name for each in causes if (name := _constraint(each))), "")
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return Failure(type=name, sqlstate=sqlstate, constraint=constraint, frames=frames[-_FRAMES_MAX:])


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Walk from *error* to the driver's own, around which SQLAlchemy and Django put theirs."""
    for _ in range(_CAUSES_MAX):
        if error is None:
            return
        yield error
        error = error.__cause__


def _constraint(error: BaseException) -> str | None:
    """Give the constraint that psycopg's error names, or asyncpg's."""
    name: str | None = getattr(getattr(error, "diag", error), "constraint_name", None)
    return name


def _users(stack: traceback.StackSummary) -> tuple[str, ...]:
    """Give the frames of the user's own code, which is where to look; all of them where there are none."""
    own = [frame for frame in stack if not frame.filename.startswith(_NOT_THE_USERS)]
    shown = own or list(stack)
    return tuple(f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in shown)
