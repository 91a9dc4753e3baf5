"""
Describe an exception without what it says.

The text of an exception is made by whoever raised it and may quote the payload: a driver's error shows the offending
row, a handler's ``ValueError`` the value. Logs, answers and stored errors therefore carry the exception's type, its
SQLSTATE and constraint, and where it was raised: enough to find the line, nothing of the event (P-QUIET).
``inbox.on_error`` hands the exception itself to the user's code.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

_FRAMES_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    Hold what may be shown of an exception.

    Attributes:
        type: ``module.Class`` of the exception that started it.
        sqlstate: Five characters, or empty.
        constraint: Name of the violated constraint, or empty.
        frames: ``file:line function``, outermost first, at most 12, the innermost kept.
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
    frames = tuple(
        f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(root.__traceback__)
    )
    sqlstate = getattr(root, "sqlstate", None) or getattr(error, "sqlstate", None) or ""
    constraint = getattr(getattr(root, "diag", None), "constraint_name", None) or ""
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return Failure(type=name, sqlstate=sqlstate, constraint=constraint, frames=frames[-_FRAMES_MAX:])
